use std::{collections::HashSet, time::Duration};

use codehub_domain::origins::Mode;

use super::*;
use crate::config::{default_file, effective_toml};

fn sources(env: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources {
    let own = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Sources {
        flags: Overrides { config: None, set: own(flags) },
        env: own(env),
        home: Some("/home/somebody".into()),
        files: Vec::new(),
    }
}

fn with_file(text: &str) -> (tempfile::TempDir, Sources) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("codehub.toml");
    std::fs::write(&path, text).unwrap();
    let mut sources = sources(&[], &[]);
    sources.files = vec![dir.path().join("missing.toml"), path];
    (dir, sources)
}

fn errors(sources: &Sources) -> String {
    Effective::load(sources).unwrap_err().to_string()
}

#[test]
fn the_defaults_are_valid_and_as_documented() {
    let config = Effective::load(&sources(&[], &[])).unwrap().config;
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.public_base_url, "http://localhost:8080");
    assert!(config.origins().is_localhost());
    assert_eq!(config.data_dir, Path::new("/home/somebody/.local/share/codehub"));
    assert_eq!((config.ttl.standby_seconds, config.ttl.archive_seconds), (600, 1800));
    assert_eq!(config.coordinator.gc_interval, Duration::from_secs(4 * 3600));
    assert_eq!((config.limits.running_per_user, config.limits.running_global), (2, 100));
}

#[test]
fn flags_win_over_the_environment_which_wins_over_the_file() {
    let (_dir, mut s) =
        with_file("listen = \"127.0.0.1:1\"\n[ttl]\nstandby_seconds = 70\narchive_seconds = \"2h\"\n");
    let origin = |s: &Sources, key: &str| {
        let effective = Effective::load(s).unwrap();
        effective.values.iter().find(|v| v.setting.key == key).unwrap().origin.clone()
    };
    assert!(matches!(origin(&s, "listen"), Origin::File(_)));
    assert_eq!(Effective::load(&s).unwrap().config.ttl.archive_seconds, 7200);
    s.env.insert("CODEHUB_LISTEN".into(), "127.0.0.1:2".into());
    assert_eq!(origin(&s, "listen"), Origin::Env("CODEHUB_LISTEN"));
    s.flags.set.insert("listen".into(), "127.0.0.1:3".into());
    assert_eq!(origin(&s, "listen"), Origin::Flag("listen".into()));
    assert_eq!(Effective::load(&s).unwrap().config.listen.port(), 3);
    assert_eq!(origin(&s, "ide.kind"), Origin::Default);
}

#[test]
fn a_wrong_value_is_named_with_its_origin_and_what_is_allowed() {
    let table: &[(&str, &str, &[&str])] = &[
        ("CODEHUB_LISTEN", "8080", &["listen", "\"8080\"", "environment CODEHUB_LISTEN", "127.0.0.1:8080"]),
        ("TTL_STANDBY_SECONDS", "soon", &["ttl.standby_seconds", "\"soon\"", "30, 30s, 5m or 3h"]),
        ("TTL_STANDBY_SECONDS", "-5", &["ttl.standby_seconds", "\"-5\""]),
        ("COORDINATOR_IDLE_INTERVAL", "0", &["coordinator.idle_interval", "from 1s to 1h"]),
        ("LIMITS_MAX_RUNNING_PER_USER", "two", &["a whole number from 0 to"]),
        ("RUNTIME_NAME", "Docker 1", &["runtime.name", "\"Docker 1\"", "a-z, 0-9"]),
        ("RUNTIME", "podman", &["runtime.kind", "\"podman\"", "expected: process, docker"]),
        ("IDE", "emacs", &["auto, builtin, code-server, jupyterlab, command"]),
        ("ACTIVITY_MODE", "Traffic", &["traffic, connections"]),
        ("PROCESS_SANDBOX", "yes", &["auto, always, never"]),
        ("PUBLIC_BASE_URL", "code.example.com", &["http:// or https://"]),
        ("TRUSTED_PROXIES", "10.0.0.0/33", &["IP addresses or networks separated by commas"]),
        ("IDE_HEALTH_PATH", "healthz", &["begins with /"]),
        ("LOG", "loud", &["log.filter", "error, warn, info"]),
        ("LOG_FORMAT", "xml", &["auto, human, json"]),
        ("ARCHIVE_KEEP", "0", &["from 1 to"]),
        ("CODEHUB_CONFIG", "/nowhere/codehub.toml", &["/nowhere/codehub.toml", "CODEHUB_CONFIG"]),
    ];
    for (name, value, expected) in table {
        let message = errors(&sources(&[(name, value)], &[]));
        for part in *expected {
            assert!(message.contains(part), "{name}={value}: {message:?} does not say {part:?}");
        }
    }
}

