//! `twinlog promote`: hands a mirror over to a stock broker, or says what that would do.

use super::args::Promote;
use super::{adopt, check_command_config, output, units};
use crate::clock::now_ms;
use crate::failure::Failure;
use crate::handover::check::{self, Checked};
use crate::handover::journal::{self, Journal, Server, Step};
use crate::handover::preflight::{Preflight, topics::in_words};
use crate::handover::promote::{self, Begun, HandOver, Order};
use crate::handover::report::Report;
use crate::handover::{layout, start};
use crate::steps;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

/// Runs it.
///
/// # Errors
/// When something blocks, a step fails, or the started broker serves something else.
pub(super) fn run(args: &Promote) -> Result<ExitCode, Failure> {
    // What is no step here is one of the data plane's program, which refuses what is none of its own.
    if let Some(file) = &args.ask.command_config {
        check_command_config(file)?;
    }
    let order = order(args);
    if args.adopt.is_some() {
        return adopt::run(args, order);
    }
    let to = order.to.clone();
    steps::arm_among(&[Step::KILL_POINTS, &[start::SPAWNED]].concat()).ok();
    if args.dry_run {
        return dry_run(&order, args.ask.json);
    }
    let _turn = turn(&order.state, &order.mirror)?;
    let journal = Journal::load(&order.state, &order.mirror)?;
    if args.undo {
        return undo(order, journal, args.ask.json);
    }
    if args.start {
        // What cannot be started is refused before anything is changed.
        start::command_line(args.start_command.as_deref(), &to)?;
        reachable(&to)?;
    }
    let json = args.ask.json;
    let mut said = Ok(());
    let mut say = |text: &str| {
        if !json && said.is_ok() {
            said = output::line(text);
        }
    };
    let mut hand_over = match journal {
        Some(journal) if journal.undoing => return Err(half_undone(&journal)),
        Some(journal) => HandOver::resume(order, journal)?,
        None => match HandOver::begin(order, &mut say)? {
            Begun::Under(hand_over) => *hand_over,
            Begun::Blocked(judged) => return blocked(&judged, json),
        },
    };
    if !args.start && hand_over.journal.step >= Step::Promoted {
        say("it was handed over before; what follows is the report of then (--start looks at the broker again)");
    }
    hand_over.advance(Step::Promoted, &mut say)?;
    let checked = if args.start { Some(serve(&mut hand_over, args, &mut say)?) } else { None };
    said?;
    finish(&hand_over, args, checked)
}

/// What was asked for.
fn order(args: &Promote) -> Order {
    Order {
        mirror: args.mirror.clone(),
        to: args.to.clone().unwrap_or_default(),
        state: args.state.clone(),
        control: args.ask.bootstrap_server.clone(),
        topics: args.topic.clone(),
        timeout: args.timeout,
        wait: args.wait,
        no_forced: args.no_forced,
        release: args.release.clone(),
        cluster_id: args.cluster_id.clone(),
        rehearsal: None,
    }
}

/// Only one promote or reclaim of a mirror at a time.
pub(super) fn turn(state: &Path, mirror: &str) -> Result<File, Failure> {
    let path = journal::make_folder(state)?.join(format!("{mirror}.lock"));
    let failed = |cause: &dyn std::fmt::Display| {
        Failure::new(
            format_args!("{} cannot be locked", path.display()),
            cause,
            "wait for the other `twinlog promote` or `twinlog reclaim` to end",
        )
    };
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(|cause| failed(&cause))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|cause| failed(&cause))?;
    Ok(file)
}

fn half_undone(journal: &Journal) -> Failure {
    Failure::new(
        format_args!("mirror {} is not handed over", journal.mirror),
        "its last hand-over is being taken back",
        "end that first: run `twinlog promote` with --undo again",
    )
}

