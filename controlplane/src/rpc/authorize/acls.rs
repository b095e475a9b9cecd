//! pure: the requests about access control entries: DESCRIBE or ALTER on the cluster.

use super::{Access, Guard};
use crate::mirror::catalog::Catalog;
use twinlog_proto::messages::Request;
use twinlog_proto::messages::create_acls::{AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse};
use twinlog_proto::messages::delete_acls::{
    DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse,
};
use twinlog_proto::messages::describe_acls::{DescribeAclsRequest, DescribeAclsResponse};
use twinlog_proto::security::codes::Operation;

impl Guard for DescribeAclsRequest {
    fn refuse(&self, _version: i16, access: &Access<'_>, _catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let refusal = access.need_cluster(Operation::Describe).err()?;
        let (error_code, error_message) = (refusal.code.0, Some(refusal.message));
        Some(DescribeAclsResponse { error_code, error_message, ..DescribeAclsResponse::default() })
    }
}

impl Guard for CreateAclsRequest {
    fn refuse(&self, _version: i16, access: &Access<'_>, _catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let refusal = access.need_cluster(Operation::Alter).err()?;
        let one = |_: &AclCreation| AclCreationResult {
            error_code: refusal.code.0,
            error_message: access.words(refusal.clone()),
        };
        Some(CreateAclsResponse { results: self.creations.iter().map(one).collect(), ..CreateAclsResponse::default() })
    }
}

impl Guard for DeleteAclsRequest {
    fn refuse(&self, _version: i16, access: &Access<'_>, _catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let refusal = access.need_cluster(Operation::Alter).err()?;
        let one = |_: &DeleteAclsFilter| DeleteAclsFilterResult {
            error_code: refusal.code.0,
            error_message: access.words(refusal.clone()),
            ..DeleteAclsFilterResult::default()
        };
        let filter_results = self.filters.iter().map(one).collect();
        Some(DeleteAclsResponse { filter_results, ..DeleteAclsResponse::default() })
    }
}
