//! `codehub admin`: what an operator does on the server's own machine, straight in the database. Works
//! while the server runs, which sees it at its next look.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use codehub_domain::{
    ArchiveKey, Desired, UserId, WorkspaceId,
    audit::{AuditAction, AuditEntry, AuditObject},
    event::Actor,
    recovery::Recovery,
    user::{Role, User},
};
use codehub_runtime::archives::record::{expected, of_expected};
use codehub_store::{Adopted, Recovered, Store, UserChange, UserEdit, belongs_to};
use uuid::Uuid;

use super::password;
use crate::{
    auth::act,
    backends,
    config::{Config, RuntimeKind},
    passwords::Passwords,
    service::Denied,
};
use codehub_coordinator::gc;
use codehub_domain::fields as rules;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// People who may sign in
    #[command(subcommand)]
    User(UserCommand),
    /// Take a workspace out of ERROR
    Recover {
        /// Its id, as in its address
        workspace: String,
        /// Go back to this archive (a key as the API lists it)
        #[arg(long, value_name = "KEY")]
        restore_from: Option<String>,
        /// Give up what is lost (or, with --restore-from, what is newer)
        #[arg(long)]
        accept_data_loss: bool,
        /// What it is to be from now on: running, standby or archived; as it was, unless said
        #[arg(long, value_name = "STATE", value_parser = desired_state)]
        desired_state: Option<Desired>,
    },
    /// The garbage collector
    #[command(subcommand)]
    Gc(GcCommand),
    /// Archived home directories
    #[command(subcommand)]
    Archives(ArchivesCommand),
}

