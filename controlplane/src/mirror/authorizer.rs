//! pure: how callers are judged, as the configuration says and `rpc/authorize.rs` does it.

use std::collections::BTreeSet;

/// How callers are judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Authorizer {
    /// Everybody may do everything.
    #[default]
    None,
    /// By the access control entries that were made here.
    Acl {
        /// Who may do everything.
        super_users: BTreeSet<String>,
    },
}
