//! pure: more access control entries. Layout: `schemas/create_acls.json`.

include!(concat!(env!("OUT_DIR"), "/create_acls.rs"));

impl From<&crate::security::acl::AclBinding> for AclCreation {
    fn from(binding: &crate::security::acl::AclBinding) -> Self {
        let codes = binding.codes();
        Self {
            resource_type: codes.resource_type,
            resource_name: binding.resource_name.clone(),
            resource_pattern_type: codes.pattern_type,
            principal: binding.principal.clone(),
            host: binding.host.clone(),
            operation: codes.operation,
            permission_type: codes.permission,
        }
    }
}
