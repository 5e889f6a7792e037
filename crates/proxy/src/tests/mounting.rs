//! The proxy beside the rest of the server.

use super::support::*;

#[tokio::test]
async fn everything_else_goes_to_the_application() {
    let rig = Rig::new().await;
    for path in ["/", "/api/v1/x", "/w", "/wx/"] {
        let answer = rig.raw(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
        assert_eq!(body_of(&answer), "the application", "{path}");
    }
}
