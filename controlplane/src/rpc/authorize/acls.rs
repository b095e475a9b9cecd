//! pure: the requests about access control entries: DESCRIBE or ALTER on the cluster.

use super::{Access, Guard};
use crate::mirror::catalog::Catalog;
use crate::rpc::{create_acls, delete_acls};
use twinlog_proto::messages::Request;
use twinlog_proto::messages::create_acls::CreateAclsRequest;
use twinlog_proto::messages::delete_acls::DeleteAclsRequest;
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
        Some(create_acls::refused(self, &refusal))
    }
}

impl Guard for DeleteAclsRequest {
    fn refuse(&self, _version: i16, access: &Access<'_>, _catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let refusal = access.need_cluster(Operation::Alter).err()?;
        Some(delete_acls::refused(self, &refusal))
    }
}
