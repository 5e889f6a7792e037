//! Looking at the world. In bulk where one question answers for many, one by one (as a job) where
//! it does not. Whatever does not answer in time is "unknown", never "gone".

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    time::Duration,
};

use codehub_domain::{
    ArchiveKey, Generation, Operation, Timestamp, Truth, UserId, Workspace, WorkspaceId,
    decide::Outcome,
    observed::{Instance, InstanceState, Observed, Seen},
    plan::Action,
};
use codehub_runtime::{
    Among, Known, Listed,
    volumes::{ListedVolume, Scope},
};
use codehub_store::{Due, StoreError};

use super::jobs::{Observation, Survey};
use crate::Context;

/// Finds what is due and looks at it in bulk. Workspaces that need a closer look (health, archive)
/// come back without an observation.
pub(super) async fn survey(context: &Context, due: Due) -> Result<Survey, StoreError> {
    let started = std::time::Instant::now();
    let backends = &context.backends;
    let reading = backends.store.workspaces_due(due).await?;
    let mut workspaces = reading.workspaces;
    let full = matches!(due, Due::Full { .. });
    if workspaces.is_empty() && !full {
        return Ok(Survey { now: reading.now, found: Vec::new() });
    }
    // Instances before volumes: an instance seen here had its volume when the volumes are listed.
    let known: Vec<Known> = workspaces.iter().map(known).collect();
    let among = if full { Among::All(&known) } else { Among::Known(&known) };
    let instances = look(context, "instances", backends.instances.list(among)).await;
    if full && let Some(instances) = &instances {
        // Whatever runs is looked at, also when nothing is known to be going on there.
        let known: BTreeSet<WorkspaceId> = workspaces.iter().map(|workspace| workspace.id).collect();
        let others: Vec<WorkspaceId> =
            instances.iter().map(|listed| listed.workspace).filter(|id| !known.contains(id)).collect();
        if !others.is_empty() {
            workspaces.extend(backends.store.workspaces_get(&others).await?);
        }
    }
    let scope: Vec<(UserId, WorkspaceId)> = workspaces.iter().map(|it| (it.owner, it.id)).collect();
    let volumes = look(context, "volumes", backends.volumes.list(Scope::Of(&scope))).await;

    let instances = instances.map(|listed| {
        listed
            .into_iter()
            .map(|Listed { workspace, instance }| (workspace, instance))
            .collect::<BTreeMap<_, _>>()
    });
    let volumes = volumes.map(|keys| {
        let mut of: BTreeMap<WorkspaceId, Vec<ListedVolume>> = BTreeMap::new();
        for listed in keys {
            of.entry(listed.key.workspace).or_default().push(listed);
        }
        of
    });
    let found = workspaces
        .into_iter()
        .map(|workspace| {
            if context.elsewhere(&workspace).is_some() {
                return (workspace, Some(Observed::default()));
            }
            let mut seen = Observed {
                instance: instances
                    .as_ref()
                    .map_or(Seen::Unknown, |of| of.get(&workspace.id).cloned().into()),
                ..Observed::default()
            };
            if let Some(of) = &volumes {
                see_volumes(&mut seen, of.get(&workspace.id).map_or(&[][..], Vec::as_slice));
            }
            let closer = needs_health(&seen.instance) || archive_to_see(&workspace, None).is_some();
            (workspace, (!closer).then_some(seen))
        })
        .collect();
    metrics::histogram!(crate::metric::SURVEY_SECONDS).record(started.elapsed().as_secs_f64());
    Ok(Survey { now: reading.now, found })
}

/// Looks closely at one workspace, after an action or because a survey could not tell.
pub(super) async fn look_at(
    context: &Context,
    id: WorkspaceId,
    after: Option<(Action, Outcome)>,
) -> Observation {
    let backends = &context.backends;
    let read = async {
        let Some(workspace) = backends.store.workspace_get(id).await? else { return Ok(None) };
        Ok(Some((workspace, backends.store.now().await?)))
    };
    let workspace: Result<Option<(Workspace, Timestamp)>, StoreError> = read.await;
    let mut seen = Observed::default();
    if let Ok(Some((workspace, _))) = &workspace
        && context.elsewhere(workspace).is_none()
    {
        let status = look(context, "instance", backends.instances.status(id)).await;
        seen.instance = status.map_or(Seen::Unknown, Seen::from);
        let scope = [(workspace.owner, id)];
        let volumes = look(context, "volumes", backends.volumes.list(Scope::Of(&scope))).await;
        if let Some(volumes) = volumes {
            see_volumes(&mut seen, &volumes);
        }
        if let Some(key) = archive_to_see(workspace, after.as_ref().map(|(_, outcome)| outcome)) {
            let head = look(context, "archive", backends.archives.head(&key)).await;
            seen.archive = head.map_or(Seen::Unknown, |found| found.map(|_| ()).into());
        }
    }
    Observation { workspace, seen, after }
}

/// What a listing may take for granted of this workspace.
fn known(workspace: &Workspace) -> Known {
    let status = &workspace.status;
    Known {
        workspace: workspace.id,
        there: status.conditions.container_ready(),
        under_way: status.operation != Operation::None,
    }
}

/// Notes all volumes of a workspace, as listed.
fn see_volumes(seen: &mut Observed, listed: &[ListedVolume]) {
    let generations: BTreeSet<Generation> = listed.iter().map(|listed| listed.key.generation).collect();
    seen.volumes = if generations.is_empty() { Seen::NotThere } else { Seen::There(generations) };
    seen.trouble =
        listed.iter().filter_map(|listed| Some((listed.key.generation, listed.trouble.clone()?))).collect();
}

/// A listing tells that it lives or ended; whether it answers, and how it ended, has to be asked.
fn needs_health(instance: &Seen<Instance>) -> bool {
    matches!(
        instance,
        Seen::There(Instance { state: InstanceState::Alive | InstanceState::Ended { .. }, .. })
    )
}

/// The archive that has to be seen to judge this workspace: the one just written, or the one that is
/// the home, or one nobody has looked at yet.
fn archive_to_see(workspace: &Workspace, outcome: Option<&Outcome>) -> Option<ArchiveKey> {
    if let Some(Outcome::Archived { archive }) = outcome {
        return Some(archive.key);
    }
    let status = &workspace.status;
    let needed = status.home.truth == Truth::Archive || status.conditions.archive_ready.is_none();
    status.archive_key.filter(|_| needed && workspace.deleted_at.is_none())
}

/// Asks a dependency, within the time a look may take.
async fn look<T, E: std::fmt::Display>(
    context: &Context,
    what: &'static str,
    question: impl Future<Output = Result<T, E>>,
) -> Option<T> {
    let limit: Duration = context.settings.look_timeout;
    let why = match tokio::time::timeout(limit, question).await {
        Ok(Ok(answer)) => return Some(answer),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", limit.as_secs()),
    };
    metrics::counter!(crate::metric::LOOK_FAILURES, "what" => what).increment(1);
    tracing::warn!(what, why, "could not look");
    None
}
