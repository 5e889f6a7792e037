//! The port, as SQLite answers it.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use codehub_domain::{
    Desired, Epoch, HoldId, Phase, SessionId, Status, Timestamp, TokenId, UserId, Workspace, WorkspaceId,
    activity::Hold,
    event::{Actor, HistoryEntry, Transition},
    gc::{GcRow, Item},
    limits::{Limits, RunningWorkspace},
    recovery::Recovery,
    ttl::TtlPolicy,
    user::{ApiToken, Role, Session, User},
};

use super::{
    Result, SqliteStore, access, ask, attempts, controller, gc, history as events, holds, leader, recover,
    replicas, sessions, settings, tokens, ttl, users, workspaces,
};
use crate::{
    Ask, Asked, Attempts, Changes, Created, Due, Edit, Expired, GcClaim, LeaderSeen, ListFilter, NewHold,
    NewWorkspace, Page, Reading, Recovered, ReplicaNote, ReplicaSeen, Saved, Store, UserChange, UserEdit,
    UserWithHash, port::sql_port, timed,
};

sql_port!(SqliteStore, "sqlite", {});
