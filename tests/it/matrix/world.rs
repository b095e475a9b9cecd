//! One column: a source, a mirror of it, and the stock broker that takes it over. Rows are read in `rows.rs` and beside it; this file makes
//! what they look at, once for all of them.

use super::column::{Cell, Column, Row};
use super::source::{Before, LIMIT, Source, TIERED, names};
use super::taker::Taker;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Instant;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::Broker;
use twinlog_tests::oracle::Oracle;
use twinlog_tests::{librdkafka, place};

/// What librdkafka is asked by.
const SCRIPT: &str = "fidelity.py";

/// A column on its way.
pub(super) struct World {
    /// Which.
    pub(super) column: Column,
    /// The stock client.
    pub(super) oracle: Oracle,
    /// The other client's version, where it is installed.
    pub(super) librdkafka: Option<String>,
    /// The source, which still runs when the first rows are read.
    pub(super) source: Source,
    /// What its clients saw before.
    pub(super) before: Before,
    /// Why the topic in remote storage was refused at first.
    pub(super) tiered: Result<String, String>,
    /// What the hand-over warned of.
    pub(super) warnings: Vec<String>,
    /// The broker that took over.
    pub(super) node: Broker,
    /// Its address.
    pub(super) boot: String,
    /// What was found so far.
    pub(super) cells: BTreeMap<Row, Cell>,
    /// Its folder.
    pub(super) scratch: tempfile::TempDir,
}

impl World {
    /// Makes the source, mirrors it, and hands it over. The broker serves when this returns.
    pub(super) fn handed_over(column: Column) -> Self {
        let scratch = place::scratch("matrix");
        let version = || librdkafka::ask(SCRIPT, &["version", "{}"]).unwrap_or_else(|why| panic!("{why}"));
        let librdkafka = librdkafka::python().and_then(|_| version().as_str().map(str::to_owned));
        let mut oracle = Oracle::start();
        let mut taker = Taker::new(column, &scratch.path().join("node"), &mut oracle);
        let boot = taker.broker.address();
        let source = Source::new(column, &scratch.path().join("source"), &mut oracle);
        let before = source.look(&mut oracle);
        let site = Site::new(scratch.path().join("site"));
        let house = House::up(&site);
        let mirrored: Vec<&str> = names().into_iter().chain([TIERED]).collect();
        site.mirror_with("dr", &source.boot, &mirrored, &["mirror.internal.topics=standby"]);
        let mut ends: Vec<_> =
            before.extents.iter().map(|e| (e.topic.clone(), i64::from(e.partition), e.end)).collect();
        let tiered_end = before.tiered["end"].as_i64().expect("a log end");
        ends.push((TIERED.to_owned(), 0, tiered_end));
        site.caught_up("dr", &ends, LIMIT);
        site.cli(&["mirrors", "sync", "dr"]).done();
        let tiered = taker.tiered(&site, &mut oracle);
        let warnings = taker.takes_over(&site, &mut oracle);
        house.down();
        let (node, cells) = (taker.broker, BTreeMap::new());
        Self { column, oracle, librdkafka, source, before, tiered, warnings, node, boot, cells, scratch }
    }

    /// What librdkafka makes of the same; nothing where it is not installed.
    pub(super) fn also(&self, verb: &str, mut ask: Value) -> Result<Option<Value>, String> {
        ask["boot"] = self.boot.as_str().into();
        self.librdkafka.as_ref().map(|_| librdkafka::ask(SCRIPT, &[verb, &ask.to_string()])).transpose()
    }

    /// The clients that look.
    pub(super) fn clients(&self) -> String {
        let other = self.librdkafka.as_ref().map_or_else(String::new, |version| format!(", librdkafka {version}"));
        format!("Java {}{other}", place::KAFKA_VERSION)
    }

    /// The warning that holds these words.
    pub(super) fn warned(&self, words: &str) -> Result<String, String> {
        let found = self.warnings.iter().find(|warning| warning.contains(words));
        found.cloned().ok_or_else(|| format!("nothing was said of {words}: {:?}", self.warnings))
    }

    /// Notes what a row is; why it is not as it should be, when it is not.
    pub(super) fn found(&mut self, row: Row, read: impl FnOnce(&mut Self) -> Result<Cell, String>) {
        let begun = Instant::now();
        let cell = read(self).unwrap_or_else(Cell::Wrong);
        eprintln!("{}, {}: {cell} (after {} ms)", self.column.name(), row.name(), begun.elapsed().as_millis());
        self.cells.insert(row, cell);
    }
}
