//! pure: fewer access control entries. Layout: `schemas/delete_acls.json`.

include!(concat!(env!("OUT_DIR"), "/delete_acls.rs"));

/// The filter that means this entry and no other.
impl From<&crate::security::acl::AclBinding> for DeleteAclsFilter {
    fn from(binding: &crate::security::acl::AclBinding) -> Self {
        let codes = binding.codes();
        Self {
            resource_type_filter: codes.resource_type,
            resource_name_filter: Some(binding.resource_name.clone()),
            pattern_type_filter: codes.pattern_type,
            principal_filter: Some(binding.principal.clone()),
            host_filter: Some(binding.host.clone()),
            operation: codes.operation,
            permission_type: codes.permission,
        }
    }
}
