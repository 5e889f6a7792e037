//! Archives in S3 and everything that speaks like it.
//!
//! Servers differ, so nothing here is relied on that only some of them do: parts are signed, but what
//! arrived is read back before it counts; `If-None-Match` is sent, but a server that ignores it loses
//! nothing, because every operation writes under a key of its own.
//!
//! A hanging server is given up after [`REQUEST`], tried again a few times, and then it is the
//! controller's turn: the operation goes on as "unreachable" and is tried until the store is back.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store::client::HttpClient;
use object_store::{BackoffConfig, RetryConfig};

use super::s3_http::{self, Connector};
use super::s3_uploads::Uploads;
use super::{ObjectArchives, Verify};
use crate::error::{ArchiveError, Result};

/// One request, its body included: a part at 300 kB/s.
const REQUEST: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(5);
const RETRIES: usize = 3;

/// Where a bucket is, and the key to it.
#[derive(Clone)]
pub struct S3Config {
    /// `https://s3.example.com`; `None`: Amazon's, of that region.
    pub endpoint: Option<String>,
    /// The bucket; it must exist.
    pub bucket: String,
    /// The region that requests are signed for.
    pub region: String,
    /// The public half of the credential.
    pub access_key: String,
    /// The secret half; never logged.
    pub secret_key: String,
    /// Plain http beyond this machine, for a network of your own.
    pub allow_http: bool,
}

/// Without the secret.
impl std::fmt::Debug for S3Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3Config")
            .field("endpoint", &self.endpoint)
            .field("bucket", &self.bucket)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl S3Config {
    /// Where requests go: no trailing slash.
    pub(crate) fn base(&self) -> String {
        match &self.endpoint {
            Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
            None => format!("https://s3.{}.amazonaws.com", self.region),
        }
    }

    /// Whether plain http is all right: on this machine, or where it was allowed.
    fn http_allowed(&self) -> Result<bool, String> {
        let base = self.base();
        let Some(rest) = base.strip_prefix("http://") else {
            return Ok(false);
        };
        if self.allow_http || is_loopback(rest) {
            return Ok(true);
        }
        Err(format!(
            "{base} is plain http: use https, or set S3_ALLOW_HTTP=true if the network between is your own"
        ))
    }
}

/// Whether `host[:port][/…]` is this machine.
fn is_loopback(authority: &str) -> bool {
    let host = authority.split('/').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl ObjectArchives {
    /// Archives in a bucket, below `prefix`. Nothing is asked yet: a store that is down now may be up
    /// when it is needed.
    pub fn open_s3(config: &S3Config, prefix: &str) -> Result<Self> {
        let (store, client) = open(config).map_err(|why| ArchiveError::Unreachable { message: why })?;
        let uploads = Uploads::new(store.clone(), client, config);
        Ok(Self::new(Arc::new(store), prefix).with_verify(Verify::Content).with_uploads(uploads))
    }
}

/// The bucket, and a client for what its store can do and `object_store` cannot.
pub(crate) fn open(config: &S3Config) -> Result<(AmazonS3, HttpClient), String> {
    let http = config.http_allowed()?;
    let client = s3_http::client(CONNECT, REQUEST)?;
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: RETRIES,
        retry_timeout: REQUEST * 2,
    };
    let store = AmazonS3Builder::new()
        .with_bucket_name(&config.bucket)
        .with_region(&config.region)
        .with_endpoint(config.base())
        .with_virtual_hosted_style_request(false)
        .with_access_key_id(&config.access_key)
        .with_secret_access_key(&config.secret_key)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        // Two plain requests are understood everywhere; "delete several" is not.
        .with_disable_bulk_delete(true)
        .with_retry(retry)
        .with_allow_http(http)
        .with_http_connector(Connector(client.clone()))
        .build()
        .map_err(|error| error.to_string())?;
    Ok((store, client))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(endpoint: &str) -> S3Config {
        S3Config {
            endpoint: Some(endpoint.into()),
            bucket: "homes".into(),
            region: "us-east-1".into(),
            access_key: "key".into(),
            secret_key: "hidden-word".into(),
            allow_http: false,
        }
    }

    #[test]
    fn plain_http_stays_on_this_machine() {
        for fine in
            ["http://127.0.0.1:9000", "http://localhost", "http://[::1]:9000/", "https://s3.example.com"]
        {
            assert!(ObjectArchives::open_s3(&config(fine), "x").is_ok(), "{fine}");
        }
        for not in ["http://s3.example.com", "http://10.0.0.1:9000", "http://localhost.example.com"] {
            let error = ObjectArchives::open_s3(&config(not), "x").unwrap_err().to_string();
            assert!(error.contains("S3_ALLOW_HTTP"), "{error}");
        }
        let allowed = S3Config { allow_http: true, ..config("http://10.0.0.1:9000") };
        assert!(ObjectArchives::open_s3(&allowed, "x").is_ok());
    }

    #[test]
    fn the_secret_is_not_shown() {
        let config = config("https://s3.example.com");
        let archives = ObjectArchives::open_s3(&config, "x").unwrap();
        assert!(!format!("{config:?} {archives:?}").contains("hidden-word"));
    }
}