fn undo(order: Order, journal: Option<Journal>, json: bool) -> Result<ExitCode, Failure> {
    let mirror = order.mirror.clone();
    let Some(journal) = journal else {
        return Err(Failure::new(
            format_args!("mirror {mirror} is not taken back"),
            "no hand-over of it has begun",
            "`twinlog mirrors describe` shows who has its topics",
        ));
    };
    let mut said = Ok(());
    let mut say = |text: &str| {
        if !json && said.is_ok() {
            said = output::line(text);
        }
    };
    HandOver::resume(order, journal)?.undo(&mut say)?;
    said?;
    if json {
        output::json(&serde_json::json!({ "mirror": mirror, "undone": true }))?;
    } else {
        output::line(&format!("mirror {mirror} is taken back, and its topics are started again"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The checks speak to clients' listener without TLS and SASL.
fn reachable(properties: &Path) -> Result<String, Failure> {
    let node = layout::read_node(properties).map_err(|problems| match problems.into_iter().next() {
        Some(problem) => problem.into(),
        None => Failure::new("the node", "cannot be read", "look at its properties"),
    })?;
    node.plaintext().ok_or_else(|| {
        Failure::new(
            format_args!("the broker of {} is not started", properties.display()),
            "no listener of it speaks PLAINTEXT, so it could not be checked",
            "add one on an address that only this host reaches, or leave out --start and start it by hand",
        )
    })
}

/// Starts the broker and checks what it serves.
fn serve(hand_over: &mut HandOver, args: &Promote, say: promote::Say<'_>) -> Result<Checked, Failure> {
    let address = reachable(&hand_over.journal.to)?;
    let is_running = hand_over.is_running();
    // One that served and is gone, which it may be for any reason, is started again.
    if hand_over.journal.step < Step::Started || !is_running {
        let (mut child, log) = (None, hand_over.server_log());
        let command = start::command_line(args.start_command.as_deref(), &hand_over.journal.to)?;
        if is_running {
            say("a broker runs on the node's directories already, or is starting");
            if let Some(pid) = start::process(&log) {
                hand_over.journal.server = Some(Server { pid, command, log: log.clone(), ready_ms: None });
            }
        } else {
            say(&format!("starting the broker; its output is in {}", log.display()));
            let (server, started) = start::spawn(&command, &log)?;
            steps::passed_by_name(start::SPAWNED);
            hand_over.journal.server = Some(server);
            hand_over.journal.save(hand_over.state())?;
            child = Some(started);
        }
        let took = start::await_serving(&address, child, &log)?;
        if let Some(Server { ready_ms, .. }) = &mut hand_over.journal.server {
            *ready_ms = u64::try_from(took.as_millis()).ok();
        }
        let state = hand_over.state().to_owned();
        hand_over.journal.reach(&state, Step::Started)?;
    }
    say("checking what it serves");
    let checked = check::check(&hand_over.journal, hand_over.state(), &address)?;
    if checked.ok {
        let state = hand_over.state().to_owned();
        hand_over.journal.reach(&state, Step::Checked)?;
    }
    Ok(checked)
}

fn finish(hand_over: &HandOver, args: &Promote, checked: Option<Checked>) -> Result<ExitCode, Failure> {
    let journal = &hand_over.journal;
    let command = start::command_line(args.start_command.as_deref(), &journal.to).ok();
    let command = command.map(|command| command.trim_start_matches("exec ").to_owned());
    let report = Report::new(journal, command, checked);
    report.write(hand_over.state(), args.report.as_deref())?;
    if args.ask.json {
        output::json(&report)?;
    } else {
        report.text().lines().try_for_each(output::line)?;
    }
    match report.checked.as_ref().filter(|checked| !checked.ok) {
        None => Ok(ExitCode::SUCCESS),
        Some(checked) => Err(Failure::new(
            "the broker serves something else than was handed over",
            checked.failures.first().map_or("", String::as_str),
            format_args!(
                "all of it is in the report; stop the broker before anybody writes to it ({} findings)",
                checked.failures.len()
            ),
        )),
    }
}

fn dry_run(order: &Order, json: bool) -> Result<ExitCode, Failure> {
    if let Some(journal) = Journal::load(&order.state, &order.mirror)? {
        let remedy = if journal.step < Step::Started {
            "run `twinlog promote` without --dry-run to go on, or with --undo to take it back"
        } else {
            "its broker was started: stop that, then take the topics back with `twinlog reclaim`"
        };
        return Err(Failure::new(
            format_args!("mirror {} is not looked at", order.mirror),
            format_args!("its hand-over to {} has begun ({})", journal.handed_over_to, journal.step.name()),
            remedy,
        ));
    }
    let judged = promote::preflight(order)?;
    if json {
        output::json(&judged)?;
    } else {
        show(&judged)?;
    }
    Ok(if judged.blockers.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(super) fn blocked(judged: &Preflight, json: bool) -> Result<ExitCode, Failure> {
    if json {
        output::json(judged)?;
    } else {
        show(judged)?;
    }
    Err(first_blocker(judged))
}

/// What the command says when something blocks.
pub(super) fn first_blocker(judged: &Preflight) -> Failure {
    let first = judged.blockers.first();
    let (what, remedy) = first.map_or(("", ""), |finding| (finding.what.as_str(), finding.remedy.as_str()));
    let more = judged.blockers.len().saturating_sub(1);
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    Failure::new(format_args!("mirror {} is not handed over", judged.mirror), format_args!("{what}{more}"), remedy)
}

pub(super) fn show(judged: &Preflight) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> = judged
        .partitions
        .iter()
        .map(|row| {
            vec![
                format!("{}-{}", row.topic, row.partition),
                row.state.clone(),
                output::number(row.log_start_offset),
                output::number(row.log_end_offset),
                output::number(row.source_offset),
                row.epoch_max.to_string(),
                output::number(row.loss.records),
                units::known(row.loss.bytes, units::bytes),
                units::known(row.loss.ms, units::time),
            ]
        })
        .collect();
    let heads = ["PARTITION", "STATE", "#START", "#END", "#SOURCE", "#EPOCH", "#LOST", "#LOST BYTES", "#LOST TIME"];
    output::table(&heads, &rows)?;
    output::line("")?;
    let cluster = judged.cluster_id.as_deref().unwrap_or("to be laid out");
    let release =
        judged.broker_release.as_deref().map(|release| format!(", formatted for {release}")).unwrap_or_default();
    output::line(&format!(
        "mirror {} to node {} ({cluster}{release}): {:?}",
        judged.mirror, judged.node_id, judged.mode
    ))?;
    output::line(&in_words(&judged.loss, judged.loss_unknown_partitions))?;
    if let Some(at) = judged.source_answered_at_ms {
        output::line(&format!("the source last answered {} ago", units::time((now_ms() - at).max(0))))?;
    }
    for open in &judged.open_transactions {
        let id = open.transactional_id.as_deref().unwrap_or("unknown");
        output::line(&format!(
            "open transaction {id} in {}-{} from {}: {}",
            open.topic, open.partition, open.first_offset, open.what
        ))?;
    }
    for moved in &judged.clamped_offsets {
        let (group, topic, partition) = (&moved.group, &moved.topic, moved.partition);
        output::line(&format!("group {group} at {} of {topic}-{partition} becomes {}", moved.from, moved.to))?;
    }
    for setting in &judged.carried_settings {
        output::line(&format!("setting {}", setting.in_words()))?;
    }
    for warning in &judged.warnings {
        output::line(&format!("warning: {}; {}", warning.what, warning.remedy))?;
    }
    for blocker in &judged.blockers {
        output::line(&format!("BLOCKED: {}; {}", blocker.what, blocker.remedy))?;
    }
    Ok(())
}
