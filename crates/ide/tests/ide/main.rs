//! The built-in IDE from outside: over HTTP and its WebSocket, as the page uses it.

mod files;
mod harness;
mod page;
mod terminals;
mod transfer;
mod watching;
