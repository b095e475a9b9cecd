//! Asks the source for the quotas of its clients and records what follows.

use crate::driver::Driver;
use crate::limits::SYNC_QUOTAS_MAX;
use crate::mirror::catalog::Catalog;
use crate::mirror::event::MirrorEvent;
use crate::mirror::quotas::Quotas;
use crate::source::SourceError;
use crate::source::report::{Change, Report};
use crate::sync::cluster::Cluster;
use crate::sync::quotas::plan;
use std::collections::BTreeSet;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_client_quotas::DescribeClientQuotasRequest;
use twinlog_proto::messages::describe_user_scram_credentials::DescribeUserScramCredentialsRequest;

/// Syncs the quotas of a mirror's source.
pub async fn run(driver: &Driver, mirror: &str, source: &mut Cluster, dry_run: bool, report: &mut Report) {
    let quotas = match asked(source).await {
        Ok(Some(quotas)) => quotas,
        Ok(None) => {
            report.note = Some("the source tells no quotas".to_owned());
            return;
        }
        Err(cause) => return report.fail_at("the source", &cause),
    };
    let name = mirror.to_owned();
    let decide = move |catalog: &Catalog| -> (Vec<MirrorEvent>, Vec<Change>) {
        let Some(known) = catalog.mirror(&name) else { return Default::default() };
        let changes = plan::changes(&quotas, &known.quotas);
        let event = MirrorEvent::Quotas { mirror: name.clone(), quotas: quotas.clone() };
        ((*known.quotas != quotas).then_some(event).into_iter().collect(), changes)
    };
    let changes = if dry_run {
        driver.read(|catalog, _| decide(catalog).1)
    } else {
        match driver.change(move |catalog, _| decide(catalog)).await {
            Ok(changes) => changes,
            Err(cause) => return report.fail(ErrorCode::KAFKA_STORAGE_ERROR, cause.to_string()),
        }
    };
    changes.into_iter().for_each(|change| report.add(change));
}

/// What the source has; `None`: it knows no such question. One that is too old to tell who has a password has nobody.
async fn asked(source: &mut Cluster) -> Result<Option<Quotas>, SourceError> {
    let answer = match source.ask(&DescribeClientQuotasRequest::default()).await {
        Err(SourceError::Unsupported(_)) => return Ok(None),
        answer => answer?,
    };
    match ErrorCode(answer.error_code) {
        ErrorCode::NONE => {}
        code => return Err(SourceError::Refused { what: "to list its quotas", code }),
    }
    let users = match source.ask(&DescribeUserScramCredentialsRequest::default()).await {
        Err(SourceError::Unsupported(_)) => BTreeSet::new(),
        Err(cause) => return Err(cause),
        Ok(answer) if answer.error_code != 0 => {
            let code = ErrorCode(answer.error_code);
            return Err(SourceError::Refused { what: "to list its users", code });
        }
        Ok(answer) => answer.results.into_iter().map(|user| user.user).collect(),
    };
    let quotas = plan::quotas(answer.entries.unwrap_or_default(), users);
    let count = quotas.amounts.len() + quotas.scram_users.len();
    if count > SYNC_QUOTAS_MAX {
        let why = format!("it has {count} quotas and users, at most {SYNC_QUOTAS_MAX} are taken");
        return Err(SourceError::Unsupported(why));
    }
    if let Some((quota, amount)) = quotas.amounts.iter().find(|(_, amount)| !amount.is_finite()) {
        let why = format!("quota {} of {} is {amount}, which is no amount", quota.key, quota.whom());
        return Err(SourceError::Unsupported(why));
    }
    Ok(Some(quotas))
}
