//! What commands print: tables and lines for people, one JSON document for scripts. The only file of the command that prints.

use crate::failure::Failure;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

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
    table_lines(heads, rows).iter().try_for_each(|text| line(text))
}

/// The lines of such a table.
pub(super) fn table_lines(heads: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(heads.iter().map(|head| aligned(head, head.trim_start_matches('#'))));
    for row in rows {
        table.add_row(heads.iter().zip(row).map(|(head, text)| aligned(head, text)));
    }
    table.lines().map(|text| text.trim_end().to_owned()).collect()
}

/// Colours are for terminals, and for people who want them (no-color.org).
pub(super) fn has_colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn aligned(head: &str, text: &str) -> Cell {
    let alignment = if head.starts_with('#') { CellAlignment::Right } else { CellAlignment::Left };
    Cell::new(text).set_alignment(alignment)
}

/// What a line of `dump` says: names and values in their order, as `name: value` for people and as one JSON object for scripts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fields(pub(super) Vec<(&'static str, Value)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.0.iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            match value {
                Value::String(text) if !text.is_empty() && !text.contains([' ', '"', '\n']) => {
                    write!(f, "{gap}{name}: {text}")?;
                }
                value => write!(f, "{gap}{name}: {value}")?,
            }
        }
        Ok(())
    }
}

/// Many lines on stdout, written in large pieces.
#[derive(Debug)]
pub(super) struct Lines {
    out: BufWriter<Stdout>,
    json: bool,
}

impl Lines {
    /// Lines for people, or JSON objects.
    pub(super) fn new(json: bool) -> Self {
        Self { out: BufWriter::new(io::stdout()), json }
    }

    /// Prints a line.
    ///
    /// # Errors
    /// When stdout is gone.
    pub(super) fn print(&mut self, fields: &Fields) -> Result<(), Failure> {
        if !self.json {
            return writeln!(self.out, "{fields}").map_err(gone);
        }
        serde_json::to_writer(&mut self.out, fields).map_err(|cause| gone(cause.into()))?;
        self.out.write_all(b"\n").map_err(gone)
    }

    /// Hands everything over to stdout.
    ///
    /// # Errors
    /// When stdout is gone.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(gone)
    }
}

/// A number that may be unknown.
#[must_use]
pub(super) fn number(value: Option<i64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Prints what a person should know of a command that was done, on stderr.
pub(super) fn note(text: &str) {
    drop(writeln!(io::stderr(), "twinlog: note: {text}"));
}

/// Prints why a command failed on stderr, in one line.
pub(super) fn failure(failure: &Failure) {
    if !failure.has_words() {
        return;
    }
    // When stderr is gone too there is nobody left to tell; the exit code still says it.
    drop(writeln!(io::stderr(), "twinlog: {failure}"));
}

fn write(text: fmt::Arguments<'_>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_fmt(text).and_then(|()| out.flush()).map_err(gone)
}

/// Why nothing more can be printed.
pub(super) fn gone(cause: io::Error) -> Failure {
    if cause.kind() == io::ErrorKind::BrokenPipe {
        return Failure::unheard();
    }
    Failure::new("stdout cannot be written", cause, "give the command a stdout that stays open")
}
