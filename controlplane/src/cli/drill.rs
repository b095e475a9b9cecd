//! `twinlog drill`: rehearses a hand-over while mirroring goes on, and says how long it took and what would have been lost.

use super::args::Drill;
use super::{check_command_config, output, promote};
use crate::failure::Failure;
use crate::handover::drill::report::Report;
use crate::handover::drill::{self, Asked, Outcome};
use std::process::ExitCode;
use std::time::Instant;

/// Runs it.
///
/// # Errors
/// When something blocks, a step fails, or the broker serves something else than was copied.
pub(super) fn run(args: &Drill) -> Result<ExitCode, Failure> {
    let begun = Instant::now();
    if let Some(file) = &args.ask.command_config {
        check_command_config(file)?;
    }
    let asked = Asked {
        mirror: args.mirror.clone(),
        topics: args.topic.clone(),
        state: args.state.clone(),
        control: args.ask.bootstrap_server.clone(),
        start_command: args.start_command.clone(),
        release: args.release.clone(),
        dir: args.dir.clone(),
        copy: args.copy,
        keep: args.keep,
        timeout: args.timeout,
    };
    // No hand-over of the mirror begins meanwhile, nor another drill.
    let _turn = promote::turn(&asked.state, &asked.mirror)?;
    let json = args.ask.json;
    if args.clean {
        return clean(&asked, json);
    }
    let mut said = Ok(());
    let mut say = |text: &str| {
        if !json && said.is_ok() {
            said = output::line(text);
        }
    };
    let outcome = drill::run(&asked, begun, &mut say)?;
    said?;
    match outcome {
        Outcome::Blocked(judged) => promote::blocked(&judged, json),
        Outcome::Done(report) => finish(&report, args),
    }
}

fn clean(asked: &Asked, json: bool) -> Result<ExitCode, Failure> {
    let cleaned = drill::clean_left(asked)?;
    if json {
        output::json(&cleaned)?;
    } else if cleaned.is_empty() {
        output::line("no earlier drill has left anything")?;
    } else {
        cleaned.iter().try_for_each(|each| output::line(&each.to_string()))?;
    }
    let all = cleaned.iter().all(|each| each.removed);
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn finish(report: &Report, args: &Drill) -> Result<ExitCode, Failure> {
    report.write(&args.state, args.report.as_deref())?;
    if args.ask.json {
        output::json(report)?;
    } else {
        report.text().lines().try_for_each(output::line)?;
    }
    if report.ok {
        return Ok(ExitCode::SUCCESS);
    }
    let failures = &report.checked.failures;
    Err(Failure::new(
        "the broker of the drill served something else than was copied",
        failures.first().map_or("", String::as_str),
        format_args!("all of it is in the report ({} findings); a hand-over would end the same", failures.len()),
    ))
}
