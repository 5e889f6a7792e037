//! How PostgreSQL keeps values: ids are UUIDs, contexts are JSONB.

use serde::de::DeserializeOwned;
use sqlx::{
    Arguments, Decode, Postgres, Row, Type,
    postgres::{PgArguments, PgRow},
    types::Json,
};
use uuid::Uuid;

use crate::{
    Result, StoreError,
    row::{SqlRow, unreadable},
    sql::Value,
};

fn get<'r, T>(row: &'r PgRow, column: &str) -> Result<T>
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

pub(super) fn arguments(values: Vec<Value>) -> Result<PgArguments> {
    let mut arguments = PgArguments::default();
    for value in values {
        match value {
            Value::Text(text) => arguments.add(text.map(storable)),
            Value::Int(number) => arguments.add(number),
            Value::Flag(flag) => arguments.add(flag),
            Value::Id(id) => arguments.add(id),
            Value::Ids(ids) => arguments.add(ids),
            Value::Bytes(bytes) => arguments.add(bytes),
            Value::Json(value) => arguments.add(value.map(Json)),
        }
        .map_err(|error| StoreError::Failed(error.to_string()))?;
    }
    Ok(arguments)
}

/// The one character that PostgreSQL's texts cannot hold becomes the one that says so.
fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}
