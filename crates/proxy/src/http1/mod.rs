//! HTTP/1.1, read and written by one codec of our own on both sides: requests from clients, answers from
//! workspaces.
//!
//! - [`head`] reads heads, strictly: what two readers could take differently is refused, whoever sent it;
//! - [`decode`] takes bodies apart by whatever frames them, [`reader`] feeds it from a connection;
//! - [`encode`] frames what leaves;
//! - [`connection`] is a client's connection, [`workspace`] is one to a workspace, [`pool`] keeps the latter;
//! - [`remembered`] are requests that need no second look, and [`client_body`] is what others bring along.
//!
//! HTTP/2 is the library's; its requests go the same way from [`Proxy::serve`](crate::Proxy::serve) on.

pub(crate) mod answer;
pub(crate) mod client_body;
pub(crate) mod connection;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod head;
mod patience;
pub(crate) mod pool;
pub(crate) mod reader;
mod remembered;
pub(crate) mod workspace;

pub(crate) use connection::{Next, serve};
pub(crate) use head::Malformed;