#[test]
fn all_mistakes_are_told_at_once_and_secrets_are_not() {
    let message = errors(&sources(&[("IDE", "emacs"), ("LOG_FORMAT", "xml")], &[]));
    assert_eq!(message.lines().count(), 2);
    let message =
        errors(&sources(&[("CODEHUB_ADMIN_USERNAME", "root"), ("CODEHUB_ADMIN_PASSWORD", "hunter2")], &[]));
    assert!(message.contains("admin.password") && !message.contains("hunter2"), "{message}");
}

#[test]
fn settings_are_checked_against_each_other() {
    let table: &[(&[(&str, &str)], &str)] = &[
        (&[("TTL_STANDBY_MIN", "700")], "ttl.standby_seconds (600)"),
        (
            &[("TTL_STANDBY_MIN", "700"), ("TTL_STANDBY_MAX", "650")],
            "must not be larger than ttl.standby_max (650)",
        ),
        (&[("TTL_ARCHIVE_MAX", "60")], "ttl.archive_seconds (1800)"),
        (&[("TTL_ARCHIVE_SECONDS", "0"), ("TTL_ARCHIVE_MAX", "1h")], "ttl.archive_seconds (0)"),
        (&[("COORDINATOR_ACTIVE_INTERVAL", "1m")], "coordinator.active_interval (60s)"),
        (&[("IDE", "command")], "IDE_COMMAND"),
        (&[("IDE_COMMAND", "x")], "IDE=command"),
        (&[("CODEHUB_ADMIN_USERNAME", "root")], "CODEHUB_ADMIN_PASSWORD"),
        (&[("CODEHUB_ADMIN_PASSWORD", "long enough")], "CODEHUB_ADMIN_USERNAME"),
    ];
    for (env, expected) in table {
        let message = errors(&sources(env, &[]));
        assert!(message.contains(expected), "{env:?}: {message:?} does not say {expected:?}");
    }
}

#[test]
fn a_database_is_taken() {
    assert!(Effective::load(&sources(&[("DATABASE_URL", "")], &[])).is_ok(), "empty is not set");
}

#[test]
fn unknown_keys_in_the_file_are_refused_with_the_nearest_name() {
    let table: &[(&str, &str)] = &[
        ("lisen = \"x\"", "`lisen`; did you mean `listen`?"),
        ("[ttl]\nstandby_secs = 5", "`ttl.standby_secs`; did you mean `ttl.standby_seconds`?"),
        ("TTL_STANDBY_SECONDS = 5", "did you mean `ttl.standby_seconds`?"),
        ("standby_seconds = 5", "did you mean `ttl.standby_seconds`?"),
        ("[nonsense]\nx = 1", "there is no setting `nonsense`"),
        ("[listen]\nx = 1", "listen"),
        ("ttl = 5", "there is no setting `ttl`"),
    ];
    for (text, expected) in table {
        let (_dir, s) = with_file(text);
        let message = errors(&s);
        assert!(message.contains(expected), "{text:?}: {message:?}");
        assert!(message.contains("codehub.toml"), "{message:?} names the file");
    }
    let (_dir, s) = with_file("listen = ");
    assert!(errors(&s).contains("not valid TOML"));
}

#[test]
fn switches_may_be_written_as_booleans() {
    let (_dir, s) = with_file("[runtime]\nread_only = false\n[s3]\nallow_http = \"true\"\n");
    let config = Effective::load(&s).unwrap().config;
    assert!(!config.runtime.docker.read_only);
    let (_dir, s) = with_file("[runtime]\nread_only = \"no\"\nmemory = true\n");
    let message = errors(&s);
    assert!(
        message.contains("runtime.read_only: invalid value \"no\"")
            && message.contains("expected: true, false"),
        "{message}"
    );
    assert!(message.contains("runtime.memory: invalid value \"true\""), "{message}");
}

