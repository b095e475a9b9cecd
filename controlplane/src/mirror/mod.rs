//! What is mirrored: the catalog, the state machine of a partition, and the decisions that lead from one to the next.

pub mod acl_rules;
pub mod acls;
pub mod authorizer;
pub mod catalog;
pub mod decide;
pub mod effect;
pub mod event;
pub mod group_offsets;
pub mod internal;
pub mod loops;
pub mod machine;
pub mod patterns;
pub mod placement;
pub mod quotas;
pub mod re2;
pub mod settings;
pub mod topic_configs;
