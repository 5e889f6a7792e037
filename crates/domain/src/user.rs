//! People, their sessions and their tokens. Secrets are stored hashed and never appear here.

use crate::{SessionId, Timestamp, TokenId, UserId, named::named_enum};

named_enum! {
    /// What an account may do.
    Role, "role" {
        User => "user",
        Admin => "admin",
    }
}

/// An account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Never changes.
    pub id: UserId,
    /// What they sign in with; unique.
    pub username: String,
    /// What they may do.
    pub role: Role,
    /// Cannot sign in, and has no valid session or token.
    pub disabled: bool,
    /// When it was created.
    pub created_at: Timestamp,
}

impl User {
    /// Whether they administer the deployment.
    pub fn is_admin(&self) -> bool {
        self.role == Role::Admin
    }
}

/// A browser that is signed in. Its secret is only stored hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Names it; no secret.
    pub id: SessionId,
    /// Who is signed in.
    pub user: UserId,
    /// When they signed in.
    pub created_at: Timestamp,
    /// When it ends unless it is used.
    pub expires_at: Timestamp,
}

/// A credential for programs. Its secret is only stored hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiToken {
    /// Names it when it is revoked; no secret.
    pub id: TokenId,
    /// Whose rights it has.
    pub user: UserId,
    /// What its owner calls it.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends; `None` is never.
    pub expires_at: Option<Timestamp>,
    /// Noted about once a minute.
    pub last_used_at: Option<Timestamp>,
}