#[derive(Debug, Subcommand)]
pub(super) enum ArchivesCommand {
    /// Take an archive that has no record for ours as it is now, so that it can be restored
    Adopt {
        /// As the error names it: {workspace}/{operation}/home.tar.zst
        key: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum UserCommand {
    /// Create a user; the password is asked for, or read from standard input
    Add {
        /// What they sign in with
        username: String,
        /// May administer
        #[arg(long)]
        admin: bool,
    },
    /// Show all users
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Set a new password; ends the user's sessions and deletes their tokens
    Passwd { username: String },
    /// Keep a user from signing in; the workspaces stay
    Disable { username: String },
    /// Let a disabled user sign in again
    Enable { username: String },
    /// Delete a user who owns no workspaces
    Delete { username: String },
}

#[derive(Debug, Subcommand)]
pub(super) enum GcCommand {
    /// Let the next cycle pass the brake, once
    Approve,
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<()> {
    // What needs a person's typing comes before anything is opened.
    match command {
        Command::User(command) => user(command, config).await,
        Command::Recover { workspace, restore_from, accept_data_loss, desired_state } => {
            let id: WorkspaceId = workspace.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
            let key = restore_from.as_deref().map(str::parse::<ArchiveKey>).transpose();
            let recovery = Recovery {
                restore_from: key.context("--restore-from")?,
                accept_data_loss,
                ..Recovery::default()
            };
            recover(config, &*store(config).await?, id, recovery, desired_state).await
        }
        Command::Gc(GcCommand::Approve) => approve(&*store(config).await?).await,
        Command::Archives(ArchivesCommand::Adopt { key }) => {
            let key: ArchiveKey = key.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
            adopt(config, &*store(config).await?, key).await
        }
    }
}

/// The database that there is.
pub(super) async fn store(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    let path = backends::database_path(config);
    if config.database.url.is_none() && !path.exists() {
        bail!(
            "there is no database at {}: start the server once, run `codehub migrate`, or name the right --data-dir",
            path.display()
        );
    }
    backends::open_store(config).await
}

async fn user(command: UserCommand, config: &Config) -> anyhow::Result<()> {
    let store = store(config).await?;
    match command {
        UserCommand::Add { username, admin } => {
            rules::username(&username).map_err(anyhow::Error::msg)?;
            refuse_second_user_without_sandbox(config, &*store).await?;
            let hash = Passwords::default().hash(&password::read_new()?).await?;
            let role = if admin { Role::Admin } else { Role::User };
            let id = UserId::from_uuid(Uuid::now_v7());
            let user =
                done(&username, store.user_create(&act::operator(), id, &username, &hash, role).await?)?;
            println!("created {} ({})", user.username, user.role);
        }
        UserCommand::List { json } => list(&*store, json).await?,
        UserCommand::Passwd { username } => {
            let user = find(&*store, &username).await?;
            let password_hash = Some(Passwords::default().hash(&password::read_new()?).await?);
            let edit = UserEdit { password_hash, ..UserEdit::default() };
            done(&username, store.user_edit(&act::operator(), user.id, edit).await?)?;
            println!("{username} has a new password; their sessions have ended and their tokens are deleted");
        }
        UserCommand::Disable { username } => set_disabled(&*store, &username, true).await?,
        UserCommand::Enable { username } => set_disabled(&*store, &username, false).await?,
        UserCommand::Delete { username } => {
            let user = find(&*store, &username).await?;
            done(&username, store.user_delete(&act::operator(), user.id).await?)?;
            println!("deleted {username}");
        }
    }
    Ok(())
}

/// As `POST /users` does: a second user would have to be trusted with everything of the first.
async fn refuse_second_user_without_sandbox(config: &Config, store: &dyn Store) -> anyhow::Result<()> {
    if config.runtime.kind != RuntimeKind::Process
        || config.runtime.unsandboxed_users
        || store.user_count().await? == 0
    {
        return Ok(());
    }
    if !backends::build_backends(config).await?.instances.isolates_users() {
        bail!(
            "workspaces run without a sandbox on this server, so users could read and change each other's files: \
             install bubblewrap, or allow it with PROCESS_UNSANDBOXED_USERS=many"
        );
    }
    Ok(())
}

async fn set_disabled(store: &dyn Store, username: &str, disabled: bool) -> anyhow::Result<()> {
    let user = find(store, username).await?;
    let edit = UserEdit { disabled: Some(disabled), ..UserEdit::default() };
    done(username, store.user_edit(&act::operator(), user.id, edit).await?)?;
    println!("{username} {}", if disabled { "is disabled" } else { "may sign in again" });
    Ok(())
}

async fn find(store: &dyn Store, username: &str) -> anyhow::Result<User> {
    let found = store.user_by_name(username).await?;
    Ok(found.with_context(|| format!("there is no user {username:?}"))?.user)
}

fn done(username: &str, change: UserChange) -> anyhow::Result<User> {
    match change {
        UserChange::Done(user) => Ok(user),
        UserChange::NotFound => bail!("there is no user {username:?}"),
        UserChange::NameTaken => bail!("the username {username:?} is taken"),
        UserChange::LastAdmin => {
            bail!(
                "{username} is the last administrator who can sign in: make another user an administrator first"
            )
        }
        UserChange::OwnsWorkspaces(count) => {
            bail!("{username} still owns {count} workspace(s): delete those first, or disable the user")
        }
    }
}

async fn list(store: &dyn Store, json: bool) -> anyhow::Result<()> {
    let mut users = Vec::new();
    let mut after = None;
    loop {
        let page = store.user_list(after, 200).await?;
        after = page.items.last().map(|user| user.id);
        users.extend(page.items);
        if !page.more || after.is_none() {
            break;
        }
    }
    if json {
        let views: Vec<crate::api::view::UserView> = users.into_iter().map(Into::into).collect();
        println!("{}", serde_json::to_string_pretty(&views)?);
        return Ok(());
    }
    for user in users {
        let state = if user.disabled { "disabled" } else { "" };
        println!("{}  {:5}  {:24}  {state}", user.id, user.role, user.username);
    }
    Ok(())
}

fn desired_state(text: &str) -> Result<Desired, String> {
    match text.to_uppercase().parse() {
        Ok(Desired::Deleted) | Err(_) => Err("must be running, standby or archived".into()),
        Ok(desired) => Ok(desired),
    }
}

async fn recover(
    config: &Config,
    store: &dyn Store,
    id: WorkspaceId,
    recovery: Recovery,
    desired: Option<Desired>,
) -> anyhow::Result<()> {
    let workspace = store.workspace_get(id).await?.with_context(|| format!("there is no workspace {id}"))?;
    if recovery.restore_from.is_some_and(|key| !belongs_to(key, &workspace)) {
        bail!("--restore-from: this archive belongs to another workspace");
    }
    if let Some(key) = recovery.restore_from {
        let name = key.to_string();
        let Some(meta) = backends::open_archives(config, store).await?.head(&name).await? else {
            bail!("--restore-from: there is no archive {key}");
        };
        let Some(record) = store.archive_record(key).await? else {
            bail!(
                "--restore-from: there is no record of the archive {key}; if it is the right one: codehub admin archives adopt {key}"
            );
        };
        meta.hold_against(&name, &expected(&record)).context("--restore-from")?;
    }
    let by = act::operator();
    match store.workspace_recover(&by, id, recovery, desired, config.limits, Actor::Operator).await? {
        Recovered::Recovered(workspace) => {
            println!("{} is recovering; wanted: {}", workspace.name, workspace.desired);
            Ok(())
        }
        Recovered::NotFound => bail!("there is no workspace {id}"),
        Recovered::Refused(refusal) => bail!("{}", Denied::Recovery(refusal)),
        Recovered::LimitReached(hit) => bail!("{}", Denied::Limit(hit)),
    }
}

async fn adopt(config: &Config, store: &dyn Store, key: ArchiveKey) -> anyhow::Result<()> {
    let archives = backends::open_archives(config, store).await?;
    let Some(found) = archives.describe(&key.to_string()).await? else { bail!("there is no archive {key}") };
    let found = of_expected(key, found)?;
    match store.archive_adopt(&act::operator(), None, &found).await? {
        Adopted::Adopted => println!("adopted {key}: {} bytes, sha256 {}", found.size, found.sha256),
        Adopted::Known(known) if known == found => println!("{key} is recorded already, as it is now"),
        Adopted::Known(known) => bail!(
            "{key} has a record, and is not what it says: sha256 {} is recorded, {} is stored; it was changed or \
             damaged in its storage",
            known.sha256,
            found.sha256
        ),
        Adopted::BeingDeleted => bail!("{key} is being deleted"),
        Adopted::NoWorkspace => bail!("there never was a workspace {}", key.workspace),
        Adopted::Fenced => bail!("another process leads"),
    }
    Ok(())
}

async fn approve(store: &dyn Store) -> anyhow::Result<()> {
    let Some(brake) = store.setting_get(gc::BRAKE_SETTING).await? else {
        bail!("the garbage collector has not braked: there is nothing to approve");
    };
    store.setting_put(gc::APPROVAL_SETTING, &store.now().await?.to_string()).await?;
    let entry = AuditEntry::ok(AuditAction::AdminGcApproved, AuditObject::config());
    store.audit_write(&act::operator(), &entry.changing("", &brake)).await?;
    println!("approved: the next cycle may delete what it braked for ({brake})");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_goes_anywhere_but_away() {
        for (text, desired) in
            [("running", Desired::Running), ("STANDBY", Desired::Standby), ("Archived", Desired::Archived)]
        {
            assert_eq!(desired_state(text), Ok(desired));
        }
        for text in ["deleted", "pending", ""] {
            assert!(desired_state(text).unwrap_err().contains("standby"), "{text}");
        }
    }
}
