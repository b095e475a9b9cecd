//! `twinlog reclaim`: takes topics back from the broker that they were handed over to, or says what that would throw away.

use super::args::Reclaim as Args;
use super::promote::turn;
use super::{check_command_config, output, units};
use crate::failure::Failure;
use crate::handover::adopt::report::past;
use crate::handover::journal::{Journal, Step as HandedOver};
use crate::handover::reclaim::progress::{Reclaim, Step, Taken};
use crate::handover::reclaim::{self, Begun, Order, Preflight, Reclaiming};
use crate::steps;
use std::path::Path;
use std::process::ExitCode;
use twinlog_proto::storage::names;

/// Runs it.
///
/// # Errors
/// When something blocks, or a step fails.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    // What is no step here is one of the data plane's program, which refuses what is none of its own.
    steps::arm_among(Step::KILL_POINTS).ok();
    if let Some(file) = &args.ask.command_config {
        check_command_config(file)?;
    }
    let order = Order {
        mirror: args.mirror.clone(),
        from: args.from.clone(),
        state: args.state.clone(),
        control: args.ask.bootstrap_server.clone(),
        topics: args.topic.clone(),
        save_aside: args.save_aside.clone(),
        lmo_from: args.lmo_from.clone(),
        allow_empty: args.allow_empty,
        from_scratch: args.from_scratch,
        clone: args.clone,
    };
    let json = args.ask.json;
    let _turn = turn(&order.state, &order.mirror)?;
    let journal = Journal::load(&order.state, &order.mirror)?;
    if journal.is_none()
        && let Some(done) = done_before(&order)?
    {
        return finish(&order.mirror, &done, json);
    }
    if let Some(adoption) = journal.as_ref().and_then(|journal| journal.adopt.as_ref()) {
        return Err(adopted(&order.mirror, &adoption.address));
    }
    if journal.is_none()
        && order.lmo_from.is_none()
        && let Some(past) = past(&order.state, &order.mirror)?.last()
    {
        return Err(adopted(&order.mirror, &past.address));
    }
    if let Some(journal) = journal.as_ref().filter(|j| j.undoing || j.step < HandedOver::Promoted) {
        return Err(Failure::new(
            format_args!("mirror {} is not taken back", order.mirror),
            format_args!("its hand-over to {} is not done ({})", journal.handed_over_to, journal.step.name()),
            "take it back with `twinlog promote` and --undo, or end it first",
        ));
    }
    let mut said = Ok(());
    let mut say = |text: &str| {
        if !json && said.is_ok() {
            said = output::line(text);
        }
    };
    let under = match journal {
        Some(journal) if journal.reclaim.is_some() => {
            if args.dry_run {
                return Err(under_way(&order));
            }
            Reclaiming::resume(order, journal)?
        }
        journal => match Reclaiming::begin(order, journal, args.dry_run, &mut say)? {
            Begun::Under(under) => *under,
            Begun::Judged(judged) => return show(&judged, json, args.dry_run),
        },
    };
    if !json && let Some(reclaim) = &under.journal.reclaim {
        list(&reclaim.partitions, !reclaim.stages.is_empty())?;
    }
    let done = under.finish(&mut say)?;
    said?;
    finish(&args.mirror, &done, json)
}

fn under_way(order: &Order) -> Failure {
    Failure::new(
        format_args!("mirror {} is not looked at", order.mirror),
        "it is being taken back",
        "run the same command without --dry-run to go on",
    )
}

/// Topics that a running broker adopted have an id of their own there, and their files are copies.
fn adopted(mirror: &str, address: &str) -> Failure {
    Failure::new(
        format_args!("mirror {mirror} is not taken back"),
        format_args!("the broker at {address} has adopted its topics: it runs, and made topics of its own of copies"),
        format_args!(
            "delete the topics at the broker when what was written there is not wanted, then run `twinlog promote {mirror} --adopt {address} \
             --log-dir DIR --undo`: mirroring goes on in the mirror's own files, which are whole"
        ),
    )
}

/// Nothing is handed over: the last run may have been killed after its last step.
fn done_before(order: &Order) -> Result<Option<Reclaim>, Failure> {
    let report = std::fs::read(reclaim::report_path(order)?).ok();
    let done = report.and_then(|bytes| serde_json::from_slice::<Reclaim>(&bytes).ok());
    let from = crate::handover::promote::absolute(&order.from)?;
    // A node of the other side may be taken back, promoted into and taken back again.
    let is_gone = |taken: &Taken| !taken.log_dir.join(names::partition_dir(&taken.topic, taken.partition)).is_dir();
    // Copies leave the directories at the broker: that they are the mirror's now tells.
    let is_ours = |stage: &Path, taken: &Taken| {
        stage.parent().is_some_and(|data| data.join(names::partition_dir(&taken.topic, taken.partition)).is_dir())
    };
    let is_taken = |done: &Reclaim| match done.stages.as_slice() {
        [] => done.partitions.iter().all(is_gone),
        stages => order.clone && done.partitions.iter().all(|taken| stages.iter().any(|stage| is_ours(stage, taken))),
    };
    // Other topics of the same node may follow.
    let is_same = |done: &Reclaim| (&done.from, &done.lmo_from, &done.asked) == (&from, &order.lmo_from, &order.topics);
    let is_done = |done: &Reclaim| is_same(done) && is_taken(done);
    Ok(done.filter(is_done))
}

