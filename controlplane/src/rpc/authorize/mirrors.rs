//! pure: the requests about mirrors as such. Whoever may not describe one learns nothing of it, not even that it is there.

use super::{Access, Guard, whole};
use crate::mirror::catalog::Catalog;
use crate::mirror::re2::split;
use crate::mirror::settings::{EXCLUDE, INCLUDE};
use crate::rpc::Refusal;
use std::collections::BTreeMap;
use twinlog_proto::messages::Request;
use twinlog_proto::messages::create_mirror::CreateMirrorRequest;
use twinlog_proto::messages::delete_mirror::DeleteMirrorRequest;
use twinlog_proto::messages::describe_mirrors::{DescribeMirrorsRequest, DescribedMirror};
use twinlog_proto::messages::incremental_alter_configs::AlterableConfig;
use twinlog_proto::messages::last_mirrored_offsets::{LastMirroredOffsetsRequest, LastMirroredOffsetsResponse};
use twinlog_proto::messages::list_mirrors::ListMirrorsRequest;
use twinlog_proto::messages::sync_mirror::{SyncMirrorRequest, SyncMirrorResponse};
use twinlog_proto::security::codes::{Operation, ResourceType};

const MIRROR: ResourceType = ResourceType::ClusterMirror;

/// Operations on a setting that is a list; what is none of them sets it.
const DELETE: i8 = 1;
/// See [`DELETE`].
const APPEND: i8 = 2;
/// See [`DELETE`].
const SUBTRACT: i8 = 3;

/// Whether a list gets shorter.
pub(super) fn takes_away(change: &AlterableConfig) -> bool {
    matches!(change.config_operation, DELETE | SUBTRACT)
}

impl Access<'_> {
    /// The rights to give a mirror these settings: patterns need what a start by pattern needs.
    pub(super) fn need_settings<'s>(
        &self,
        settings: impl Iterator<Item = (&'s str, Option<&'s str>)>,
    ) -> Result<(), Refusal> {
        let mut lists = settings.filter(|(name, _)| *name == INCLUDE).filter_map(|(_, value)| value);
        lists.try_for_each(|list| split(list).iter().try_for_each(|pattern| self.need_topics_matching(pattern)))
    }

    /// The rights to change what a mirror leaves out: a pattern that comes stops topics, one that goes lets them start.
    pub(super) fn need_exclusion(&self, mirror: &str, change: &AlterableConfig) -> Result<(), Refusal> {
        let old = self.catalog.mirror(mirror).map_or(&[][..], |mirror| &mirror.facts.exclude[..]);
        if change.name != EXCLUDE {
            return Ok(());
        }
        let given = split(change.value.as_deref().unwrap_or_default());
        let come = given.iter().filter(|pattern| !old.contains(pattern));
        let go = old.iter().filter(|pattern| given.contains(pattern));
        let stay_not = old.iter().filter(|pattern| !given.contains(pattern));
        let changed: Vec<&String> = match change.config_operation {
            DELETE => old.iter().collect(),
            SUBTRACT => go.collect(),
            APPEND => come.collect(),
            _ => come.chain(stay_not).collect(),
        };
        changed.into_iter().try_for_each(|pattern| self.need_topics_matching(pattern))
    }
}

impl Guard for CreateMirrorRequest {
    fn refuse(&self, _version: i16, access: &Access<'_>, _catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let settings = self.config.iter().map(|config| (config.name.as_str(), config.value.as_deref()));
        let created = access.need(Operation::Create, MIRROR, &self.mirror_name);
        whole(created.and_then(|()| access.need_settings(settings)))
    }
}

impl Guard for DeleteMirrorRequest {
    fn refuse(&self, _version: i16, access: &Access<'_>, _catalog: &Catalog) -> Option<<Self as Request>::Response> {
        whole(access.need(Operation::Delete, MIRROR, &self.mirror_name))
    }
}

impl Guard for ListMirrorsRequest {
    fn finish(&self, _version: i16, access: &Access<'_>, response: &mut Self::Response) {
        response.mirrors.retain(|mirror| access.may(Operation::Describe, MIRROR, &mirror.mirror_name));
    }
}

impl Guard for DescribeMirrorsRequest {
    fn finish(&self, _version: i16, access: &Access<'_>, response: &mut Self::Response) {
        let named = self.mirror_names.as_ref().is_some_and(|names| !names.is_empty());
        let mut denied = BTreeMap::new();
        response.mirrors.retain_mut(|mirror| {
            let name = mirror.mirror_name.clone();
            let Err(refusal) = access.need(Operation::Describe, MIRROR, &name) else {
                if self.include_authorized_operations {
                    mirror.authorized_operations = access.operations(MIRROR, &name);
                }
                return true;
            };
            let (error_code, mirror_name) = (refusal.code.0, name.clone());
            *mirror = DescribedMirror { error_code, mirror_name, ..DescribedMirror::default() };
            denied.insert(name, refusal.message);
            named
        });
        // A mirror has no place for words of its own.
        if let Some((_, words)) = denied.pop_first().filter(|_| named) {
            response.error_message.get_or_insert(words);
        }
    }
}

impl Guard for LastMirroredOffsetsRequest {
    fn refuse(&self, _version: i16, access: &Access<'_>, _catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let refusal = access.need(Operation::Describe, MIRROR, &self.mirror_name).err()?;
        let (error_code, error_message) = (refusal.code.0, Some(refusal.message));
        Some(LastMirroredOffsetsResponse { error_code, error_message, ..LastMirroredOffsetsResponse::default() })
    }
}

impl Guard for SyncMirrorRequest {
    fn refuse(&self, _version: i16, access: &Access<'_>, _catalog: &Catalog) -> Option<<Self as Request>::Response> {
        let refusal = access.need(Operation::Alter, MIRROR, &self.mirror_name).err()?;
        let (error_code, error_message) = (refusal.code.0, Some(refusal.message));
        Some(SyncMirrorResponse { error_code, error_message, ..SyncMirrorResponse::default() })
    }
}
