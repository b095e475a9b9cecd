//! `twinlog status --watch`: the same again and again, as a live view on a terminal and as plain lines elsewhere.

use super::screen::Screen;
use super::{Snapshot, now_ms, render, take};
use crate::cli::args::Status;
use crate::cli::{connect, output};
use crate::client::Client;
use crate::failure::Failure;
use std::io;
use std::time::{Duration, Instant};

/// The shortest time between two looks.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// How soon a key, a signal or a new size is noticed.
const NOTICE: Duration = Duration::from_millis(100);

/// Shows it until somebody ends it.
///
/// # Errors
/// When nothing can be shown, or the control plane does not answer the first question.
pub(super) fn run(args: &Status) -> Result<(), Failure> {
    let interval = args.interval.max(INTERVAL_MIN);
    let mut asker = Asker { args, client: Some(connect(&args.ask)?) };
    if args.ask.json || !Screen::is_there() {
        return lines(&mut asker, interval);
    }
    let gone = |cause: io::Error| Failure::new("the terminal cannot be used", cause, "leave --watch out");
    let screen = Screen::take().map_err(gone)?;
    let colours = output::has_colours();
    loop {
        let (next, snapshot) = (Instant::now() + interval, asker.ask());
        let mut shown = None;
        loop {
            let size = Screen::size();
            if shown.replace(size) != Some(size) {
                screen.show(&page(&snapshot, size, interval, colours)).map_err(gone)?;
            }
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if screen.wait(left.min(NOTICE)) {
                return Ok(());
            }
        }
    }
}

/// One snapshot after the other, for files, pipes and scripts.
fn lines(asker: &mut Asker<'_>, interval: Duration) -> Result<(), Failure> {
    loop {
        match asker.ask() {
            Ok(snapshot) if asker.args.ask.json => output::json(&snapshot)?,
            Ok(snapshot) => {
                for line in render::lines(&snapshot, now_ms()) {
                    output::line(&line.text(false))?;
                }
                output::line("--")?;
            }
            Err(failure) => output::failure(&failure),
        }
        std::thread::sleep(interval);
    }
}

/// As many rows as have room; the last one says what can be done here.
fn page(snapshot: &Result<Snapshot, Failure>, size: (usize, usize), interval: Duration, colours: bool) -> Vec<String> {
    let (rows, columns) = size;
    let mut lines = match snapshot {
        Ok(snapshot) => render::lines(snapshot, now_ms()),
        Err(failure) => vec![render::wrong(&failure.to_string()), render::plain("trying again")],
    };
    let room = rows.saturating_sub(2).max(1);
    if lines.len() > room {
        let more = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(render::plain(format!("... {more} more lines")));
    }
    lines.resize(room, render::plain(""));
    lines.push(render::plain(format!("every {} ms; q ends", interval.as_millis())));
    lines.iter().map(|line| line.cut(columns, colours)).collect()
}

/// Keeps a connection as long as it works.
struct Asker<'a> {
    args: &'a Status,
    client: Option<Client>,
}

impl Asker<'_> {
    fn ask(&mut self) -> Result<Snapshot, Failure> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => connect(&self.args.ask)?,
        };
        let snapshot = take(&mut client)?;
        self.client = Some(client);
        Ok(snapshot)
    }
}
