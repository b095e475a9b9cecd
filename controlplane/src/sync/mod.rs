//! What is mirrored besides records: topic settings, offsets of groups, access rules, quotas of clients.
//!
//! Each kind has a pure `plan` (what the source has, what is here, which rules hold: a list of changes) and a thin `apply` that asks
//! and tells. `run` does it when its time has come or a person asks, one run of a mirror at a time. Nothing here touches records.

pub mod acls;
pub mod book;
pub mod cluster;
pub mod configs;
pub mod describe;
pub mod destination;
pub mod filters;
pub mod groups;
pub mod quotas;
pub mod run;
pub mod status;
