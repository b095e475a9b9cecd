//! The access rules that a cluster has.

use crate::limits::SYNC_ACLS_MAX;
use crate::source::SourceError;
use crate::sync::acls::plan::Bindings;
use crate::sync::cluster::Cluster;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_acls::DescribeAclsRequest;
use twinlog_proto::security::acl::{AclBinding, Codes};

/// Stands for any value of a field.
const ANY: i8 = 1;

/// What was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The entries.
    pub bindings: Bindings,
    /// Entries of kinds that are not known here, in words.
    pub strange: Vec<String>,
}

/// All entries; `None` when the cluster has no authorizer, or knows no access rules at all.
///
/// # Errors
/// See [`SourceError`].
pub async fn all(cluster: &mut Cluster) -> Result<Option<Listed>, SourceError> {
    let request = DescribeAclsRequest {
        resource_type_filter: ANY,
        pattern_type_filter: ANY,
        operation: ANY,
        permission_type: ANY,
        resource_name_filter: None,
        principal_filter: None,
        host_filter: None,
        ..DescribeAclsRequest::default()
    };
    let answer = match cluster.ask(&request).await {
        Err(SourceError::Unsupported(_)) => return Ok(None),
        answer => answer?,
    };
    match ErrorCode(answer.error_code) {
        ErrorCode::NONE => {}
        ErrorCode::SECURITY_DISABLED => return Ok(None),
        code => return Err(SourceError::Refused { what: "to list its access rules", code }),
    }
    let (mut bindings, mut strange) = (Bindings::new(), Vec::new());
    for resource in answer.resources {
        for acl in resource.acls {
            let codes = Codes {
                resource_type: resource.resource_type,
                pattern_type: resource.pattern_type,
                operation: acl.operation,
                permission: acl.permission_type,
            };
            match AclBinding::from_codes(codes, &resource.resource_name, &acl.principal, &acl.host) {
                Ok(binding) => drop(bindings.insert(binding)),
                Err(bad) => strange.push(format!("{} of {}: {bad}", acl.principal, resource.resource_name)),
            }
        }
    }
    if bindings.len() > SYNC_ACLS_MAX {
        let why = format!("it has {} access rules, at most {SYNC_ACLS_MAX} are taken", bindings.len());
        return Err(SourceError::Unsupported(why));
    }
    Ok(Some(Listed { bindings, strange }))
}
