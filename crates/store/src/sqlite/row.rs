//! How SQLite keeps values: ids are canonical text, contexts are JSON text.

use serde::de::DeserializeOwned;
use sqlx::{
    Arguments, Decode, Row, Sqlite, Type,
    sqlite::{SqliteArguments, SqliteRow},
};
use uuid::Uuid;

use crate::{
    Result, StoreError,
    row::{SqlRow, unreadable},
    sql::Value,
};

fn get<'r, T>(row: &'r SqliteRow, column: &str) -> Result<T>
where
    T: Decode<'r, Sqlite> + Type<Sqlite>,
{
    Ok(row.try_get(column)?)
}

impl SqlRow for SqliteRow {
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

    /// Another spelling of the same id would be found by nobody: only the canonical one is an id.
    fn maybe_uuid(&self, column: &str) -> Result<Option<Uuid>> {
        let Some(text) = self.maybe_text(column)? else { return Ok(None) };
        let uuid = Uuid::try_parse(text).map_err(|error| unreadable(column, error))?;
        if uuid.to_string() == text {
            Ok(Some(uuid))
        } else {
            Err(unreadable(column, format!("{text:?} is not a canonical id")))
        }
    }

    fn maybe_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>> {
        self.maybe_text(column)?
            .map(|text| serde_json::from_str(text).map_err(|error| unreadable(column, error)))
            .transpose()
    }
}

pub(super) fn arguments(values: Vec<Value>) -> Result<SqliteArguments> {
    let mut arguments = SqliteArguments::default();
    for value in values {
        match value {
            Value::Text(text) => arguments.add(text),
            Value::Int(number) => arguments.add(number),
            Value::Flag(flag) => arguments.add(flag),
            Value::Id(id) => arguments.add(id.map(|id| id.to_string())),
            Value::Ids(ids) => {
                arguments.add(serde_json::Value::from_iter(ids.iter().map(Uuid::to_string)).to_string())
            }
            Value::Bytes(bytes) => arguments.add(bytes),
            Value::Json(value) => arguments.add(value.map(|value| value.to_string())),
        }
        .map_err(|error| StoreError::Failed(error.to_string()))?;
    }
    Ok(arguments)
}
