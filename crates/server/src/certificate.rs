//! The certificate by which this server ends TLS itself: read at start, where whatever is wrong with it ends the start, and
//! again whenever its files change. A new one that cannot be used leaves the old one in place.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use jiff::Timestamp;
use rustls::{
    CertificateError, RootCertStore,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    server::{ClientHello, ParsedCertificate, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio_util::sync::CancellationToken;

use crate::config::TlsFiles;

/// How often the files are looked at. A change counts once it was seen twice: who replaces both files does so one after
/// the other.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// When people should begin to worry, before it ends.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);
/// No certificate is valid then (the year 9999).
const NEVER: Duration = Duration::from_secs(253_402_300_799);

const REREADS: &str = "codehub_tls_certificate_rereads_total";
const EXPIRES: &str = "codehub_tls_certificate_expires_timestamp_seconds";

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("{} ({setting}) cannot be read: {why}", path.display())]
    Unreadable { path: PathBuf, setting: &'static str, why: io::Error },
    #[error("{} ({setting}) holds no {what} in PEM", path.display())]
    NotPem { path: PathBuf, setting: &'static str, what: &'static str },
    #[error("{} (TLS_KEY) is a private key, and others can {what} it (mode {mode:04o}): chmod 600 {}", path.display(), path.display())]
    Open { path: PathBuf, what: &'static str, mode: u32 },
    #[error("{} (TLS_KEY) is not the key of the certificate in {} (TLS_CERT)", key.display(), cert.display())]
    Mismatch { cert: PathBuf, key: PathBuf },
    #[error("the certificate in {} (TLS_CERT) expired on {at}: renew it", path.display())]
    Expired { path: PathBuf, at: Timestamp },
    #[error("the certificate in {} (TLS_CERT) is valid from {at} on, not yet", path.display())]
    NotYet { path: PathBuf, at: Timestamp },
    #[error("{} (TLS_CERT) or its key cannot be used: {why}", path.display())]
    Other { path: PathBuf, why: rustls::Error },
}

/// A certificate, its key, and until when it is good.
pub struct Loaded {
    certified: Arc<CertifiedKey>,
    /// Its end.
    pub expires: Timestamp,
}

/// The bytes of both files.
#[derive(Clone, PartialEq, Eq)]
struct Files {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl Files {
    fn read(files: &TlsFiles) -> Result<Self, Unusable> {
        let read = |path: &Path, setting| {
            let unreadable = |why| Unusable::Unreadable { path: path.to_owned(), setting, why };
            // Opening a pipe would wait for somebody at its other end.
            if !fs::metadata(path).map_err(unreadable)?.is_file() {
                return Err(unreadable(io::Error::other("it is not a file")));
            }
            fs::read(path).map_err(unreadable)
        };
        Ok(Self { cert: read(&files.cert, "TLS_CERT")?, key: read(&files.key, "TLS_KEY")? })
    }
}

impl Loaded {
    /// Reads and checks both files.
    ///
    /// # Errors
    /// Whatever is wrong with them.
    pub fn read(files: &TlsFiles) -> Result<Self, Unusable> {
        let bytes = Files::read(files)?;
        Self::of(files, &bytes)
    }

    fn of(files: &TlsFiles, bytes: &Files) -> Result<Self, Unusable> {
        let TlsFiles { cert: path, key: key_path } = files;
        refuse_open(key_path)?;
        let no_cert = || Unusable::NotPem { path: path.clone(), setting: "TLS_CERT", what: "certificate" };
        let chain = CertificateDer::pem_slice_iter(&bytes.cert).collect::<Result<Vec<_>, _>>();
        let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(no_cert)?;
        let key = PrivateKeyDer::from_pem_slice(&bytes.key).map_err(|_| Unusable::NotPem {
            path: key_path.clone(),
            setting: "TLS_KEY",
            what: "private key",
        })?;
        let other = |why| Unusable::Other { path: path.clone(), why };
        let (from, expires) = valid(&chain[0]).map_err(other)?;
        let now = Timestamp::now();
        if now < from {
            return Err(Unusable::NotYet { path: path.clone(), at: from });
        }
        if now > expires {
            return Err(Unusable::Expired { path: path.clone(), at: expires });
        }
        let certified =
            CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|why| match why {
                rustls::Error::InconsistentKeys(_) => {
                    Unusable::Mismatch { cert: path.clone(), key: key_path.clone() }
                }
                why => other(why),
            })?;
        Ok(Self { certified: Arc::new(certified), expires })
    }

    /// Whether browsers take it for this host.
    pub fn is_for(&self, host: &str) -> bool {
        let name = ServerName::try_from(host.trim_start_matches('[').trim_end_matches(']'));
        let leaf = self.certified.cert.first().map(ParsedCertificate::try_from);
        match (name, leaf) {
            (Ok(name), Some(Ok(leaf))) => verify_server_name(&leaf, &name).is_ok(),
            _ => false,
        }
    }

    /// Whether it ends soon.
    pub fn ends_soon(&self) -> bool {
        Timestamp::now().saturating_add(SOON).is_ok_and(|then| then > self.expires)
    }
}

/// Since and until when it is good. The verifier says so, where it is asked about a time when it is not.
fn valid(leaf: &CertificateDer<'_>) -> Result<(Timestamp, Timestamp), rustls::Error> {
    let parsed = ParsedCertificate::try_from(leaf)?;
    let roots = RootCertStore::empty();
    let at = |time| {
        let time = UnixTime::since_unix_epoch(time);
        match verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], time, &[]) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::ExpiredContext { not_after: end, .. }
                | CertificateError::NotValidYetContext { not_before: end, .. },
            )) => Ok(end.as_secs()),
            Err(error @ rustls::Error::InvalidCertificate(CertificateError::BadEncoding)) => Err(error),
            // Without beginning, or without end.
            _ => Ok(time.as_secs()),
        }
    };
    let timestamp = |seconds: u64| {
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
    };
    Ok((timestamp(at(Duration::ZERO)?), timestamp(at(NEVER)?)))
}

