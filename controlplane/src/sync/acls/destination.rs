//! Gives a running destination the access rules of the source, and takes away those that we gave; nothing else there is touched.

use crate::driver::Driver;
use crate::limits::SYNC_ACLS_PER_STEP;
use crate::mirror::event::MirrorEvent;
use crate::source::SourceError;
use crate::source::report::{Action, Report};
use crate::sync::acls::apply::change;
use crate::sync::acls::list;
use crate::sync::acls::plan::{self, Bindings, Given, Planned};
use crate::sync::cluster::Cluster;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::create_acls::CreateAclsRequest;
use twinlog_proto::messages::delete_acls::DeleteAclsRequest;
use twinlog_proto::security::acl::AclBinding;

const PLACE: &str = "destination:";
/// Entries in one request.
const PER_REQUEST: usize = 500;

/// What came of each entry.
type Outcomes = Vec<(AclBinding, ErrorCode)>;

/// Brings the destination in line with `wanted`.
pub async fn run(
    driver: &Driver,
    mirror: &str,
    cluster: &mut Cluster,
    wanted: &Bindings,
    dry_run: bool,
    report: &mut Report,
) {
    let cluster_id = match cluster.metadata(&[]).await {
        Ok(metadata) => metadata.cluster_id.unwrap_or_default(),
        Err(cause) => return report.fail_at("the destination", &cause),
    };
    let there = match list::all(cluster).await {
        Ok(Some(listed)) => listed.bindings,
        Ok(None) => {
            report.note = Some("the destination has no authorizer".to_owned());
            return;
        }
        Err(cause) => return report.fail_at("the destination", &cause),
    };
    let (given, elsewhere) = plan::given_to(&cluster_id, &given(driver, mirror));
    left(&elsewhere, report);
    let Planned { add, remove, gone, .. } = plan::destination(wanted, &there, &given);
    for binding in &gone {
        report.add(change(PLACE, binding, Action::Keep, "taken away at the destination since it was given"));
    }
    if dry_run {
        add.iter().for_each(|binding| report.add(change(PLACE, binding, Action::Set, "")));
        remove.iter().for_each(|binding| report.add(change(PLACE, binding, Action::Remove, "")));
        return;
    }
    let add: Vec<AclBinding> = add.into_iter().collect();
    let remove: Vec<AclBinding> = remove.into_iter().collect();
    // Recorded after it was done: what a crash leaves unrecorded counts as somebody else's and is never taken away.
    for (bindings, to) in [(add, Some(cluster_id.as_str())), (remove, None)] {
        for some in bindings.chunks(PER_REQUEST) {
            let outcomes = if to.is_some() { create(cluster, some).await } else { delete(cluster, some).await };
            match outcomes {
                Ok(outcomes) => record(driver, mirror, outcomes, to, report).await,
                Err(cause) => return report.fail_at("the destination", &cause),
            }
        }
    }
}

/// Says what stays at a cluster that is not the destination any more.
pub fn without_one(driver: &Driver, mirror: &str, report: &mut Report) {
    left(&given(driver, mirror), report);
}

fn left(elsewhere: &Given, report: &mut Report) {
    for (binding, cluster_id) in elsewhere {
        let whose = if cluster_id.is_empty() { "the destination before" } else { cluster_id };
        let why = format!("it stays at {whose}, which is not the destination any more; take it away there by hand");
        report.add(change(PLACE, binding, Action::Keep, &why));
    }
}

fn given(driver: &Driver, mirror: &str) -> Given {
    driver.read(|catalog, _| catalog.mirror(mirror).map(|m| m.given_acls.as_ref().clone())).unwrap_or_default()
}

async fn create(cluster: &mut Cluster, bindings: &[AclBinding]) -> Result<Outcomes, SourceError> {
    let request = CreateAclsRequest { creations: bindings.iter().map(Into::into).collect() };
    let answer = cluster.ask(&request).await?;
    Ok(paired(bindings, answer.results.into_iter().map(|result| result.error_code)))
}

async fn delete(cluster: &mut Cluster, bindings: &[AclBinding]) -> Result<Outcomes, SourceError> {
    let request = DeleteAclsRequest { filters: bindings.iter().map(Into::into).collect() };
    let answer = cluster.ask(&request).await?;
    let code = |result: twinlog_proto::messages::delete_acls::DeleteAclsFilterResult| {
        let of_entry = result.matching_acls.iter().map(|acl| acl.error_code).find(|code| *code != 0);
        if result.error_code == 0 { of_entry.unwrap_or(0) } else { result.error_code }
    };
    Ok(paired(bindings, answer.filter_results.into_iter().map(code)))
}

/// Each entry with the code that stands in its place of the answer.
fn paired(bindings: &[AclBinding], codes: impl Iterator<Item = i16>) -> Outcomes {
    let codes = codes.map(ErrorCode).chain(std::iter::repeat(ErrorCode::UNKNOWN_SERVER_ERROR));
    bindings.iter().cloned().zip(codes).collect()
}

async fn record(driver: &Driver, mirror: &str, outcomes: Outcomes, to: Option<&str>, report: &mut Report) {
    let action = if to.is_some() { Action::Set } else { Action::Remove };
    let mut done = Vec::new();
    for (binding, code) in outcomes {
        if code.is_none() {
            report.add(change(PLACE, &binding, action, ""));
            done.push(MirrorEvent::AclGiven { mirror: mirror.to_owned(), binding, to: to.map(str::to_owned) });
        } else {
            report.add(change(PLACE, &binding, Action::Fail, &format!("the destination refuses it: {code}")));
        }
    }
    while !done.is_empty() {
        let later = done.split_off(done.len().min(SYNC_ACLS_PER_STEP));
        let some = std::mem::replace(&mut done, later);
        if let Err(cause) = driver.change(move |_, _| (some, ())).await {
            report.fail(ErrorCode::KAFKA_STORAGE_ERROR, cause.to_string());
        }
    }
}