#[test]
fn variables_that_are_no_settings_are_shown_with_the_configuration() {
    let effective = Effective::load(&sources(&[("CODEHUB_LISTN", "127.0.0.1:1")], &[])).unwrap();
    let said = "# CODEHUB_LISTN is set, but there is no such setting: did you mean CODEHUB_LISTEN?";
    assert!(effective_toml(&effective).contains(said), "{}", effective_toml(&effective));
    assert_eq!(effective.config.unknown_env.len(), 1);
}

#[test]
fn lists_may_be_written_as_lists() {
    let (_dir, s) = with_file(
        "trusted_proxies = [\"10.0.0.1\", \"::1\"]\n[ide]\nkind = \"command\"\ncommand = [\"python3\", \"my app.py\"]\n",
    );
    let config = Effective::load(&s).unwrap().config;
    assert_eq!(config.trusted_proxies.len(), 2);
    assert_eq!(config.runtime.ide_command, ["python3", "my app.py"]);
}

#[test]
fn the_base_url_follows_the_listen_address() {
    for (listen, base) in [("0.0.0.0:9000", "http://127.0.0.1:9000"), ("[::]:80", "http://[::1]:80")] {
        assert_eq!(
            Effective::load(&sources(&[], &[("listen", listen)])).unwrap().config.public_base_url,
            base
        );
    }
    let s = sources(&[("PUBLIC_BASE_URL", "https://Code.example.com/"), ("PROXY_ORIGINS", "path")], &[]);
    let config = Effective::load(&s).unwrap().config;
    assert!(config.is_https());
    assert_eq!(config.public_base_url, "https://code.example.com");
}

#[test]
fn what_keeps_workspaces_apart_follows_from_the_addresses() {
    let of = |env: &[(&str, &str)]| {
        let config = Effective::load(&sources(env, &[])).unwrap().config;
        (
            config.proxy.origins.clone(),
            config.public_base_url.clone(),
            config.proxy.listen.map(|at| at.to_string()),
        )
    };
    let domain = |name: &str| Mode::Domain { name: name.into() };
    let (local, wide) = ("http://localhost:8080", "https://code.example.com");
    assert_eq!(of(&[]), (domain("localhost"), local.into(), None));
    assert_eq!(
        of(&[("PUBLIC_BASE_URL", "http://127.0.0.1:8080")]),
        (domain("localhost"), local.into(), None)
    );
    assert_eq!(of(&[("CODEHUB_LISTEN", "[::1]:8080")]), (domain("localhost"), local.into(), None));
    assert_eq!(
        of(&[("CODEHUB_LISTEN", "0.0.0.0:8080")]),
        (Mode::Port { port: 8081 }, "http://127.0.0.1:8080".into(), Some("0.0.0.0:8081".into()))
    );
    assert_eq!(
        of(&[("PUBLIC_BASE_URL", wide), ("PROXY_ORIGINS", "port"), ("PROXY_LISTEN", "127.0.0.1:99")]),
        (Mode::Port { port: 99 }, wide.into(), Some("127.0.0.1:99".into()))
    );
    assert_eq!(
        of(&[("PUBLIC_BASE_URL", wide), ("PROXY_DOMAIN", "Apps.example")]),
        (domain("apps.example"), wide.into(), None)
    );
    assert_eq!(of(&[("PROXY_ORIGINS", "path")]).0, Mode::Path);
}

