//! The error matrix: every served request with each of its fields absent, wrong, unknown or twice, and what is answered. What
//! a pass proves: the codes are those of `golden/rpc_errors.txt`, whose diff is the review; one bad item of a batch refuses
//! itself alone; and `docs/protocol.md` names the keys, versions and codes that there are.

mod hand_over;
mod looks;
mod mirrors;
mod topics;

use super::golden;
use crate::mirror::catalog::Catalog;
use crate::plane::view::tests::Board;
use crate::rpc::tests::world;
use crate::server::dispatch;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use twinlog_proto::api;
use twinlog_proto::channel::progress::{PartitionProgress, SlotState, identity};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;

/// An item of a batch and its code.
type Item = (String, i16);

/// What was answered.
#[derive(Debug, Default)]
struct Answered {
    /// The code of the whole request, where the layout has one.
    whole: i16,
    items: Vec<Item>,
    /// Events that come of it.
    changes: usize,
}

impl Answered {
    fn whole(whole: i16, changes: usize) -> Self {
        Self { whole, items: Vec::new(), changes }
    }

    fn items<N: ToString>(whole: i16, items: impl IntoIterator<Item = (N, i16)>, changes: usize) -> Self {
        Self { whole, items: items.into_iter().map(|(name, code)| (name.to_string(), code)).collect(), changes }
    }
}

/// The printed matrix, and the codes by request kind.
#[derive(Debug, Default)]
struct Matrix {
    text: String,
    codes: BTreeMap<i16, BTreeSet<i16>>,
    key: i16,
}

impl Matrix {
    fn api(&mut self, key: i16) {
        self.key = key;
        self.codes.entry(key).or_default();
        self.text.push_str(&format!("\n{} ({key})\n", api::name(key)));
    }

    fn row(&mut self, case: &str, answered: Answered) {
        let codes = self.codes.entry(self.key).or_default();
        codes.insert(answered.whole);
        codes.extend(answered.items.iter().map(|(_, code)| *code));
        let mut told = Vec::new();
        if answered.whole != 0 || answered.items.is_empty() {
            told.push(said(answered.whole));
        }
        told.extend(answered.items.iter().map(|(name, code)| format!("{name} {}", said(*code))));
        match answered.changes {
            0 => {}
            changes => told.push(format!("{changes} to record")),
        }
        self.text.push_str(&format!("  {case:<54} {}\n", told.join(", ")));
    }
}

fn said(code: i16) -> String {
    if code == 0 { "ok".to_owned() } else { ErrorCode(code).to_string() }
}

/// A board that shows flows-0 at leader epoch 4.
fn board(catalog: &Catalog) -> Board {
    let slot = catalog.partition("m", "flows", 0).unwrap().placement.as_ref().unwrap().slot;
    let unknown = PartitionProgress::unknown(identity(Uuid([1; 16]), 0), SlotState::Mirroring);
    Board([(slot, PartitionProgress { leader_epoch: 4, leo: 90, log_start: 0, ..unknown })].into())
}

fn matrix() -> Matrix {
    let mut matrix = Matrix {
        text: "Requests on the world of rpc/tests.rs: mirror m has topics flows, paused, stopping, stopped (one partition each); \
               mirror other has topic theirs.\n"
            .to_owned(),
        ..Matrix::default()
    };
    let catalog = world();
    looks::stock(&mut matrix, &catalog);
    mirrors::all(&mut matrix, &catalog);
    topics::all(&mut matrix, &catalog);
    looks::mirrors(&mut matrix, &catalog);
    hand_over::all(&mut matrix, &catalog);
    matrix
}

/// Tested beside their handlers: the requests of ACLs, and the sync.
const ELSEWHERE: &[i16] = &[29, 30, 31, api::MIRROR_KEY_BASE + 112];

#[test]
fn every_field_absent_wrong_unknown_or_twice_has_the_code_of_the_golden_file() {
    let matrix = matrix();
    golden::assert("rpc_errors.txt", &matrix.text);
    for key in dispatch::served_keys().iter().filter(|key| !ELSEWHERE.contains(key)) {
        assert!(matrix.codes.contains_key(key), "{} has no rows in the matrix", api::name(*key));
    }
}

const TABLE_BEGINS: &str = "<!-- the table is printed by a test -->\n";
const TABLE_ENDS: &str = "<!-- end of the table -->\n";

#[test]
fn the_document_names_the_keys_versions_and_codes_that_there_are() {
    let codes = matrix().codes;
    let mut table = String::from("| request | key | versions | answers |\n|---|---|---|---|\n");
    for row in api::APIS.iter().filter(|row| dispatch::served_keys().contains(&row.key)) {
        let versions = row.served.clone().expect("what is served has versions");
        let versions = match (versions.start(), versions.end()) {
            (from, to) if from == to => format!("{from}"),
            (from, to) => format!("{from}-{to}"),
        };
        let answers = match codes.get(&row.key) {
            Some(codes) => {
                let told = codes.iter().filter(|code| **code != 0).map(|code| format!("{code}"));
                told.collect::<Vec<String>>().join(", ")
            }
            None => "see its own section".to_owned(),
        };
        table.push_str(&format!("| {} | {} | {versions} | {answers} |\n", row.name, row.key));
    }
    table.push_str("\n| code | name |\n|---|---|\n");
    let all: BTreeSet<i16> = codes.values().flatten().copied().filter(|code| *code != 0).collect();
    all.iter().for_each(|code| table.push_str(&format!("| {code} | {} |\n", ErrorCode(*code).name())));

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/protocol.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(TABLE_BEGINS).expect("the table's begin");
    let (_, after) = rest.split_once(TABLE_ENDS).expect("the table's end");
    golden::same(&path, &format!("{before}{TABLE_BEGINS}\n{table}\n{TABLE_ENDS}{after}"));
}
