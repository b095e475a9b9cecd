//! pure: what Prometheus reads.
//!
//! By default the number of series depends on mirrors, cores and disks only. Series for each topic and for each partition are
//! there when the configuration asks for them.

mod cores;
mod mirrors;
mod node;
mod requests;
mod syncs;
pub mod tally;
mod text;
mod topics;

pub use requests::Outcome;

use crate::host::{Disk, Process};
use crate::mirror::catalog::Catalog;
use crate::overview::Overview;
use crate::plane::attachment::CoreNumbers;
use crate::plane::memory::MemoryFacts;
use crate::plane::view::View;
use crate::sync::status::Statuses;
use tally::Tally;
use text::Page;

/// Series that are there only when they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Detail {
    /// For each topic.
    pub topics: bool,
    /// For each partition.
    pub partitions: bool,
}

/// Everything that the pages are made of, besides catalog and view.
#[derive(Debug, Default)]
pub struct Facts {
    /// The attached data plane; `None` when there is none.
    pub data_plane: Option<Process>,
    /// This process.
    pub control_plane: Process,
    /// How many data planes were attached so far.
    pub attachments: u64,
    /// The memory that is shared with it.
    pub memory: MemoryFacts,
    /// Its cores' numbers.
    pub cores: Vec<CoreNumbers>,
    /// Cores that do not turn any more.
    pub silent_cores: Vec<u32>,
    /// Open client connections.
    pub connections: usize,
    /// Client connections that this side ended or turned away, by cause.
    pub ended: Vec<(&'static str, u64)>,
    /// The file systems of data and state directories.
    pub disks: Vec<Disk>,
    /// What is wrong, one line each.
    pub troubles: Vec<String>,
}

/// The text of `/metrics`.
#[must_use]
pub fn prometheus(
    (catalog, view): (&Catalog, &View<'_>),
    overviews: &[Overview],
    facts: &Facts,
    (tally, statuses): (&Tally, &Statuses),
    detail: Detail,
) -> String {
    let mut page = Page::default();
    node::write(&mut page, facts, tally);
    requests::write(&mut page, &tally.requests);
    mirrors::write(&mut page, overviews, tally);
    if detail.topics {
        topics::write_topics(&mut page, catalog, view);
    }
    if detail.partitions {
        topics::write_partitions(&mut page, catalog, view);
    }
    cores::write(&mut page, &facts.cores);
    syncs::write(&mut page, catalog, statuses);
    page.finish()
}
