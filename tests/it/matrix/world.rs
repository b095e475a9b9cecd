//! One column: a source, a mirror of it, and the stock broker that takes it over. Rows are read in `rows.rs` and beside it; this file makes
//! what they look at, once for all of them.

use super::column::{Cell, Column, Mode, Row};
use super::source::{Before, LIMIT, Source, names};
use std::collections::BTreeMap;
use std::path::Path;
use twinlog_tests::command::twinlog;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;

/// A column on its way.
pub(super) struct World {
    /// The stock client.
    pub(super) oracle: Oracle,
    /// The source, which still runs when the first rows are read.
    pub(super) source: Source,
    /// What its clients saw before.
    pub(super) before: Before,
    /// The broker that took over.
    pub(super) node: Broker,
    /// Its address.
    pub(super) boot: String,
    /// What was found so far.
    pub(super) cells: BTreeMap<Row, Cell>,
    _scratch: tempfile::TempDir,
}

impl World {
    /// Makes the source, mirrors it, and hands it over. The broker serves when this returns.
    pub(super) fn handed_over(column: Column) -> Self {
        let scratch = place::scratch("matrix");
        let mut oracle = Oracle::start();
        let source = Source::new(column, &scratch.path().join("source"), &mut oracle);
        let before = source.look(&mut oracle);
        let site = Site::new(scratch.path().join("site"));
        let house = House::up(&site);
        site.mirror_with("dr", &source.boot, &names(), &["mirror.internal.topics=standby"]);
        let ends: Vec<_> = before.extents.iter().map(|e| (e.topic.clone(), i64::from(e.partition), e.end)).collect();
        site.caught_up("dr", &ends, LIMIT);
        site.cli(&["mirrors", "sync", "dr"]).done();
        let spec = Spec::new(scratch.path().join("node")).version(column.release);
        let node = match column.mode {
            Mode::Standby => promoted(&site, spec),
        };
        house.down();
        let boot = node.address();
        Self { oracle, source, before, node, boot, cells: BTreeMap::new(), _scratch: scratch }
    }

    /// Notes what a row is; why it is not as it should be, when it is not.
    pub(super) fn found(&mut self, row: Row, read: impl FnOnce(&mut Self) -> Result<Cell, String>) {
        let cell = read(self).unwrap_or_else(Cell::Wrong);
        self.cells.insert(row, cell);
    }
}

/// `twinlog promote --to` into a node that nobody formatted, which is started then.
fn promoted(site: &Site, spec: Spec) -> Broker {
    let mut node = Broker::prepare(spec.unformatted());
    let (properties, state) = (text(&node.dir().join("server.properties")), text(&site.state()));
    let words = ["promote", "dr", "--to", &properties, "--state", &state, "--bootstrap-server", &site.listen];
    twinlog(&words).done();
    node.resume();
    node
}

/// A path for a command line.
fn text(path: &Path) -> String {
    path.to_str().expect("paths of tests are UTF-8").to_owned()
}
