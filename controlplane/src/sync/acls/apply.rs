//! Reads the access rules of the source and records what follows for the mirror.

use crate::driver::Driver;
use crate::limits::SYNC_ACLS_PER_STEP;
use crate::mirror::acl_rules::Rules;
use crate::mirror::catalog::Catalog;
use crate::mirror::event::MirrorEvent;
use crate::mirror::settings::destination_servers;
use crate::source::report::{Action, Change, Report};
use crate::sync::acls::plan::{self, Bindings};
use crate::sync::acls::{destination, list};
use crate::sync::cluster::Cluster;
use crate::sync::filters;
use std::rc::Rc;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::security::acl::AclBinding;

/// Syncs the access rules of a mirror.
pub async fn run(driver: &Driver, mirror: &str, source: &mut Cluster, dry_run: bool, report: &mut Report) {
    let Some(settings) = driver.read(|catalog, _| catalog.mirror(mirror).map(|m| m.facts.settings.clone())) else {
        return report.fail(ErrorCode::UNKNOWN_CLUSTER_MIRROR, "the mirror is gone");
    };
    let rules = match filters::acls(&settings) {
        Ok(rules) => rules,
        Err(why) => return report.fail(ErrorCode::INVALID_CONFIG, why),
    };
    let listed = match list::all(source).await {
        Ok(Some(listed)) => listed,
        Ok(None) => {
            report.note = Some("the source has no authorizer".to_owned());
            return;
        }
        Err(cause) => return report.fail_at("the source", &cause),
    };
    for strange in listed.strange {
        let reason = Some("a kind that is not known here".to_owned());
        let (resource, key) = (strange, "*".to_owned());
        report.add(Change { resource, key, from: None, to: None, action: Action::Keep, reason });
    }
    let wanted: Bindings = listed.bindings.into_iter().filter(|binding| rules.follow(binding)).collect();
    if let Err(why) = here(driver, mirror, &Rc::new(wanted.clone()), &rules, dry_run, report).await {
        return report.fail(ErrorCode::KAFKA_STORAGE_ERROR, why);
    }
    let servers = destination_servers(&settings);
    if servers.is_empty() {
        destination::without_one(driver, mirror, report);
    } else {
        let mut cluster = Cluster::at(servers);
        destination::run(driver, mirror, &mut cluster, &wanted, dry_run, report).await;
    }
}

/// Brings the entries that are kept for the mirror in line, some at a time.
async fn here(
    driver: &Driver,
    mirror: &str,
    wanted: &Rc<Bindings>,
    rules: &Rules,
    dry_run: bool,
    report: &mut Report,
) -> Result<(), String> {
    if dry_run {
        let planned = driver.read(|catalog, _| plan::here(wanted, rules, &ours(catalog, mirror)));
        planned.add.iter().for_each(|binding| report.add(change("", binding, Action::Set, "")));
        planned.remove.iter().for_each(|binding| report.add(change("", binding, Action::Remove, "")));
        return Ok(());
    }
    loop {
        let (origin, wanted, rules) = (mirror.to_owned(), Rc::clone(wanted), rules.clone());
        let step =
            move |catalog: &Catalog| step(catalog, &origin, plan::here(&wanted, &rules, &ours(catalog, &origin)));
        let changes = driver.change(move |catalog, _| step(catalog)).await.map_err(|cause| cause.to_string())?;
        let more = changes.len() == SYNC_ACLS_PER_STEP;
        changes.into_iter().for_each(|change| report.add(change));
        if !more {
            return Ok(());
        }
    }
}

fn step(catalog: &Catalog, mirror: &str, planned: plan::Planned) -> (Vec<MirrorEvent>, Vec<Change>) {
    if catalog.mirror(mirror).is_none() {
        return (Vec::new(), Vec::new());
    }
    let add = planned.add.into_iter().map(|binding| (binding, true));
    let remove = planned.remove.into_iter().map(|binding| (binding, false));
    let some = add.chain(remove).take(SYNC_ACLS_PER_STEP);
    some.map(|(binding, present)| {
        let action = if present { Action::Set } else { Action::Remove };
        let change = change("", &binding, action, "");
        (MirrorEvent::Acl { origin: mirror.to_owned(), binding, present }, change)
    })
    .unzip()
}

fn ours(catalog: &Catalog, mirror: &str) -> Bindings {
    catalog.acls().of(mirror).into_iter().flat_map(|acls| acls.iter().cloned()).collect()
}

/// A difference, as `TOPIC:orders:LITERAL` and `User:alice:READ:ALLOW:*`.
pub(super) fn change(place: &str, binding: &AclBinding, action: Action, reason: &str) -> Change {
    let AclBinding { resource_type, resource_name, pattern_type, principal, host, operation, permission } = binding;
    Change {
        resource: format!("{place}{resource_type}:{resource_name}:{pattern_type}"),
        key: format!("{principal}:{operation}:{permission}:{host}"),
        from: None,
        to: None,
        action,
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
    }
}
