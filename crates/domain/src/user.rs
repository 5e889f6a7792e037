//! People, their sessions and their tokens. Secrets are stored hashed and never appear here.

use crate::{SessionId, Timestamp, TokenId, UserId, named::named_enum};

named_enum! {
    /// What an account may do.
    Role, "role" {
        User => "user",
        Admin => "admin",
    }
}

named_enum! {
    /// The language of the pages.
    Language, "language" {
        English => "en",
        Korean => "ko",
    }
}

named_enum! {
    /// The colours of the pages.
    Theme, "theme" {
        Light => "light",
        Dark => "dark",
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
    /// `None`: what the browser asks for.
    pub language: Option<Language>,
    pub theme: Option<Theme>,
}

impl User {
    /// An account as it begins.
    pub fn new(id: UserId, username: &str, role: Role, now: Timestamp) -> Self {
        let username = username.into();
        Self { id, username, role, disabled: false, created_at: now, language: None, theme: None }
    }

    /// Whether they administer the deployment.
    pub fn is_admin(&self) -> bool {
        self.role == Role::Admin
    }

    /// Whether this account counts when we ask if anybody is left to administer.
    pub fn administers(&self) -> bool {
        self.is_admin() && !self.disabled
    }
}

/// What may be edited of an account; `None` leaves it.
#[derive(Debug, Clone, Default)]
pub struct UserEdit {
    pub password_hash: Option<String>,
    /// A new password leaves the tokens as they are. Only somebody who changes their own may say so.
    pub keep_tokens: bool,
    /// What the cookie of the browser hashes to that stays known to the user, for whoever changes their own password.
    pub keep_device: Option<Vec<u8>>,
    pub role: Option<Role>,
    pub disabled: Option<bool>,
    /// `Some(None)` goes back to what the browser asks for.
    pub language: Option<Option<Language>>,
    pub theme: Option<Option<Theme>>,
}

impl UserEdit {
    /// Whether browsers stop being known to the user: with a new password, and when the account is disabled.
    pub fn revokes_devices(&self) -> bool {
        self.password_hash.is_some() || self.disabled == Some(true)
    }

    /// The account afterwards, and whether its sessions end: they do with a new password, another role, or
    /// when it is disabled or enabled. Language and theme end nothing.
    pub fn applied_to(&self, before: &User) -> (User, bool) {
        let after = User {
            role: self.role.unwrap_or(before.role),
            disabled: self.disabled.unwrap_or(before.disabled),
            language: self.language.unwrap_or(before.language),
            theme: self.theme.unwrap_or(before.theme),
            ..before.clone()
        };
        let ends_sessions =
            self.password_hash.is_some() || (after.role, after.disabled) != (before.role, before.disabled);
        (after, ends_sessions)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_edit_does() {
        let id = UserId::from_uuid(uuid::Uuid::from_u128(1));
        let before = User::new(id, "ann", Role::User, Timestamp::UNIX_EPOCH);
        let none = UserEdit::default;
        for (edit, changes, ends_sessions) in [
            (none(), false, false),
            (UserEdit { role: Some(Role::User), ..none() }, false, false),
            (UserEdit { password_hash: Some("new".into()), ..none() }, false, true),
            (UserEdit { role: Some(Role::Admin), ..none() }, true, true),
            (UserEdit { disabled: Some(true), ..none() }, true, true),
            (UserEdit { language: Some(Some(Language::Korean)), ..none() }, true, false),
            (UserEdit { theme: Some(Some(Theme::Dark)), ..none() }, true, false),
            (UserEdit { theme: Some(None), ..none() }, false, false),
        ] {
            let (after, ends) = edit.applied_to(&before);
            assert_eq!((after != before, ends), (changes, ends_sessions), "{edit:?}");
        }
    }

    #[test]
    fn who_administers() {
        let id = UserId::from_uuid(uuid::Uuid::from_u128(1));
        for (role, disabled, counts) in
            [(Role::User, false, false), (Role::Admin, false, true), (Role::Admin, true, false)]
        {
            let user = User { disabled, ..User::new(id, "ann", role, Timestamp::UNIX_EPOCH) };
            assert_eq!(user.administers(), counts, "{role} {disabled}");
        }
    }
}
