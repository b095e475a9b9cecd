//! `twinlog topics start | stop | pause | resume`.

use super::args::{Topics, TopicsArgs};
use super::describe::{self, Mirror};
use super::{connect, output};
use crate::client::Client;
use crate::failure::Failure;
use crate::mirror::patterns::Patterns;
use serde::Serialize;
use std::thread::sleep;
use std::time::{Duration, Instant};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::pause_mirror_topics::{self, PauseMirrorTopicsRequest};
use twinlog_proto::messages::resume_mirror_topics::{self, ResumeMirrorTopicsRequest};
use twinlog_proto::messages::start_mirror_topics::{self, StartMirrorTopicsRequest};
use twinlog_proto::messages::stop_mirror_topics::{self, StopMirrorTopicsRequest};

/// How often `--wait` asks for the states.
const POLL: Duration = Duration::from_millis(100);
/// How many partitions a timeout names; the rest is counted.
const NAMED_PARTITIONS_MAX: usize = 10;

/// Runs one of them.
///
/// # Errors
/// When the control plane refuses any topic or does not answer, or `--wait` runs out of time.
pub(super) fn run(verb: &Topics) -> Result<(), Failure> {
    match verb {
        Topics::Start(args) => start(args),
        Topics::Stop(args) => stop(args),
        Topics::Pause(args) => pause(args),
        Topics::Resume(args) => resume(args),
    }
}

/// What became of one topic.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    topic: String,
    error_code: i16,
    error: Option<&'static str>,
}

fn start(args: &TopicsArgs) -> Result<(), Failure> {
    needs_a_topic(args)?;
    let mut client = connect(&args.ask)?;
    let topics =
        args.topic.iter().map(|name| start_mirror_topics::TopicData { topic_name: name.clone(), ..Default::default() });
    let answer = client.ask(&StartMirrorTopicsRequest {
        mirror_name: args.mirror.clone(),
        topics: topics.collect(),
        include_patterns: args.include.clone(),
        exclude_patterns: args.exclude.clone(),
        from_scratch: args.from_scratch,
    })?;
    let outcomes = answer.topics.into_iter().map(|topic| (topic.name, topic.error_code)).collect();
    finish(args, &mut client, "MIRRORING", "started", answer.error_code, answer.error_message.as_deref(), outcomes)
}

fn stop(args: &TopicsArgs) -> Result<(), Failure> {
    needs_a_topic(args)?;
    starts_only(args)?;
    let mut client = connect(&args.ask)?;
    // With --exclude the topics are selected here, since the request has no place for exceptions. Without it the patterns travel, so
    // that topics that are found later stay stopped too.
    let (names, patterns) = if args.exclude.is_empty() {
        (args.topic.clone(), args.include.clone())
    } else {
        (selected(args, &mut client)?, Vec::new())
    };
    let topics = names.into_iter().map(|name| stop_mirror_topics::TopicData { topic_name: name, ..Default::default() });
    let request = StopMirrorTopicsRequest { mirror_name: args.mirror.clone(), topics: topics.collect(), patterns };
    let answer = client.ask(&request)?;
    let outcomes = answer.topics.into_iter().map(|topic| (topic.name, topic.error_code)).collect();
    let message = answer.error_message.as_deref();
    finish(args, &mut client, "STOPPED", "stopped", answer.error_code, message, outcomes)
}

fn pause(args: &TopicsArgs) -> Result<(), Failure> {
    needs_a_topic(args)?;
    starts_only(args)?;
    let mut client = connect(&args.ask)?;
    let names = selected(args, &mut client)?;
    let topics =
        names.into_iter().map(|name| pause_mirror_topics::TopicData { topic_name: name, ..Default::default() });
    let answer =
        client.ask(&PauseMirrorTopicsRequest { mirror_name: args.mirror.clone(), topics: topics.collect() })?;
    let outcomes = answer.topics.into_iter().map(|topic| (topic.name, topic.error_code)).collect();
    let message = answer.error_message.as_deref();
    finish(args, &mut client, "PAUSED", "paused", answer.error_code, message, outcomes)
}

fn resume(args: &TopicsArgs) -> Result<(), Failure> {
    needs_a_topic(args)?;
    starts_only(args)?;
    let mut client = connect(&args.ask)?;
    let names = selected(args, &mut client)?;
    let topics =
        names.into_iter().map(|name| resume_mirror_topics::TopicData { topic_name: name, ..Default::default() });
    let answer =
        client.ask(&ResumeMirrorTopicsRequest { mirror_name: args.mirror.clone(), topics: topics.collect() })?;
    let outcomes = answer.topics.into_iter().map(|topic| (topic.name, topic.error_code)).collect();
    let message = answer.error_message.as_deref();
    finish(args, &mut client, "MIRRORING", "resumed", answer.error_code, message, outcomes)
}

