//! `twinlog promote --adopt`: hands topics over to a broker that runs and goes on running.

use super::args::Promote;
use super::output;
use super::promote::{show, turn};
use crate::clock::now_ms;
use crate::failure::Failure;
use crate::handover::adopt::progress::{Step, TOPIC_POINTS};
use crate::handover::adopt::report::{self, Report};
use crate::handover::adopt::{self, Adopting, Begun, Order};
use crate::handover::journal::{self, Journal};
use crate::handover::preflight::Preflight;
use crate::handover::promote::{self, absolute};
use crate::steps;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Runs it.
///
/// # Errors
/// When something blocks, a step fails, or the broker serves something else.
pub(super) fn run(args: &Promote, promote: promote::Order) -> Result<ExitCode, Failure> {
    let points = [journal::Step::KILL_POINTS, Step::KILL_POINTS, &TOPIC_POINTS].concat();
    // What is no step here is one of the data plane's program, which refuses what is none of its own.
    steps::arm_among(&points).ok();
    let order = Order {
        promote,
        address: args.adopt.clone().unwrap_or_default(),
        log_dir: absolute(&args.log_dir.clone().unwrap_or_default())?,
        stage: args.stage.clone(),
    };
    let json = args.ask.json;
    let _turn = if args.dry_run { None } else { Some(turn(&args.state, &args.mirror)?) };
    let journal = Journal::load(&args.state, &args.mirror)?;
    if args.dry_run {
        return dry_run(&order, journal.as_ref(), json);
    }
    let mut said = Ok(());
    let mut say = |text: &str| {
        if !json && said.is_ok() {
            said = output::line(text);
        }
    };
    let mut adopting = match journal {
        Some(journal) if args.undo || journal.undoing => {
            if !args.undo {
                return Err(half_undone(&journal));
            }
            Adopting::resume(order, journal)?.undo(&mut say)?;
            said?;
            return undone(&args.mirror, json);
        }
        None if args.undo => {
            adopt::take_back(&order, &mut say)?;
            said?;
            return undone(&args.mirror, json);
        }
        Some(journal) => Adopting::resume(order, journal)?,
        None => match begin_or_done(order, &mut say)? {
            Ok(adopting) => *adopting,
            Err(judged) => return blocked(&judged, json),
        },
    };
    adopting.advance(&mut say)?;
    let checked = adopting.check()?;
    if checked.ok && adopting.adoption.step < Step::Checked {
        adopting.reach(Step::Checked)?;
        adopting.advance(&mut say)?;
    }
    said?;
    finish(args, &adopting, Report::new(&adopting, checked))
}

type Started = Result<Box<Adopting>, Box<Preflight>>;

fn begin_or_done(order: Order, say: promote::Say<'_>) -> Result<Started, Failure> {
    Ok(match Adopting::begin(order, say)? {
        Begun::Under(adopting) => Ok(adopting),
        Begun::Blocked(judged) => Err(judged),
    })
}

fn half_undone(journal: &Journal) -> Failure {
    Failure::new(
        format_args!("mirror {} is not handed over", journal.mirror),
        "its last hand-over is being taken back",
        "end that first: run `twinlog promote` with --undo again",
    )
}

fn undone(mirror: &str, json: bool) -> Result<ExitCode, Failure> {
    if json {
        output::json(&json!({ "mirror": mirror, "undone": true }))?;
    } else {
        output::line(&format!("mirror {mirror} is taken back, and its topics are started again"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The report is written before the journal goes: whoever is killed in between finds it under way and reports again.
fn finish(args: &Promote, adopting: &Adopting, report: Report) -> Result<ExitCode, Failure> {
    report.write(&args.state, args.report.as_deref())?;
    if args.ask.json {
        output::json(&report)?;
    } else {
        report.text().lines().try_for_each(output::line)?;
    }
    if let Some(first) = report.checked.failures.first() {
        return Err(Failure::new(
            "the broker serves something else than was handed over",
            first,
            format_args!(
                "all of it is in the report ({} findings); the mirror's own files are whole",
                report.checked.failures.len()
            ),
        ));
    }
    report::remember(&args.state, &report, now_ms())?;
    adopting.end()?;
    Ok(ExitCode::SUCCESS)
}

fn dry_run(order: &Order, journal: Option<&Journal>, json: bool) -> Result<ExitCode, Failure> {
    if let Some(journal) = journal {
        return Err(Failure::new(
            format_args!("mirror {} is not looked at", journal.mirror),
            format_args!("its hand-over to {} has begun", journal.handed_over_to),
            "run `twinlog promote` without --dry-run to go on, or with --undo to take it back",
        ));
    }
    let judged = adopt::preflight(order)?;
    if json {
        output::json(&as_adopt(&judged)?)?
    } else {
        show(&judged)?
    }
    Ok(if judged.blockers.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn blocked(judged: &Preflight, json: bool) -> Result<ExitCode, Failure> {
    if json {
        output::json(&as_adopt(judged)?)?
    } else {
        show(judged)?
    }
    Err(super::promote::first_blocker(judged))
}

/// The judgement with `mode` adopt; whether the source answers is `sourceMode`.
fn as_adopt(judged: &Preflight) -> Result<Value, Failure> {
    let failed = |cause| Failure::new("the judgement", cause, "run the command without --json");
    let mut value = serde_json::to_value(judged).map_err(failed)?;
    if let Some(fields) = value.as_object_mut() {
        let source = fields.insert("mode".to_owned(), json!("adopt"));
        fields.insert("sourceMode".to_owned(), source.unwrap_or_default());
        // A broker that runs has its own; how far they are raised is decided by what the copies hold.
        fields.remove("nextProducerId");
    }
    Ok(value)
}
