//! Signing in and out, and who one is.

use std::{
    io::{IsTerminal as _, Read as _},
    path::PathBuf,
    time::{Duration, Instant},
};

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    api::{self, Api},
    browser,
    context::{self, Context, Contexts, Environment, Target},
    failure::{Failure, Kind, Result},
    output,
};

/// `codehub login`.
#[derive(Debug, clap::Args)]
pub struct Login {
    /// Where the server is; the current context's unless said
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// What to call the context; the server's name unless said
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Read a token from standard input instead of asking for one in the browser
    #[arg(long)]
    token_stdin: bool,
    /// Do not open a browser: show the address only
    #[arg(long)]
    no_browser: bool,
    /// Certificates to trust besides the system's, in PEM
    #[arg(long, value_name = "FILE", env = "CODEHUB_CA_FILE", hide_env_values = true)]
    ca_file: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Whoever was signed in.
struct SignedIn {
    token: String,
    token_id: Option<String>,
    user: String,
}

pub(crate) async fn login(options: Login) -> Result<()> {
    let mut contexts = Contexts::load()?;
    let url = match &options.url {
        Some(url) => context::server_url(url)?,
        None => context::target(None, &Environment::of_process(), &contexts)?.url,
    };
    let ca_file = options.ca_file.as_deref().map(api::absolute).transpose()?;
    if url.starts_with("http:") && !context::is_loopback(&url) {
        output::note(format_args!("{url} is not encrypted: whoever is in between can read the token"));
    }
    let target = Target { url: url.clone(), token: None, ca_file: ca_file.clone(), context: None };
    let signed_in = if options.token_stdin {
        with_token(target).await?
    } else {
        by_code(&Api::new(&target).await?, options.no_browser).await?
    };
    let name = options.name.unwrap_or_else(|| {
        let known = contexts.contexts.iter().find(|(_, context)| context.url == url);
        known.map_or_else(|| context::default_name(&url), |(name, _)| name.clone())
    });
    let SignedIn { token, token_id, user } = signed_in;
    let context = Context { url: url.clone(), token, token_id, user: user.clone(), ca_file };
    let before = contexts.contexts.insert(name.clone(), context);
    contexts.current = Some(name.clone());
    contexts.save()?;
    if let Some(before) = before {
        // What nobody uses any more should not work any more.
        let _ = delete_token(&before).await;
    }
    if options.json {
        output::json(&json!({ "context": name, "url": url, "user": user }));
    } else {
        output::note(format_args!("signed in to {url} as {user} (context {name})"));
    }
    let said = Environment::of_process();
    if said.token.is_some() || said.url.is_some_and(|said| context::server_url(&said).ok() != Some(url)) {
        output::note("CODEHUB_API_URL, CODEHUB_URL and CODEHUB_TOKEN win over this while they are set");
    }
    Ok(())
}

/// With a token that was made elsewhere.
async fn with_token(mut target: Target) -> Result<SignedIn> {
    let mut token = String::new();
    let read = std::io::stdin().take(4096).read_to_string(&mut token);
    read.map_err(|error| Failure::local("standard input", error))?;
    let token = token.trim().to_owned();
    if token.is_empty() {
        return Err(Failure::new(Kind::Usage, "there is no token on standard input")
            .or_next("make one on the Tokens page of the dashboard"));
    }
    target.token = Some(token.clone());
    let session = Api::new(&target).await?.get("/auth/session").await?;
    let user = session.pointer("/user/username").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(SignedIn { token, token_id: None, user })
}

/// Shows a code, and waits until somebody has confirmed it in a browser.
async fn by_code(api: &Api, no_browser: bool) -> Result<SignedIn> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let machine: String = output::clean(&name).chars().take(64).collect();
    let machine = if machine.trim().is_empty() { "unknown".to_owned() } else { machine };
    let body = json!({ "machine": machine });
    let asked = api.ask(Method::POST, "/auth/device", Some(body), Duration::ZERO).await;
    let asked = asked.map_err(|failure| match failure.kind {
        Kind::NotFound => Failure::new(Kind::Failed, format!("{} knows no sign-in by code", api.url))
            .or_next("make a token on its Tokens page, and use `codehub login URL --token-stdin`"),
        _ => failure,
    })?;
    let text = |key: &str| asked.1[key].as_str().unwrap_or_default().to_owned();
    // An address of this server's, whatever it answers.
    let page = match text("verification_path_complete") {
        path if path.starts_with('/') => format!("{}{}", api.url, output::clean(&path)),
        _ => format!("{}/device", api.url),
    };
    let code = output::clean(&text("user_code"));
    eprintln!("Open this page in a browser, and check that it shows the same code:\n");
    eprintln!("    {page}\n\n    {code}\n");
    if !no_browser && std::io::stderr().is_terminal() {
        browser::open(&page);
    }
    let seconds = |key: &str, otherwise| Duration::from_secs(asked.1[key].as_u64().unwrap_or(otherwise));
    let deadline = Instant::now() + seconds("expires_in_seconds", 600);
    let pause = seconds("interval_seconds", 2).max(Duration::from_millis(200));
    let body = json!({ "device_code": text("device_code") });
    loop {
        tokio::time::sleep(pause).await;
        let fetched = api.ask(Method::POST, "/auth/device/token", Some(body.clone()), Duration::ZERO).await;
        match fetched {
            Ok((StatusCode::OK, token)) => {
                let text = |pointer: &str| token.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
                return Ok(SignedIn {
                    token: text("/token").unwrap_or_default(),
                    token_id: text("/id"),
                    user: text("/user/username").unwrap_or_default(),
                });
            }
            Ok(_) if Instant::now() < deadline => {}
            Ok(_) => {
                return Err(Failure::new(Kind::TooLong, "nobody confirmed the code in time")
                    .or_next("run `codehub login` again for a new one"));
            }
            Err(failure) if failure.kind == Kind::NotFound => {
                return Err(Failure::new(Kind::TooLong, "nobody confirmed the code in time")
                    .or_next("run `codehub login` again for a new one"));
            }
            Err(failure) if failure.kind == Kind::Unreachable && Instant::now() < deadline => {}
            Err(failure) => return Err(failure),
        }
    }
}