/// The mirror's topics that the command line selects, and those that it names.
fn selected(args: &TopicsArgs, client: &mut Client) -> Result<Vec<String>, Failure> {
    let patterns = |texts: &[String]| {
        Patterns::compile(texts).map_err(|cause| Failure::usage(cause, "write a regular expression in RE2 syntax"))
    };
    let (include, exclude) = (patterns(&args.include)?, patterns(&args.exclude)?);
    if args.include.is_empty() && args.exclude.is_empty() {
        return Ok(args.topic.clone());
    }
    let mirrors = describe::ask(client, Some(&args.mirror), &[])?;
    let known = mirrors.iter().flat_map(|mirror| &mirror.topics).map(|topic| topic.topic.clone());
    let mut names: Vec<String> = known.filter(|name| include.matches(name)).chain(args.topic.iter().cloned()).collect();
    names.retain(|name| !exclude.matches(name));
    names.sort();
    names.dedup();
    Ok(names)
}

fn starts_only(args: &TopicsArgs) -> Result<(), Failure> {
    if args.from_scratch {
        return Err(Failure::usage("--from-scratch says how to start", "leave it out"));
    }
    Ok(())
}

fn needs_a_topic(args: &TopicsArgs) -> Result<(), Failure> {
    if args.topic.is_empty() && args.include.is_empty() {
        return Err(Failure::usage("no topic is given", "add --topic NAME or --include REGEX"));
    }
    Ok(())
}

fn finish(
    args: &TopicsArgs,
    client: &mut Client,
    wanted: &str,
    done: &str,
    code: i16,
    message: Option<&str>,
    topics: Vec<(String, i16)>,
) -> Result<(), Failure> {
    let accepted: Vec<String> = topics.iter().filter(|topic| topic.1 == 0).map(|topic| topic.0.clone()).collect();
    let waited = if args.wait && !accepted.is_empty() { wait(args, client, wanted, &accepted) } else { Ok(()) };
    let outcomes: Vec<Outcome> = topics
        .into_iter()
        .map(|(topic, code)| Outcome { topic, error_code: code, error: (code != 0).then(|| ErrorCode(code).name()) })
        .collect();
    if args.ask.json {
        output::json(&outcomes)?;
    } else if waited.is_ok() {
        let said = if args.wait { wanted.to_owned() } else { format!("being {done}") };
        for topic in &accepted {
            output::line(&format!("topic {topic} {said}"))?;
        }
    }
    if let Some(refused) = outcomes.iter().find(|outcome| outcome.error_code != 0) {
        return describe::refuse(refused.error_code, message, &format!("topic {} is not {done}", refused.topic));
    }
    describe::refuse(code, message, &format!("topics are not {done}"))?;
    if let Some(note) = message {
        output::note(note);
    }
    if outcomes.is_empty() && !args.ask.json {
        output::line("no topic matches now")?;
    }
    waited
}

/// Waits until every partition of `topics` is in the wanted state.
fn wait(args: &TopicsArgs, client: &mut Client, wanted: &str, topics: &[String]) -> Result<(), Failure> {
    let deadline = Instant::now() + args.timeout;
    loop {
        let mirrors = describe::ask(client, Some(&args.mirror), topics)?;
        let missing = missing(&mirrors, wanted);
        if missing.is_empty() && mirrors.iter().map(|mirror| mirror.topics.len()).sum::<usize>() >= topics.len() {
            return Ok(());
        }
        if let Some(failed) = missing.iter().find(|line| line.contains("will not be retried")) {
            return Err(Failure::new("a partition failed", failed, "`twinlog mirrors describe` shows what to do"));
        }
        if Instant::now() >= deadline {
            let more = missing.len().saturating_sub(NAMED_PARTITIONS_MAX);
            let named = missing.iter().take(NAMED_PARTITIONS_MAX).cloned().collect::<Vec<_>>().join(", ");
            let which = match (named.is_empty(), more) {
                (true, _) => "the topics are not known yet".to_owned(),
                (false, 0) => named,
                (false, more) => format!("{named} and {more} more"),
            };
            return Err(Failure::timed_out(format_args!("not {wanted} within {:?}", args.timeout), which));
        }
        sleep(POLL);
    }
}

fn missing(mirrors: &[Mirror], wanted: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for topic in mirrors.iter().flat_map(|mirror| &mirror.topics) {
        // A stopped topic may be one of which nothing was ever known.
        if topic.partitions.is_empty() && wanted != "STOPPED" {
            missing.push(format!("{} has no known partitions yet", topic.topic));
        }
        for partition in topic.partitions.iter().filter(|partition| partition.state != wanted) {
            let name = format!("{}-{}", topic.topic, partition.partition);
            let why = partition.error_message.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            let final_word =
                if partition.state == "FAILED" && partition.retry_attempt < 0 { " (will not be retried)" } else { "" };
            missing.push(format!("{name} is {}{why}{final_word}", partition.state));
        }
    }
    missing
}
