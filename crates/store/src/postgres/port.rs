//! The port, as PostgreSQL answers it.

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
    PostgresStore, Result, access, ask, attempts, controller, gc, history as events, holds, leader, recover,
    replicas, sessions, settings, timed, tokens, ttl, users, workspaces,
};
use crate::{
    Ask, Asked, Attempts, Changes, Company, Created, Due, Edit, Expired, GcClaim, LeaderSeen, LeaseSeat,
    ListFilter, NewHold, NewWorkspace, Page, Presence, Reading, Recovered, ReplicaNote, ReplicaSeen, Saved,
    Store, UserChange, UserEdit, UserWithHash, port::sql_port,
};

sql_port!(PostgresStore, "postgres", {
    fn lease_seat(&self, holder: &str) -> Option<LeaseSeat> {
        Some(self.seat(holder))
    }

    async fn presence_enter(&self, company: Company) -> Result<Option<Presence>> {
        timed("presence_enter", self.enter(company)).await
    }
});