/// The group may read it: renewals are often another user's.
fn refuse_open(key: &Path) -> Result<(), Unusable> {
    // One that cannot be looked at was read a moment ago.
    let Ok(found) = fs::metadata(key) else { return Ok(()) };
    let mode = found.mode() & 0o7777;
    let what = match mode {
        open if open & 0o022 != 0 => "change",
        open if open & 0o004 != 0 => "read",
        _ => return Ok(()),
    };
    Err(Unusable::Open { path: key.to_owned(), what, mode })
}

/// The certificate in use, which changes with its files.
pub struct Certificate {
    files: TlsFiles,
    current: RwLock<Arc<CertifiedKey>>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Certificate {
    /// Reads it for the first time.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn open(files: &TlsFiles) -> Result<Arc<Self>, Unusable> {
        let loaded = Loaded::read(files)?;
        tell(&loaded);
        Ok(Arc::new(Self { files: files.clone(), current: RwLock::new(loaded.certified) }))
    }

    /// Reads it again whenever its files change, until then.
    pub async fn follow(self: Arc<Self>, until: CancellationToken) {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        let mut looks = Looks { used: Files::read(&self.files).ok(), last: None, refused: None };
        loop {
            tokio::select! {
                () = until.cancelled() => return,
                _ = tick.tick() => {}
            }
            let certificate = self.clone();
            // Files may be on a disk that does not answer.
            let looked = tokio::task::spawn_blocking(move || {
                certificate.look(&mut looks);
                looks
            });
            let Ok(back) = looked.await else { return };
            looks = back;
        }
    }

    /// One look at the files.
    fn look(&self, looks: &mut Looks) {
        let now = Files::read(&self.files).ok();
        let settled = now == looks.last;
        looks.last.clone_from(&now);
        // What was refused may be good by now: its mode was changed, or its time has come.
        if !settled || (now == looks.used && looks.refused.is_none()) {
            return;
        }
        looks.used.clone_from(&now);
        let loaded = match &now {
            Some(bytes) => Loaded::of(&self.files, bytes),
            // It says why.
            None => Loaded::read(&self.files),
        };
        match loaded {
            Ok(loaded) => {
                tell(&loaded);
                tracing::info!(expires = %loaded.expires, "the TLS certificate was read again");
                metrics::counter!(REREADS, "outcome" => "ok").increment(1);
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded.certified;
                looks.refused = None;
            }
            Err(error) => {
                let why = Some(error.to_string());
                if looks.refused != why {
                    tracing::error!(%error, "the new TLS certificate cannot be used: the old one stays in use");
                    metrics::counter!(REREADS, "outcome" => "failed").increment(1);
                }
                looks.refused = why;
            }
        }
    }
}

/// What the files held: when they were last made use of (or found useless), and at the last look.
struct Looks {
    used: Option<Files>,
    last: Option<Files>,
    /// Why they are useless, as was said.
    refused: Option<String>,
}

