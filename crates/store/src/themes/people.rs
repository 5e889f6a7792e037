//! Accounts.

use std::collections::HashMap;

use codehub_domain::{
    UserId,
    audit::Act,
    user::{Role, User, UserEdit},
};

use super::{Page, theme};
use crate::Result;

/// A user with the password as stored.
#[derive(Debug, Clone)]
pub struct UserWithHash {
    pub user: User,
    /// `None`: this account cannot sign in by password.
    pub password_hash: Option<String>,
}

/// What became of a change of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserChange {
    Done(User),
    NotFound,
    NameTaken,
    /// It would leave nobody who may administer.
    LastAdmin,
    /// The user still owns workspaces that are not deleted.
    OwnsWorkspaces(u64),
}

theme! {
    /// Accounts. Deleted ones are found by nobody. Every change is written to the audit trail with it.
    People, people {
        /// Names are unique without case.
        async fn user_create(
            &self,
            by: &Act,
            id: UserId,
            username: &str,
            password_hash: &str,
            role: Role,
        ) -> Result<UserChange>;
        /// Creates the first admin, only while there is no user at all; `None` otherwise.
        async fn user_create_first(
            &self,
            by: &Act,
            id: UserId,
            username: &str,
            password_hash: &str,
        ) -> Result<Option<User>>;
        /// The account, disabled or not.
        async fn user_get(&self, id: UserId) -> Result<Option<User>>;
        /// Those of the ids that exist.
        async fn users_get(&self, ids: &[UserId]) -> Result<HashMap<UserId, User>>;
        /// Names are compared without case.
        async fn user_by_name(&self, username: &str) -> Result<Option<UserWithHash>>;
        /// Ordered by id.
        async fn user_list(&self, after: Option<UserId>, limit: u32) -> Result<Page<User>>;
        /// Never leaves the deployment without an enabled admin. Ends the user's sessions where
        /// [`UserEdit::applied_to`] says so; a new password deletes the tokens, unless
        /// [`UserEdit::keep_tokens`]; a disabled account's tokens stop working.
        async fn user_edit(&self, by: &Act, id: UserId, edit: UserEdit) -> Result<UserChange>;
        /// Only without living workspaces. Ends the user's sessions and tokens, and frees the name.
        async fn user_delete(&self, by: &Act, id: UserId) -> Result<UserChange>;
        /// How many there are, disabled ones included.
        async fn user_count(&self) -> Result<u64>;
    }
}
