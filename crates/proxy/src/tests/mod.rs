//! The proxy against real sockets: a fake gate in front, workspaces that are a few lines of raw TCP
//! behind, and clients that write the bytes themselves where the bytes are the point.

mod abuse;
mod doors;
mod forward;
mod http1;
mod idle;
mod mounting;
mod origins;
mod own;
mod pages;
mod policy;
mod ports;
mod revoked;
mod rules;
mod service_worker;
mod smuggling;
mod support;
mod tls;
mod unix;
mod websocket;
mod wire;
