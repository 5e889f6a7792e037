//! Any bytes as a tar stream: an error or a home, never a panic, nothing outside the target.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|tar: &[u8]| codehub_adapters::archive::fuzz_reader(tar));