fn tell(loaded: &Loaded) {
    metrics::gauge!(EXPIRES).set(loaded.expires.as_second() as f64);
    if loaded.ends_soon() {
        tracing::warn!(expires = %loaded.expires, "the TLS certificate ends soon: renew it");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use tempfile::TempDir;

    use super::*;

    fn made(names: &[&str], years: (i32, i32)) -> (String, String) {
        let mut params =
            CertificateParams::new(names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
        let key = KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    const GOOD: (i32, i32) = (2020, 2099);

    struct Place {
        _dir: TempDir,
        files: TlsFiles,
    }

    impl Place {
        fn new((cert, key): &(String, String)) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let files = TlsFiles { cert: dir.path().join("cert.pem"), key: dir.path().join("key.pem") };
            let place = Self { _dir: dir, files };
            place.write(cert, key);
            place
        }

        fn write(&self, cert: &str, key: &str) {
            fs::write(&self.files.cert, cert).unwrap();
            fs::write(&self.files.key, key).unwrap();
            self.mode(0o600);
        }

        fn mode(&self, mode: u32) {
            fs::set_permissions(&self.files.key, fs::Permissions::from_mode(mode)).unwrap();
        }

        fn says(&self) -> String {
            Loaded::read(&self.files).err().map(|error| error.to_string()).unwrap_or_default()
        }
    }

    #[test]
    fn what_is_wrong_with_the_files_is_said() {
        let good = made(&["code.example.com", "*.apps.example.com"], GOOD);
        let place = Place::new(&good);
        assert_eq!(place.says(), "");
        let loaded = Loaded::read(&place.files).unwrap();
        assert_eq!(loaded.expires.to_string(), "2099-01-01T00:00:00Z");
        assert!(!loaded.ends_soon());
        for (host, expected) in [
            ("code.example.com", true),
            ("x.apps.example.com", true),
            ("apps.example.com", false),
            ("a.b.apps.example.com", false),
            ("evil.example", false),
        ] {
            assert_eq!(loaded.is_for(host), expected, "{host}");
        }

        for (mode, said) in [(0o604, "others can read it"), (0o620, "others can change it"), (0o640, "")] {
            place.mode(mode);
            assert!(
                place.says().contains(said) && place.says().is_empty() == said.is_empty(),
                "{}",
                place.says()
            );
        }
        let other = made(&["code.example.com"], GOOD);
        for ((cert, key), said) in [
            ((&good.0, &other.1), "is not the key of the certificate"),
            ((&good.1, &good.1), "holds no certificate"),
            ((&good.0, &good.0), "holds no private key"),
            ((&String::new(), &good.1), "holds no certificate"),
        ] {
            place.write(cert, key);
            assert!(place.says().contains(said), "{said}: {}", place.says());
        }
        let (old, early) = (made(&["x"], (2020, 2021)), made(&["x"], (2098, 2099)));
        place.write(&old.0, &old.1);
        assert!(place.says().contains("expired on 2021-01-01"), "{}", place.says());
        place.write(&early.0, &early.1);
        assert!(place.says().contains("is valid from 2098-01-01"), "{}", place.says());
        fs::remove_file(&place.files.key).unwrap();
        assert!(place.says().contains("(TLS_KEY) cannot be read"), "{}", place.says());
        fs::create_dir(&place.files.key).unwrap();
        assert!(place.says().contains("it is not a file"), "{}", place.says());
        fs::remove_dir(&place.files.key).unwrap();
        fs::remove_file(&place.files.cert).unwrap();
        assert!(place.says().contains("(TLS_CERT) cannot be read"), "{}", place.says());
    }

    #[test]
    fn a_new_pair_is_used_once_it_is_whole_and_a_bad_one_never() {
        let (first, second) = (made(&["first"], GOOD), made(&["second"], GOOD));
        let place = Place::new(&first);
        let certificate = Certificate::open(&place.files).unwrap();
        let mut looks = Looks { used: Files::read(&place.files).ok(), last: None, refused: None };
        let leaf = || certificate.current.read().unwrap().cert[0].to_vec();
        let before = leaf();
        let mut look = |times| (0..times).for_each(|_| certificate.look(&mut looks));
        look(3);
        assert_eq!(leaf(), before);
        // Half a renewal.
        place.write(&second.0, &first.1);
        look(1);
        place.write(&second.0, &second.1);
        look(1);
        assert_eq!(leaf(), before, "not before it is seen twice");
        look(1);
        let after = leaf();
        assert_ne!(after, before);
        for (cert, key) in [(&first.0, &second.1), (&String::new(), &second.1)] {
            place.write(cert, key);
            look(3);
            assert_eq!(leaf(), after, "a bad one changes nothing");
        }
        fs::remove_file(&place.files.cert).unwrap();
        look(3);
        assert_eq!(leaf(), after);
        place.write(&first.0, &first.1);
        look(2);
        assert_eq!(leaf(), before, "and a good one is used after it");
        // What is put right without being written anew is used, too.
        place.write(&second.0, &second.1);
        place.mode(0o644);
        look(3);
        assert_eq!(leaf(), before, "a key that everybody can read");
        place.mode(0o600);
        look(1);
        assert_eq!(leaf(), after, "and nobody else");
    }
}
