//! pure: SyncMirror: what is mirrored besides records follows the source now, or it is said what that would change. `server/dispatch.rs`
//! has it done by `sync/run.rs` in between.

use crate::mirror::catalog::Catalog;
use crate::rpc::{Refusal, Refused};
use crate::source::report::{Change, Kind, Report};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::sync_mirror::{SyncChange, SyncMirrorRequest, SyncMirrorResponse, SyncedKind};

/// The kinds that are asked for.
///
/// # Errors
/// The refusal of the whole request: an unknown kind, an unknown mirror.
pub fn asked(request: &SyncMirrorRequest, catalog: &Catalog) -> Result<Vec<Kind>, Refusal> {
    let kinds = kinds(&request.what)?;
    catalog.mirror(&request.mirror_name).ok_or_else(|| Refusal::unknown_mirror(&request.mirror_name))?;
    Ok(kinds)
}

/// The answer; every kind answers for itself.
#[must_use]
pub fn answer(request: &SyncMirrorRequest, reports: Vec<Report>) -> SyncMirrorResponse {
    SyncMirrorResponse {
        mirror_name: request.mirror_name.clone(),
        kinds: reports.into_iter().map(told).collect(),
        ..SyncMirrorResponse::default()
    }
}

fn kinds(what: &[String]) -> Result<Vec<Kind>, Refusal> {
    let named: Result<Vec<Kind>, String> = what.iter().map(|name| name.trim().parse()).collect();
    let named = named.map_err(|why| Refusal::new(ErrorCode::INVALID_REQUEST, why))?;
    Ok(Kind::ALL.into_iter().filter(|kind| named.is_empty() || named.contains(kind)).collect())
}

fn told(report: Report) -> SyncedKind {
    let (code, message) = report.error.map_or((ErrorCode::NONE, None), |(code, why)| (code, Some(why)));
    SyncedKind {
        kind: report.kind.name().to_owned(),
        error_code: code.0,
        error_message: message,
        note: report.note,
        applied: report.applied.cast_signed(),
        failed: report.failed.cast_signed(),
        skipped: report.skipped.cast_signed(),
        changes: report.changes.into_iter().map(shown).collect(),
    }
}

fn shown(change: Change) -> SyncChange {
    let Change { resource, key, from, to, action, reason } = change;
    SyncChange { resource, key, from, to, action: action.name().to_owned(), reason }
}

impl Refused for SyncMirrorResponse {
    fn refused(refusal: Refusal) -> Self {
        Self { error_code: refusal.code.0, error_message: Some(refusal.message), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_in_their_order_and_an_unknown_one_is_named() {
        assert_eq!(kinds(&["acls".into(), "topics".into()]).unwrap(), [Kind::Topics, Kind::Acls]);
        assert_eq!(kinds(&[]).unwrap(), Kind::ALL);
        assert!(kinds(&["acl".into()]).unwrap_err().message.contains("acl"));
    }
}