/// Deletes a token that `login` made.
async fn delete_token(context: &Context) -> Result<()> {
    let Some(id) = &context.token_id else { return Ok(()) };
    let target = Target {
        url: context.url.clone(),
        token: Some(context.token.clone()),
        ca_file: context.ca_file.clone(),
        context: None,
    };
    let api = Api::new(&target).await?;
    match api.ask(Method::DELETE, &format!("/auth/tokens/{id}"), None, Duration::ZERO).await {
        // It does not work any more: that is what was wanted.
        Err(failure) if matches!(failure.kind, Kind::Denied | Kind::NotFound) => Ok(()),
        answer => answer.map(|_| ()),
    }
}

/// `codehub logout`.
#[derive(Debug, clap::Args)]
pub struct Logout {
    /// The context to end; the current one unless said
    #[arg(value_name = "CONTEXT")]
    context: Option<String>,
}

pub(crate) async fn logout(options: Logout) -> Result<()> {
    let mut contexts = Contexts::load()?;
    let nobody = || Failure::new(Kind::Denied, "you are not signed in anywhere");
    let said = options.context.or_else(|| Environment::of_process().context);
    let name = said.or_else(|| contexts.current.clone()).ok_or_else(nobody)?;
    let context = contexts.named(&name)?.clone();
    let deleted = delete_token(&context).await;
    forget(&mut contexts, &name)?;
    match deleted {
        Ok(()) => output::note(format_args!("signed out of {}", context.url)),
        Err(failure) => output::note(format_args!(
            "the token is forgotten here, but could not be deleted on the server, where it ends by itself: {failure}"
        )),
    }
    Ok(())
}

fn forget(contexts: &mut Contexts, name: &str) -> Result<()> {
    contexts.contexts.remove(name);
    if contexts.current.as_deref() == Some(name) {
        contexts.current = None;
    }
    contexts.save()
}

/// `codehub whoami`.
pub(crate) async fn whoami(api: &Api, target: &Target, json: bool) -> Result<()> {
    let session = api.get("/auth/session").await?;
    if json {
        output::json(&session);
        return Ok(());
    }
    let text = |pointer: &str| session.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    output::line(text("/user/username"));
    let context = target.context.as_ref().map(|name| format!(", context {name}"));
    output::note(format_args!("{} at {}{}", text("/user/role"), target.url, context.unwrap_or_default()));
    Ok(())
}

/// `codehub version`: of both sides. Without a server that answers, of this one.
pub(crate) async fn version(api: Result<Api>, json: bool) -> Result<()> {
    let client = env!("CARGO_PKG_VERSION");
    let server = match &api {
        Ok(api) => api.get("/auth/session").await.ok(),
        Err(_) => None,
    };
    let server = server.and_then(|session| session["server_version"].as_str().map(str::to_owned));
    if json {
        output::json(&json!({ "client": client, "server": server }));
        return Ok(());
    }
    output::line(format_args!("client {client}"));
    match (server, api) {
        (Some(server), Ok(api)) => output::line(format_args!("server {server} ({})", api.url)),
        _ => output::note("the server's version is not known: nobody is signed in, or it does not answer"),
    }
    Ok(())
}

/// `codehub context …`
#[derive(Debug, clap::Subcommand)]
pub enum ContextCommand {
    /// List the servers you are signed in to
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Use this one from now on
    Use {
        /// The context
        name: String,
    },
    /// Forget one, and leave its token as it is; `codehub logout` also ends the token
    Rm {
        /// The context
        name: String,
    },
}

pub(crate) fn contexts(command: ContextCommand) -> Result<()> {
    let mut contexts = Contexts::load()?;
    match command {
        ContextCommand::Ls { json: true } => {
            let items = contexts.contexts.iter().map(|(name, context)| {
                let current = contexts.current.as_ref() == Some(name);
                json!({ "name": name, "url": context.url, "user": context.user, "current": current })
            });
            output::json(&json!({ "items": items.collect::<Vec<_>>() }));
            Ok(())
        }
        ContextCommand::Ls { json: false } => {
            let row = |(name, context): (&String, &Context)| {
                let mark = if contexts.current.as_ref() == Some(name) { "*" } else { "" };
                vec![mark.to_owned(), name.clone(), context.url.clone(), context.user.clone()]
            };
            output::table(
                &["", "NAME", "URL", "USER"],
                &contexts.contexts.iter().map(row).collect::<Vec<_>>(),
            );
            Ok(())
        }
        ContextCommand::Use { name } => {
            contexts.named(&name)?;
            contexts.current = Some(name);
            contexts.save()
        }
        ContextCommand::Rm { name } => {
            contexts.named(&name)?;
            forget(&mut contexts, &name)
        }
    }
}
