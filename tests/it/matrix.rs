//! The fidelity matrix: what of a source is still there, and how, at the stock broker that took its mirror over; a row for each thing that
//! may get lost, a column for each release and way to hand over. A pass proves: every cell is as expected, and as docs/fidelity.md says.
//! `make test` runs four columns, `make matrix` all, and writes the document.

mod afterwards;
mod clients;
mod column;
mod expected;
mod goes_on;
mod rows;
mod source;
mod table;
mod taker;
mod world;

use column::{COLUMNS, Cell, Column, ROWS, Row};
use expected::expected;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;
use table::Run;
use twinlog_tests::place;
use world::World;

fn document() -> PathBuf {
    place::repository().join("docs/fidelity.md")
}

/// Reads all rows of a column.
fn run(column: Column, command: &str) -> Run {
    let begun = Instant::now();
    let mut world = World::handed_over(column);
    rows::read(&mut world);
    let (boot, source) = (world.source.boot.clone(), &mut world.source.broker);
    let retained = afterwards::retained(&mut world.oracle, &boot);
    source.stop();
    world.source.name.moves_to(&world.boot);
    goes_on::read(&mut world);
    afterwards::read(&mut world, retained);
    let (cells, clients) = (std::mem::take(&mut world.cells), world.clients());
    drop(world);
    let seconds = begun.elapsed().as_secs();
    eprintln!("{} took {seconds} s", column.name());
    Run { column, when: now(), seconds, command: command.to_owned(), clients, cells }
}

/// The cells that are not as expected.
fn unexpected(column: Column, cells: &BTreeMap<Row, Cell>) -> Vec<String> {
    let is = |row: &Row| cells.get(row).map_or_else(|| "not read".to_owned(), ToString::to_string);
    let off = ROWS.iter().filter(|row| cells.get(row) != Some(&expected(**row, column)));
    off.map(|row| format!("{}, {}: {} (expected: {})", column.name(), row.name(), is(row), expected(*row, column)))
        .collect()
}

fn documented() -> Vec<Run> {
    let text = std::fs::read_to_string(document()).unwrap_or_default();
    table::parse(&text).unwrap_or_else(|why| panic!("{}: {why}", document().display()))
}

/// Runs a column; it is as expected, and so is the document.
fn holds(name: &str) {
    let _turn = place::turn();
    let column = Column::named(name).expect("a column");
    let run = run(column, "make test");
    let off = unexpected(column, &run.cells);
    assert!(off.is_empty(), "{}", off.join("\n"));
    assert!(documented().iter().any(|run| run.column == column), "{name} is not in {}", document().display());
}

#[test]
fn a_standby_of_the_newest_release_keeps_what_the_table_says() {
    holds("4.4.0 standby");
}

#[test]
fn a_standby_of_the_oldest_release_keeps_what_the_table_says() {
    holds("4.0.2 standby");
}

#[test]
fn a_running_broker_of_the_newest_release_keeps_what_the_table_says() {
    holds("4.4.0 adopt");
}

#[test]
fn a_running_broker_of_the_oldest_release_keeps_what_the_table_says() {
    holds("4.0.2 adopt");
}

#[test]
fn the_document_says_what_is_expected() {
    let off: Vec<String> = documented().iter().flat_map(|run| unexpected(run.column, &run.cells)).collect();
    assert!(off.is_empty(), "run `make matrix`:\n{}", off.join("\n"));
}

#[test]
#[ignore = "runs every column and writes docs/fidelity.md; run it by `make matrix`"]
fn every_column_is_as_expected_and_written_down() {
    let _turn = place::turn();
    let only = std::env::var("TWINLOG_MATRIX").unwrap_or_default();
    let chosen: Vec<Column> = COLUMNS.into_iter().filter(|column| column.name().contains(&only)).collect();
    assert!(!chosen.is_empty(), "no column is called {only:?}");
    let command = if only.is_empty() { "make matrix".to_owned() } else { format!("make matrix ONLY=\"{only}\"") };
    let runs: Vec<Run> = chosen.iter().map(|column| run(*column, &command)).collect();
    let off: Vec<String> = runs.iter().flat_map(|run| unexpected(run.column, &run.cells)).collect();
    assert!(off.is_empty(), "nothing is written:\n{}", off.join("\n"));
    let text = std::fs::read_to_string(document()).unwrap_or_default();
    // What was run by an older suite, with other rows, is not worth keeping.
    let mut all = table::parse(&text).unwrap_or_default();
    all.retain(|run| !chosen.contains(&run.column) && unexpected(run.column, &run.cells).is_empty());
    all.extend(runs);
    std::fs::write(document(), table::render(&all)).expect("the document written");
}

fn now() -> String {
    let out = Command::new("date").args(["-u", "+%Y-%m-%d %H:%M"]).output().expect("date starts");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}
