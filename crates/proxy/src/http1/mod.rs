//! HTTP/1.1, read and written by one codec of our own on both sides: requests from clients, answers from
//! workspaces.
//!
//! - [`head`] reads heads, strictly: what two readers could take differently is refused, whoever sent it;
//! - [`decode`] takes bodies apart by whatever frames them, [`reader`] feeds it from a connection;
//! - [`encode`] frames what leaves;
//! - [`client_body`] is what a client's request brings along, [`answer`] what it gets;
//! - [`workspace`] is a connection to a workspace, [`pool`] keeps it. A client's is [`crate::front::connection`].
//!
//! HTTP/2 is the library's; its requests go the same way from [`Proxy::serve`](crate::Proxy::serve) on.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod client_body;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod head;
pub(crate) mod pool;
pub(crate) mod reader;
pub(crate) mod workspace;
