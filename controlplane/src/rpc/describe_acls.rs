//! pure: DescribeAcls: the entries that a filter means, by resource.
//!
//! Entries are kept and shown whether callers are judged by them or not: they are also what a broker gets that takes the topics
//! over, and whoever switches the authorizer on must have made them before. The answer says whether they count.

use crate::mirror::catalog::Catalog;
use crate::rpc::authorize::Access;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_acls::{
    AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse,
};
use twinlog_proto::security::acl::AclBinding;
use twinlog_proto::security::filter::{AclFilter, BadFilter, FilterCodes};

/// The answer.
#[must_use]
pub fn handle(request: &DescribeAclsRequest, catalog: &Catalog, access: &Access<'_>) -> DescribeAclsResponse {
    let filter = match filter(request) {
        Ok(filter) => filter,
        Err(bad) => {
            return DescribeAclsResponse {
                error_code: ErrorCode::INVALID_REQUEST.0,
                error_message: Some(bad.to_string()),
                ..DescribeAclsResponse::default()
            };
        }
    };
    let mut resources: Vec<DescribeAclsResource> = Vec::new();
    let entries = catalog.acls().of(&request.origin_mirror).into_iter().flat_map(|acls| acls.iter());
    // They come by resource.
    for entry in entries.filter(|entry| means(&filter, entry)) {
        let codes = entry.codes();
        let described = AclDescription {
            principal: entry.principal.clone(),
            host: entry.host.clone(),
            operation: codes.operation,
            permission_type: codes.permission,
        };
        match resources.last_mut() {
            Some(last)
                if (last.resource_type, last.pattern_type) == (codes.resource_type, codes.pattern_type)
                    && last.resource_name == entry.resource_name =>
            {
                last.acls.push(described);
            }
            _ => resources.push(DescribeAclsResource {
                resource_type: codes.resource_type,
                resource_name: entry.resource_name.clone(),
                pattern_type: codes.pattern_type,
                acls: vec![described],
            }),
        }
    }
    DescribeAclsResponse { resources, enforced: access.is_enforced(), ..DescribeAclsResponse::default() }
}

fn filter(request: &DescribeAclsRequest) -> Result<AclFilter, BadFilter> {
    let codes = FilterCodes {
        resource_type: request.resource_type_filter,
        pattern_type: request.pattern_type_filter,
        operation: request.operation,
        permission: request.permission_type,
    };
    Ok(AclFilter {
        resource_name: request.resource_name_filter.clone(),
        principal: request.principal_filter.clone(),
        host: request.host_filter.clone(),
        ..AclFilter::from_codes(codes)?
    })
}

/// Whether a filter of a request means the entry. Any type is any of the stock types: a stock client takes an answer with another
/// one for broken.
pub(super) fn means(filter: &AclFilter, entry: &AclBinding) -> bool {
    filter.matches(entry) && (filter.resource_type.is_some() || entry.resource_type.is_stock())
}
