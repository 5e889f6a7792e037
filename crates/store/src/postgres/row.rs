//! How PostgreSQL's columns are read: ids are UUIDs, contexts are JSONB.

use serde::de::DeserializeOwned;
use sqlx::{Decode, Postgres, Row, Type, postgres::PgRow, types::Json};
use uuid::Uuid;

use super::Result;
pub(super) use crate::row::*;

pub(super) fn get<'r, T>(row: &'r PgRow, column: &str) -> Result<T>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    Ok(row.try_get(column)?)
}

impl SqlRow for PgRow {
    fn text(&self, column: &str) -> Result<&str> {
        get(self, column)
    }

    fn maybe_text(&self, column: &str) -> Result<Option<&str>> {
        get(self, column)
    }

    fn int(&self, column: &str) -> Result<i64> {
        get(self, column)
    }

    fn maybe_int(&self, column: &str) -> Result<Option<i64>> {
        get(self, column)
    }

    fn flag(&self, column: &str) -> Result<bool> {
        get(self, column)
    }

    fn maybe_uuid(&self, column: &str) -> Result<Option<Uuid>> {
        get(self, column)
    }

    fn maybe_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>> {
        // Decoded by us, not by the driver's generic wrapper: `T` need not be 'static or Send here.
        let found: Option<Json<serde_json::Value>> = get(self, column)?;
        found
            .map(|Json(value)| serde_json::from_value(value).map_err(|error| unreadable(column, error)))
            .transpose()
    }
}

/// A number as PostgreSQL keeps it: it has no unsigned ones.
pub(super) fn maybe_big(number: Option<u32>) -> Option<i64> {
    number.map(i64::from)
}
