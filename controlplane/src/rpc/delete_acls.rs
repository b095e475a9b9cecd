//! pure: DeleteAcls: fewer of the entries that were made here. Those that come from a source are the sync's to take away.

use super::describe_acls::means;
use crate::limits::ACL_FILTERS_MAX;
use crate::mirror::acls::MADE_HERE;
use crate::mirror::catalog::Catalog;
use crate::mirror::event::MirrorEvent;
use crate::rpc::{Refusal, each};
use std::collections::BTreeSet;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::delete_acls::{
    DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsRequest, DeleteAclsResponse,
};
use twinlog_proto::security::acl::AclBinding;
use twinlog_proto::security::filter::{AclFilter, BadFilter, FilterCodes};

/// Decides. An entry that several filters mean is told with the first.
#[must_use]
pub fn decide(request: &DeleteAclsRequest, catalog: &Catalog) -> (Vec<MirrorEvent>, DeleteAclsResponse) {
    let here = catalog.acls().here();
    let mut gone = BTreeSet::new();
    let mut one = |(at, asked): (usize, &DeleteAclsFilter)| {
        let refused = |why: String| DeleteAclsFilterResult {
            error_code: ErrorCode::INVALID_REQUEST.0,
            error_message: Some(why),
            ..DeleteAclsFilterResult::default()
        };
        if at >= ACL_FILTERS_MAX {
            return refused(format!("a request may have {ACL_FILTERS_MAX} filters; send the others in another one"));
        }
        match filter(asked) {
            Err(bad) => refused(bad.to_string()),
            Ok(filter) => {
                let meant = here.iter().filter(|entry| means(&filter, entry));
                let matching_acls = meant.filter(|entry| gone.insert((*entry).clone())).map(told).collect();
                DeleteAclsFilterResult { matching_acls, ..DeleteAclsFilterResult::default() }
            }
        }
    };
    let filter_results = request.filters.iter().enumerate().map(&mut one).collect();
    let event = |binding| MirrorEvent::Acl { origin: MADE_HERE.to_owned(), binding, present: false };
    (gone.into_iter().map(event).collect(), DeleteAclsResponse { filter_results, ..DeleteAclsResponse::default() })
}

fn filter(asked: &DeleteAclsFilter) -> Result<AclFilter, BadFilter> {
    let codes = FilterCodes {
        resource_type: asked.resource_type_filter,
        pattern_type: asked.pattern_type_filter,
        operation: asked.operation,
        permission: asked.permission_type,
    };
    Ok(AclFilter {
        resource_name: asked.resource_name_filter.clone(),
        principal: asked.principal_filter.clone(),
        host: asked.host_filter.clone(),
        ..AclFilter::from_codes(codes)?
    })
}

fn told(entry: &AclBinding) -> DeleteAclsMatchingAcl {
    let codes = entry.codes();
    DeleteAclsMatchingAcl {
        resource_type: codes.resource_type,
        resource_name: entry.resource_name.clone(),
        pattern_type: codes.pattern_type,
        principal: entry.principal.clone(),
        host: entry.host.clone(),
        operation: codes.operation,
        permission_type: codes.permission,
        ..DeleteAclsMatchingAcl::default()
    }
}

/// The answer when all of the request is refused: there is no error for the whole, so every filter gets it.
#[must_use]
pub fn refused(request: &DeleteAclsRequest, refusal: &Refusal) -> DeleteAclsResponse {
    let one = |(_, error_code, error_message)| DeleteAclsFilterResult {
        error_code,
        error_message,
        ..DeleteAclsFilterResult::default()
    };
    let filter_results = each(&request.filters, refusal).map(one).collect();
    DeleteAclsResponse { filter_results, ..DeleteAclsResponse::default() }
}
