pub struct Strict;
