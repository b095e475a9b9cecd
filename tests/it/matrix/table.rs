//! pure: docs/fidelity.md, written and read. Whoever reads it gets back exactly what was written; nobody edits it by hand.

use super::column::{COLUMNS, Cell, Column, ROWS, Row};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A run of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// Which.
    pub(super) column: Column,
    /// When it ended, to the minute.
    pub(super) when: String,
    /// How long it took, seconds.
    pub(super) seconds: u64,
    /// The command.
    pub(super) command: String,
    /// The clients that looked.
    pub(super) clients: String,
    /// What was found.
    pub(super) cells: BTreeMap<Row, Cell>,
}

const HEAD: &str = "\
# What a stock broker serves after a hand-over

`make matrix` writes this file; do not edit it. Each cell was found in a run with stock brokers: one source of the release, one mirror, one hand-over to a
broker of the same release. A run that finds anything else than the suite expects (`tests/it/matrix/expected.rs`) fails and writes nothing; `make test`
runs the columns 4.0.2 and 4.4.0 and fails when this file says something else than it expects.

*standby*: into a node that is not running yet (`twinlog promote --to`). *adopt*: to a broker that runs and has a topic of its own (`twinlog promote --adopt`).

*kept*: as at the source. *changed*: not so, and how. *refused*: not taken along, and why. *none*: the release has no such thing.
";
const NOTES: &str = "## Notes";
const RUNS: &str = "## Runs";
const ABOUT: &str = "## How each row is read";

/// Writes the document. Columns without a run are left out.
pub(super) fn render(runs: &[Run]) -> String {
    let mut runs: Vec<&Run> = runs.iter().collect();
    runs.sort_by_key(|run| run.column);
    let mut notes: Vec<String> = Vec::new();
    let mut out = format!("{HEAD}\n");
    let names: Vec<String> = runs.iter().map(|run| run.column.name()).collect();
    line(&mut out, "", &names);
    line(&mut out, "---", &vec!["---".to_owned(); runs.len()]);
    for row in ROWS {
        let cells: Vec<String> = runs.iter().map(|run| short(run.cells.get(row), &mut notes)).collect();
        line(&mut out, row.name(), &cells);
    }
    let _infallible = writeln!(out, "\n{NOTES}\n");
    for (at, note) in notes.iter().enumerate() {
        let _infallible = writeln!(out, "{}. {note}", at + 1);
    }
    let _infallible = writeln!(out, "\n{RUNS}\n");
    let heads = ["ended (UTC)", "took", "command", "clients"].map(str::to_owned);
    line(&mut out, "column", &heads);
    line(&mut out, "---", &["---", "---", "---", "---"].map(str::to_owned));
    for run in runs {
        let took = format!("{} s", run.seconds);
        let cells = [run.when.clone(), took, format!("`{}`", run.command), run.clients.clone()];
        line(&mut out, &run.column.name(), &cells);
    }
    let _infallible = writeln!(out, "\n{ABOUT}\n");
    line(&mut out, "row", &["read from".to_owned()]);
    line(&mut out, "---", &["---".to_owned()]);
    ROWS.iter().for_each(|row| line(&mut out, row.name(), &[row.about().to_owned()]));
    out
}

fn line(out: &mut String, first: &str, cells: &[String]) {
    let _infallible = writeln!(out, "| {first} | {} |", cells.join(" | "));
}

/// A word, with the number of the note that has the rest.
fn short(cell: Option<&Cell>, notes: &mut Vec<String>) -> String {
    let Some(cell) = cell else { return "-".to_owned() };
    let text = cell.to_string();
    let Some((word, _)) = text.split_once(": ") else { return text };
    let word = word.to_owned();
    let at = notes.iter().position(|note| *note == text).unwrap_or_else(|| {
        notes.push(text);
        notes.len() - 1
    });
    format!("{word} ({})", at + 1)
}

/// Reads a document that [`render`] wrote.
///
/// # Errors
/// What is not as it would have been written.
pub(super) fn parse(text: &str) -> Result<Vec<Run>, String> {
    let after = |mark: &str| text.split_once(mark).map(|(_, rest)| rest).ok_or_else(|| format!("no line {mark:?}"));
    let (table, notes, list) = (after(HEAD)?, after(NOTES)?, after(RUNS)?);
    let notes: Vec<&str> = notes.lines().skip(2).map_while(|l| Some(l.split_once(". ")?.1)).collect();
    let mut runs: Vec<Run> = rows_of(list).skip(2).map(|cells| run(&cells)).collect::<Result<_, _>>()?;
    let mut rows = rows_of(table);
    let heads = rows.next().unwrap_or_default();
    let names: Vec<String> = runs.iter().map(|run| run.column.name()).collect();
    if heads.get(1..) != Some(&names[..]) {
        return Err(format!("the table has the columns {heads:?}, but {names:?} were run"));
    }
    for (row, cells) in ROWS.iter().zip(rows.skip(1)) {
        for (run, cell) in runs.iter_mut().zip(&cells[1..]) {
            let whole = whole(cell, &notes).ok_or_else(|| format!("{}: cell {cell:?}", row.name()))?;
            run.cells.extend(whole.map(|cell| (*row, cell)));
        }
    }
    match render(&runs) == text {
        true => Ok(runs),
        false => {
            Err("the document is not as it would be written: do not edit it by hand, run `make matrix`".to_owned())
        }
    }
}

/// The rows of the first table in `text`.
fn rows_of(text: &str) -> impl Iterator<Item = Vec<String>> {
    let lines = text.lines().skip_while(|l| !l.starts_with('|')).take_while(|l| l.starts_with('|'));
    lines.map(|l| l.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
}

fn run(cells: &[String]) -> Result<Run, String> {
    let wrong = || format!("run {cells:?}");
    let [name, when, took, command, clients] = cells else { return Err(wrong()) };
    Ok(Run {
        column: Column::named(name).ok_or_else(wrong)?,
        when: when.clone(),
        seconds: took.strip_suffix(" s").and_then(|s| s.parse().ok()).ok_or_else(wrong)?,
        command: command.trim_matches('`').to_owned(),
        clients: clients.clone(),
        cells: BTreeMap::new(),
    })
}

/// The cell behind a word; no cell for "-".
fn whole(cell: &str, notes: &[&str]) -> Option<Option<Cell>> {
    if cell == "-" {
        return Some(None);
    }
    let Some((_, number)) = cell.split_once(" (") else { return Some(Some(Cell::parse(cell)?)) };
    let number: usize = number.strip_suffix(')')?.parse().ok()?;
    Some(Some(Cell::parse(notes.get(number.checked_sub(1)?)?)?))
}

#[test]
fn what_is_written_is_read_back_and_an_edit_by_hand_is_noticed() {
    let mut cells: BTreeMap<Row, Cell> = ROWS.iter().map(|row| (*row, Cell::Kept)).collect();
    cells.insert(Row::TopicIds, Cell::Changed("new ones".to_owned()));
    let run = |column, cells: &BTreeMap<Row, Cell>| Run {
        column,
        when: "2026-01-02 03:04".to_owned(),
        seconds: 75,
        command: "make matrix".to_owned(),
        clients: "Java 4.4.0".to_owned(),
        cells: cells.clone(),
    };
    let runs = vec![run(COLUMNS[0], &cells), run(COLUMNS[4], &cells)];
    let text = render(&runs);
    assert_eq!(parse(&text), Ok(runs), "{text}");
    assert!(parse(&text.replace("changed (1)", "kept")).is_err_and(|why| why.contains("by hand")));
    assert!(parse(&text.replace("kept", "great")).is_err());
}
