//! pure: who may do what: access control entries and the decision that follows from them.

pub mod acl;
pub mod authorizer;
pub mod codes;
pub mod filter;
