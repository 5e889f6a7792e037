//! What is bound to a statement's `$1`, `$2`, …: one of the few kinds of value that our columns hold. Each
//! dialect says how it keeps a kind.

use codehub_domain::{
    ArchiveKey, Desired, HoldId, OpId, Operation, Phase, SessionId, Timestamp, TokenId, UserId, WorkspaceId,
    activity::ActivityMode,
    audit::AuditId,
    user::{Language, Role, Theme},
};
use serde::Serialize;
use uuid::Uuid;

use crate::{Result, StoreError};

/// A value, or the NULL of its kind.
#[derive(Debug, Clone)]
pub enum Value {
    Text(Option<String>),
    Int(Option<i64>),
    Flag(bool),
    Id(Option<Uuid>),
    Ids(Vec<Uuid>),
    Bytes(Vec<u8>),
    Json(Option<serde_json::Value>),
}

/// What can be bound, and the NULL it has where it is missing.
pub(crate) trait Bind {
    const NULL: Value;
    fn bind(self) -> Value;
}

impl<T: Bind> Bind for Option<T> {
    const NULL: Value = T::NULL;

    fn bind(self) -> Value {
        self.map_or(Self::NULL, T::bind)
    }
}

macro_rules! bind {
    ($($type:ty, $null:expr, $value:ident => $bound:expr;)+) => {
        $(impl Bind for $type {
            const NULL: Value = $null;

            fn bind(self) -> Value {
                let $value = self;
                $bound
            }
        })+
    };
}

bind! {
    Value, Value::Json(None), value => value;
    &str, Value::Text(None), text => Value::Text(Some(text.into()));
    &String, Value::Text(None), text => Value::Text(Some(text.clone()));
    String, Value::Text(None), text => Value::Text(Some(text));
    ArchiveKey, Value::Text(None), key => Value::Text(Some(key.to_string()));
    bool, Value::Flag(false), flag => Value::Flag(flag);
    i64, Value::Int(None), number => Value::Int(Some(number));
    u32, Value::Int(None), number => Value::Int(Some(number.into()));
    Timestamp, Value::Int(None), at => Value::Int(Some(at.as_microsecond()));
    &[u8], Value::Bytes(Vec::new()), bytes => Value::Bytes(bytes.into());
    &[WorkspaceId], Value::Ids(Vec::new()), ids => Value::Ids(ids.iter().map(WorkspaceId::as_uuid).collect());
    &[UserId], Value::Ids(Vec::new()), ids => Value::Ids(ids.iter().map(UserId::as_uuid).collect());
    WorkspaceId, Value::Id(None), id => Value::Id(Some(id.as_uuid()));
    UserId, Value::Id(None), id => Value::Id(Some(id.as_uuid()));
    SessionId, Value::Id(None), id => Value::Id(Some(id.as_uuid()));
    TokenId, Value::Id(None), id => Value::Id(Some(id.as_uuid()));
    HoldId, Value::Id(None), id => Value::Id(Some(id.as_uuid()));
    AuditId, Value::Id(None), id => Value::Id(Some(id.as_uuid()));
    OpId, Value::Id(None), id => Value::Id(Some(id.as_uuid()));
    Phase, Value::Text(None), word => word.as_str().bind();
    Desired, Value::Text(None), word => word.as_str().bind();
    Operation, Value::Text(None), word => word.as_str().bind();
    ActivityMode, Value::Text(None), word => word.as_str().bind();
    Role, Value::Text(None), word => word.as_str().bind();
    Language, Value::Text(None), word => word.as_str().bind();
    Theme, Value::Text(None), word => word.as_str().bind();
}

/// A value for a column that holds JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<Value> {
    let value = serde_json::to_value(value).map_err(|error| StoreError::Failed(error.to_string()))?;
    Ok(Value::Json(Some(value)))
}

/// The values of `$1`, `$2`, … in order.
macro_rules! args {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::sql::Bind::bind($value)),*]
    };
}
pub(crate) use args;
