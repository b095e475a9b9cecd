//! `twinlog mirrors sync`, and the syncs in `mirrors describe`.

use super::args::SyncArgs;
use super::{connect, describe, output};
use crate::client::Client;
use crate::failure::Failure;
use serde::Serialize;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_mirrors::DescribedSync;
use twinlog_proto::messages::list_mirrors::ListMirrorsRequest;
use twinlog_proto::messages::sync_mirror::{SyncChange, SyncMirrorRequest, SyncedKind};

/// One sync of `mirrors describe --json`; `None` is "not since the start".
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sync {
    pub(super) kind: String,
    interval_ms: i64,
    last_success_ms: Option<i64>,
    last_attempt_ms: Option<i64>,
    pub(super) last_error: Option<String>,
    note: Option<String>,
    applied: i64,
    failed: i64,
    skipped: i64,
}

impl From<DescribedSync> for Sync {
    fn from(sync: DescribedSync) -> Self {
        let time = |ms: i64| (ms >= 0).then_some(ms);
        Self {
            kind: sync.kind,
            interval_ms: sync.interval_ms,
            last_success_ms: time(sync.last_success_ms),
            last_attempt_ms: time(sync.last_attempt_ms),
            last_error: sync.last_error,
            note: sync.note,
            applied: sync.applied,
            failed: sync.failed,
            skipped: sync.skipped,
        }
    }
}

/// Prints the syncs of described mirrors.
///
/// # Errors
/// When stdout is gone.
pub(super) fn table(mirrors: &[describe::Mirror]) -> Result<(), Failure> {
    let now_ms = crate::clock::now_ms();
    let ago = |ms: Option<i64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{} s", (now_ms - ms).max(0) / 1000));
    let mut rows = Vec::new();
    for mirror in mirrors {
        for sync in &mirror.syncs {
            let interval = if sync.interval_ms == 0 { "off".to_owned() } else { format!("{} ms", sync.interval_ms) };
            let said = sync.last_error.clone().or_else(|| sync.note.clone()).unwrap_or_default();
            rows.push(vec![
                mirror.mirror.clone(),
                sync.kind.clone(),
                interval,
                ago(sync.last_success_ms),
                sync.applied.to_string(),
                sync.failed.to_string(),
                sync.skipped.to_string(),
                said,
            ]);
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let heads = ["MIRROR", "SYNC", "#EVERY", "#SUCCEEDED AGO", "#APPLIED", "#FAILED", "#KEPT", "ERROR OR NOTE"];
    output::line("")?;
    output::table(&heads, &rows)
}

/// What came of one kind, as `--json` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Synced {
    mirror: String,
    kind: String,
    dry_run: bool,
    error: Option<String>,
    note: Option<String>,
    applied: i64,
    failed: i64,
    skipped: i64,
    changes: Vec<Shown>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    resource: String,
    key: String,
    from: Option<String>,
    to: Option<String>,
    action: String,
    reason: Option<String>,
}

/// Syncs one mirror, or all.
///
/// # Errors
/// When the control plane refuses or does not answer, or a kind could not be synced; what was done is printed before.
pub(super) fn run(args: &SyncArgs) -> Result<(), Failure> {
    let mut client = connect(&args.ask)?;
    let mirrors = match &args.mirror {
        Some(mirror) => vec![mirror.clone()],
        None => {
            let answer = client.ask(&ListMirrorsRequest::default())?;
            describe::refuse(answer.error_code, answer.error_message.as_deref(), "the mirrors are not listed")?;
            answer.mirrors.into_iter().map(|mirror| mirror.mirror_name).collect()
        }
    };
    let mut all = Vec::new();
    for mirror in mirrors {
        all.extend(sync(&mut client, mirror, args)?);
    }
    if args.ask.json {
        output::json(&all)?;
    } else {
        print(&all)?;
    }
    let failed = all.iter().find(|kind| kind.error.is_some() || kind.failed > 0);
    match failed {
        None => Ok(()),
        Some(kind) => {
            let refused = format!("{} were refused or failed, see the rows above whose action is `fail`", kind.failed);
            Err(Failure::told(
                format!("the {} of mirror {} are not in line with the source", kind.kind, kind.mirror),
                kind.error.clone().unwrap_or(refused),
            ))
        }
    }
}

fn sync(client: &mut Client, mirror: String, args: &SyncArgs) -> Result<Vec<Synced>, Failure> {
    let request = SyncMirrorRequest { mirror_name: mirror.clone(), what: args.what.clone(), dry_run: args.dry_run };
    let answer = client.ask(&request)?;
    let what = format!("mirror {mirror} is not synced");
    describe::refuse(answer.error_code, answer.error_message.as_deref(), &what)?;
    Ok(answer.kinds.into_iter().map(|kind| synced(&mirror, kind, args.dry_run)).collect())
}

fn synced(mirror: &str, kind: SyncedKind, dry_run: bool) -> Synced {
    let code = ErrorCode(kind.error_code);
    let shown = |change: SyncChange| Shown {
        resource: change.resource,
        key: change.key,
        from: change.from,
        to: change.to,
        action: change.action,
        reason: change.reason,
    };
    Synced {
        mirror: mirror.to_owned(),
        kind: kind.kind,
        dry_run,
        error: (!code.is_none()).then(|| kind.error_message.unwrap_or_else(|| code.name().to_owned())),
        note: kind.note,
        applied: kind.applied,
        failed: kind.failed,
        skipped: kind.skipped,
        changes: kind.changes.into_iter().map(shown).collect(),
    }
}

fn print(all: &[Synced]) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for kind in all {
        for change in &kind.changes {
            let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            rows.push(vec![
                kind.mirror.clone(),
                kind.kind.clone(),
                change.action.clone(),
                change.resource.clone(),
                change.key.clone(),
                value(&change.from),
                value(&change.to),
                change.reason.clone().unwrap_or_default(),
            ]);
        }
    }
    if !rows.is_empty() {
        output::table(&["MIRROR", "KIND", "ACTION", "RESOURCE", "KEY", "FROM", "TO", "WHY"], &rows)?;
    }
    for Synced { mirror, kind, dry_run, note, applied, failed, skipped, .. } in all {
        let done = if *dry_run { "would be changed" } else { "changed" };
        let note = note.as_ref().map_or_else(String::new, |note| format!(" ({note})"));
        output::line(&format!("{mirror}: {kind}: {applied} {done}, {failed} failed, {skipped} kept{note}"))?;
    }
    Ok(())
}