fn finish(mirror: &str, done: &Reclaim, json: bool) -> Result<ExitCode, Failure> {
    if json {
        output::json(&done)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !done.given_up.is_empty() {
        let names = done.given_up.join(" --topic ");
        output::line(&format!("mirror them anew with: twinlog topics start {mirror} --from-scratch --topic {names}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (records, bytes) = done.behind();
    let (partitions, bytes, is_cloned) = (done.partitions.len(), units::bytes(bytes), !done.stages.is_empty());
    let became = if is_cloned { "stay there, with what its clients write from now on" } else { "are thrown away" };
    output::line(&format!(
        "{partitions} partitions of mirror {mirror} are taken back; {records} records ({bytes}) of the broker {became}"
    ))?;
    if let Some(dir) = &done.saved_aside {
        output::line(&format!("they are saved in {}", dir.display()))?;
    }
    output::line(match is_cloned {
        true => "the broker still leads these topics: move its clients to the new leader, then delete the topics there",
        false => {
            "the node still takes itself for the leader of these topics: do not start it again before `twinlog promote` has laid it out anew"
        }
    })?;
    output::line(&format!(
        "mirror on with: twinlog topics start {mirror} --topic {}",
        done.topics().join(" --topic ")
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn show(judged: &Preflight, json: bool, dry_run: bool) -> Result<ExitCode, Failure> {
    if json {
        output::json(&judged)?;
    } else {
        list(&judged.partitions, judged.clone)?;
        for warning in &judged.warnings {
            output::line(&format!("warning: {}; {}", warning.what, warning.remedy))?;
        }
        for blocker in &judged.blockers {
            output::line(&format!("BLOCKED: {}; {}", blocker.what, blocker.remedy))?;
        }
    }
    let Some(first) = judged.blockers.first() else { return Ok(ExitCode::SUCCESS) };
    if dry_run {
        return Ok(ExitCode::FAILURE);
    }
    let more = judged.blockers.len() - 1;
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    let what = format_args!("mirror {} is not taken back", judged.mirror);
    Err(Failure::new(what, format_args!("{}{more}", first.what), &first.remedy))
}

/// What is thrown away, or stays at the broker that copies are taken from, partition by partition.
fn list(partitions: &[Taken], clone: bool) -> Result<(), Failure> {
    let row = |taken: &Taken| {
        vec![
            format!("{}-{}", taken.topic, taken.partition),
            taken.log_start_offset.to_string(),
            taken.last_mirrored_offset.to_string(),
            output::number(Some(taken.end_offset).filter(|end| *end >= 0)),
            taken.records.to_string(),
            taken.bytes.to_string(),
            taken.epochs.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        ]
    };
    let rows: Vec<Vec<String>> = partitions.iter().map(row).collect();
    let records = if clone { "#STAY THERE" } else { "#THROWN AWAY" };
    let heads = ["PARTITION", "#START", "#CUT AT", "#END", records, "#BYTES", "EPOCHS"];
    output::table(&heads, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_done_for_one_topic_is_not_done_for_another() {
        let state = tempfile::tempdir().unwrap();
        let from = state.path().join("server.properties");
        let order = |topics: &[&str]| Order {
            mirror: "dr".to_owned(),
            from: from.clone(),
            state: state.path().to_owned(),
            control: String::new(),
            topics: topics.iter().map(|name| (*name).to_owned()).collect(),
            save_aside: None,
            lmo_from: Some("b:9092".to_owned()),
            allow_empty: false,
            from_scratch: false,
            clone: false,
        };
        let taken = json!({"topic": "a", "partition": 0, "logDir": "/nowhere", "logStartOffset": 0, "lastMirroredOffset": 1,
            "lastMirrorEpoch": 0, "endOffset": 1, "records": 0, "bytes": 0, "epochs": []});
        let report = json!({"step": "returned", "begunAtMs": 1, "from": from, "lmoFrom": "b:9092", "asked": ["a"], "logDirs": [],
            "cleanMarkers": {}, "savedAside": null, "partitions": [taken]});
        let path = reclaim::report_path(&order(&[])).unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, report.to_string()).unwrap();
        serde_json::from_value::<Reclaim>(report).expect("a report");
        let is_done = |topics: &[&str]| done_before(&order(topics)).unwrap().is_some();
        assert_eq!((is_done(&["a"]), is_done(&["b"]), is_done(&[])), (true, false, false));
    }
}
