//! pure: the requests that nodes send each other: CLUSTER_ACTION on the cluster.

use super::{Access, Guard};
use crate::mirror::catalog::Catalog;
use twinlog_proto::messages::Request;
use twinlog_proto::messages::read_mirror_states::{ReadMirrorStatesRequest, ReadMirrorStatesResponse};
use twinlog_proto::messages::write_mirror_states::{WriteMirrorStatesRequest, WriteMirrorStatesResponse};
use twinlog_proto::security::codes::Operation;

impl Guard for ReadMirrorStatesRequest {
    fn refuse(&self, _version: i16, access: &Access<'_>, _catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let refusal = access.need_cluster(Operation::ClusterAction).err()?;
        let (error_code, error_message) = (refusal.code.0, Some(refusal.message));
        Some(ReadMirrorStatesResponse { error_code, error_message, ..ReadMirrorStatesResponse::default() })
    }
}

impl Guard for WriteMirrorStatesRequest {
    fn refuse(&self, _version: i16, access: &Access<'_>, _catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let refusal = access.need_cluster(Operation::ClusterAction).err()?;
        let (error_code, error_message) = (refusal.code.0, Some(refusal.message));
        Some(WriteMirrorStatesResponse { error_code, error_message, ..WriteMirrorStatesResponse::default() })
    }
}
