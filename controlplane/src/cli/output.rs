//! What commands print: tables and lines for people, one JSON document for scripts. The only file of the command that prints.

use super::failure::Failure;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;
use std::io::{self, Write};

/// Prints a line on stdout.
///
/// # Errors
/// When stdout is gone.
pub(super) fn line(text: &str) -> Result<(), Failure> {
    write(format_args!("{text}\n"))
}

/// Prints one JSON document on stdout.
///
/// # Errors
/// When stdout is gone.
pub(super) fn json<T: Serialize>(document: &T) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document)
        .map_err(|cause| Failure::new("the answer cannot be printed as JSON", cause, "report this"))?;
    line(&text)
}

/// Prints `rows` under `heads` on stdout; columns whose head begins with `#` hold numbers and are set right.
///
/// # Errors
/// When stdout is gone.
pub(super) fn table(heads: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(heads.iter().map(|head| aligned(head, head.trim_start_matches('#'))));
    for row in rows {
        table.add_row(heads.iter().zip(row).map(|(head, text)| aligned(head, text)));
    }
    for text in table.lines() {
        line(text.trim_end())?;
    }
    Ok(())
}

fn aligned(head: &str, text: &str) -> Cell {
    let alignment = if head.starts_with('#') { CellAlignment::Right } else { CellAlignment::Left };
    Cell::new(text).set_alignment(alignment)
}

/// A number that may be unknown.
#[must_use]
pub(super) fn number(value: Option<i64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Prints why a command failed on stderr, in one line.
pub(super) fn failure(failure: &Failure) {
    // When stderr is gone too there is nobody left to tell; the exit code still says it.
    drop(writeln!(io::stderr(), "twinlog: {failure}"));
}

fn write(text: std::fmt::Arguments<'_>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_fmt(text)
        .and_then(|()| out.flush())
        .map_err(|cause| Failure::new("stdout cannot be written", cause, "give the command a stdout that stays open"))
}