#[test]
fn a_choice_that_has_to_be_made_is_named_with_what_each_needs() {
    let message = errors(&sources(&[("PUBLIC_BASE_URL", "https://code.example.com")], &[]));
    for part in
        ["PROXY_DOMAIN", "certificate", "PROXY_ORIGINS=port", "PROXY_LISTEN", "PROXY_ORIGINS=path", "trust"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    let base = ("PUBLIC_BASE_URL", "https://code.example.com");
    for (env, part) in [
        (vec![base, ("PROXY_ORIGINS", "domain")], "PROXY_DOMAIN"),
        (vec![base, ("PROXY_DOMAIN", "localhost")], "not on this machine"),
        (vec![base, ("PROXY_DOMAIN", "a.example, b.example")], "one domain name"),
        (vec![base, ("PROXY_DOMAIN", "10.0.0.1")], "one domain name"),
        (vec![("PROXY_DOMAIN", "apps.example")], "PUBLIC_BASE_URL"),
        (vec![base, ("PROXY_ORIGINS", "path"), ("PROXY_DOMAIN", "a.example")], "PROXY_DOMAIN"),
        (vec![base, ("PROXY_ORIGINS", "path"), ("PROXY_LISTEN", "127.0.0.1:1")], "PROXY_LISTEN"),
        (vec![("PROXY_ORIGINS", "port"), ("PROXY_LISTEN", "127.0.0.1:8080")], "same as listen"),
    ] {
        let message = errors(&sources(&env, &[]));
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn the_default_file_is_the_table() {
    let written = include_str!("../../../../codehub.default.toml");
    assert_eq!(written, default_file(), "run `codehub config --default > codehub.default.toml`");
    let (_dir, s) = with_file(&default_file());
    let effective = Effective::load(&s).unwrap();
    for value in &effective.values {
        assert_eq!(value.text, value.setting.default, "{}", value.setting.key);
        assert_eq!(
            value.origin == Origin::Default,
            value.setting.default.is_empty(),
            "{}",
            value.setting.key
        );
    }
}

#[test]
fn the_effective_configuration_is_toml_and_hides_secrets() {
    let s = sources(&[("CODEHUB_ADMIN_USERNAME", "root"), ("CODEHUB_ADMIN_PASSWORD", "correct horse")], &[]);
    let effective = Effective::load(&s).unwrap();
    let text = effective_toml(&effective);
    assert!(text.parse::<toml::Table>().is_ok(), "{text}");
    assert!(text.contains("environment CODEHUB_ADMIN_PASSWORD") && !text.contains("correct horse"));
    assert!(!format!("{:?}", effective.config).contains("correct horse"));
    assert!(!crate::config::effective_json(&effective).to_string().contains("correct horse"));
}

#[test]
fn names_are_unique_and_tables_stay_together() {
    let mut seen = HashSet::new();
    let mut tables = vec![""];
    for setting in SETTINGS {
        assert!(seen.insert(setting.key) && seen.insert(setting.env), "{}", setting.key);
        let table = setting.key.rsplit_once('.').map_or("", |(table, _)| table);
        if *tables.last().unwrap() != table {
            assert!(!tables.contains(&table), "[{table}] appears twice");
            tables.push(table);
        }
    }
}

/// Keys are looked up as texts: one that is spelled wrong, or that nobody reads, shows here.
#[test]
fn every_key_that_is_read_is_a_setting_and_every_setting_is_read() {
    let s3 =
        [("s3.bucket", "b"), ("s3.endpoint", "http://s3"), ("s3.access_key", "a"), ("s3.secret_key", "s")];
    let flags = [&s3[..], &[("public_base_url", "http://here"), ("proxy.origins", "port")]].concat();
    let effective = Effective::load(&sources(&[], &flags)).expect("every key that is read is a setting");
    Effective::load(&sources(&[], &[])).expect("also where nothing is set");
    for setting in SETTINGS {
        let others: Vec<_> =
            effective.values.iter().filter(|it| it.setting.key != setting.key).cloned().collect();
        let read = build::config(&others, Some(Path::new("/home/somebody")));
        let missing = ConfigError::Cross(format!("there is no setting {}", setting.key));
        assert!(read.is_err_and(|errors| errors.0.contains(&missing)), "nobody reads {}", setting.key);
    }
}

#[test]
fn tls_needs_both_files_and_makes_the_base_https() {
    let files = [("TLS_CERT", "/etc/c.pem"), ("TLS_KEY", "/etc/k.pem")];
    let config = Effective::load(&sources(&files, &[])).unwrap().config;
    assert_eq!(config.public_base_url, "https://localhost:8080");
    assert!(config.is_https() && config.tls.is_some());
    let with = |more: &[(&str, &str)]| errors(&sources(&[&files[..], more].concat(), &[]));
    assert!(errors(&sources(&files[..1], &[])).contains("tls.key (TLS_KEY) is not"));
    assert!(errors(&sources(&files[1..], &[])).contains("tls.cert (TLS_CERT) is not"));
    let plain = with(&[("PUBLIC_BASE_URL", "http://code.example.com"), ("PROXY_ORIGINS", "path")]);
    assert!(plain.contains("people come by https:// then"), "{plain}");
}
