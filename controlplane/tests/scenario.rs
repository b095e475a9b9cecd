//! The real process over TCP, with a source and a data plane of the tests. What a pass proves: a topic goes through its
//! states as the board shows them, what was answered survives SIGKILL, and the two planes may die and come back alone.

mod kit;

use kit::plane::{DataPlane, Shown};
use kit::source::{Source, Topic};
use kit::{ControlPlane, wait_for};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use twinlog_proto::channel::message::Order;
use twinlog_proto::channel::progress::{FaultCode, mirror_identity};
use twinlog_proto::messages::delete_mirror::DeleteMirrorRequest;
use twinlog_proto::messages::last_mirrored_offsets::LastMirroredOffsetsRequest;
use twinlog_proto::messages::list_mirrors::ListMirrorsRequest;
use twinlog_proto::messages::pause_mirror_topics::{self, PauseMirrorTopicsRequest};
use twinlog_proto::messages::read_mirror_states::ReadMirrorStatesRequest;
use twinlog_proto::messages::resume_mirror_topics::{self, ResumeMirrorTopicsRequest};
use twinlog_proto::messages::start_mirror_topics::StartMirrorTopicsRequest;
use twinlog_proto::messages::stop_mirror_topics::{StopMirrorTopicsRequest, StopMirrorTopicsResponse, TopicData};

fn stop(plane: &ControlPlane, mirror: &str, topics: &[&str], patterns: &[&str]) -> StopMirrorTopicsResponse {
    let topic = |name: &&str| TopicData { topic_name: (*name).to_owned(), ..TopicData::default() };
    plane.ask(&StopMirrorTopicsRequest {
        mirror_name: mirror.to_owned(),
        topics: topics.iter().map(topic).collect(),
        patterns: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
    })
}

fn last_mirrored(plane: &ControlPlane, mirror: &str) -> Vec<(String, i32, i64, i32)> {
    let answer = plane.ask(&LastMirroredOffsetsRequest { mirror_name: mirror.to_owned(), topics: Vec::new() });
    let mut all = Vec::new();
    for topic in answer.topics {
        for p in topic.partitions {
            all.push((topic.name.clone(), p.partition_index, p.last_mirrored_offset, p.last_mirror_epoch));
        }
    }
    all
}

#[test]
fn a_topic_is_started_stopped_and_started_again_and_a_killed_control_plane_knows_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("orders", 2)]);
    let data = DataPlane::start(folder.path(), 7);
    let shown = Shown { leo: 100, source_high_watermark: 150, fails_up_to: None };
    data.show("orders-0", shown);
    let control = ControlPlane::start(folder.path());
    assert_eq!(control.create("dr", &source.address).error_code, 0);
    let started = control.start_topics("dr", &["orders"]);
    assert_eq!((started.error_code, started.topics[0].error_code), (0, 0), "{started:?}");

    let seen = control.wait_state("dr", "orders", 0, "MIRRORING");
    assert_eq!((seen.source_offset, seen.destination_offset, seen.lag), (150, 100, 50));
    assert_eq!((seen.leader_epoch, seen.last_mirror_offset), (4, -1));
    control.wait_state("dr", "orders", 1, "MIRRORING");
    assert_eq!(last_mirrored(&control, "dr")[0], ("orders".to_owned(), 0, 0, -1), "nothing ended yet");

    assert_eq!(stop(&control, "dr", &["orders"], &[]).topics[0].error_code, 0);
    let seen = control.wait_state("dr", "orders", 0, "STOPPED");
    control.wait_state("dr", "orders", 1, "STOPPED");
    assert_eq!((seen.destination_offset, seen.last_mirror_offset, seen.last_mirror_epoch), (100, 100, 3));

    let states = ReadMirrorStatesRequest { mirror_name: "dr".to_owned(), topics: Vec::new() };
    let (before, ended) = (control.ask(&states), last_mirrored(&control, "dr"));
    assert_eq!(ended[0], ("orders".to_owned(), 0, 100, 3));
    control.kill();
    let control = ControlPlane::start(folder.path());
    // What the board shows comes as soon as it is found.
    wait_for("the same states", || (control.ask(&states) == before).then_some(()));
    assert_eq!(last_mirrored(&control, "dr"), ended);

    assert_eq!(control.start_topics("dr", &["orders"]).topics[0].error_code, 0);
    control.wait_state("dr", "orders", 0, "MIRRORING");
    assert_eq!(control.terminate(), Some(0));
}

#[test]
fn a_mirror_that_was_deleted_and_created_again_mirrors_again() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("orders", 1)]);
    let _data = DataPlane::start(folder.path(), 7);
    let control = ControlPlane::start(folder.path());
    for _ in 0..3 {
        assert_eq!(control.create("dr", &source.address).error_code, 0);
        assert_eq!(control.start_topics("dr", &["orders"]).topics[0].error_code, 0);
        control.wait_state("dr", "orders", 0, "MIRRORING");
        stop(&control, "dr", &["orders"], &[]);
        control.wait_state("dr", "orders", 0, "STOPPED");
        assert_eq!(
            control.ask(&DeleteMirrorRequest { mirror_name: "dr".to_owned(), ..Default::default() }).error_code,
            0
        );
    }
}

#[test]
fn a_cluster_id_that_would_spoil_a_terminal_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[]);
    let control = ControlPlane::start(folder.path());
    for bad in ["a\nb".to_owned(), "\u{1b}[2J".to_owned(), "x".repeat(300)] {
        source.cluster.lock().unwrap().id = bad;
        let answer = control.create("dr", &source.address);
        assert_eq!(answer.error_code, 35);
        assert!(answer.error_message.unwrap().contains("cluster id"));
    }
}

#[test]
fn a_stopped_log_that_somebody_wrote_to_is_not_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("orders", 1)]);
    let data = DataPlane::start(folder.path(), 7);
    data.show("orders-0", Shown { leo: 100, source_high_watermark: 100, fails_up_to: None });
    let control = ControlPlane::start(folder.path());
    control.create("dr", &source.address);
    control.start_topics("dr", &["orders"]);
    control.wait_state("dr", "orders", 0, "MIRRORING");
    stop(&control, "dr", &[], &["ord.*"]);
    control.wait_state("dr", "orders", 0, "STOPPED");
    data.show("orders-0", Shown { leo: 101, source_high_watermark: 100, fails_up_to: None });
    wait_for("the board to show it", || {
        control.partition("dr", "orders", 0).filter(|seen| seen.destination_offset == 101)
    });
    let by_name = control.start_topics("dr", &["orders"]);
    assert_eq!(by_name.topics[0].error_code, 42, "the pattern of the stop wins: {by_name:?}");
    let include_patterns = vec!["ord.*".to_owned()];
    let request = StartMirrorTopicsRequest { mirror_name: "dr".to_owned(), include_patterns, ..Default::default() };
    let answer = control.ask(&request);
    assert_eq!(answer.topics[0].error_code, 1145);
    assert!(answer.error_message.unwrap().contains("reclaim"));
}

#[test]
fn a_topic_is_paused_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("orders", 1)]);
    let _data = DataPlane::start(folder.path(), 7);
    let control = ControlPlane::start(folder.path());
    control.create("dr", &source.address);
    control.start_topics("dr", &["orders"]);
    control.wait_state("dr", "orders", 0, "MIRRORING");
    let topic = pause_mirror_topics::TopicData { topic_name: "orders".to_owned(), ..Default::default() };
    let answer = control.ask(&PauseMirrorTopicsRequest { mirror_name: "dr".to_owned(), topics: vec![topic] });
    assert_eq!((answer.error_code, answer.topics[0].error_code), (0, 0));
    control.wait_state("dr", "orders", 0, "PAUSED");
    assert_eq!(control.start_topics("dr", &["orders"]).topics[0].error_code, 1146);
    let topic = resume_mirror_topics::TopicData { topic_name: "orders".to_owned(), ..Default::default() };
    let answer = control.ask(&ResumeMirrorTopicsRequest { mirror_name: "dr".to_owned(), topics: vec![topic] });
    assert_eq!((answer.error_code, answer.topics[0].error_code), (0, 0));
    control.wait_state("dr", "orders", 0, "MIRRORING");
}

#[test]
fn without_its_data_plane_everything_is_answered_and_a_new_one_is_told_everything() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("orders", 1)]);
    let control = ControlPlane::start(folder.path());
    control.create("dr", &source.address);
    control.start_topics("dr", &["orders"]);
    let seen = control.partition("dr", "orders", 0).unwrap();
    assert_eq!((seen.state.as_str(), seen.source_offset, seen.destination_offset, seen.lag), ("PREPARING", -1, -1, -1));
    assert!(http(&control, "/health").starts_with("HTTP/1.1 503"));

    for generation in [7, 8] {
        let data = DataPlane::start(folder.path(), generation);
        control.wait_state("dr", "orders", 0, "MIRRORING");
        let wanted = mirror_identity("dr");
        wait_for("the order", || {
            let orders = data.orders.lock().unwrap();
            let told = |order: &Order| matches!(order, Order::AssignmentCurrent { mirror, .. } if *mirror == wanted);
            orders.iter().any(told).then_some(())
        });
        assert!(http(&control, "/health").starts_with("HTTP/1.1 200"));
        assert!(http(&control, "/metrics").contains("twinlog_partitions{mirror=\"dr\",state=\"MIRRORING\"} 1"));
        drop(data);
        wait_for("the end to be noticed", || {
            control.partition("dr", "orders", 0).filter(|seen| seen.destination_offset == -1)
        });
        assert_eq!(control.partition("dr", "orders", 0).unwrap().state, "MIRRORING");
    }
}

#[test]
fn a_failed_partition_is_tried_again_and_one_that_a_retry_cannot_mend_waits_for_a_person() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("orders", 2)]);
    let data = DataPlane::start(folder.path(), 7);
    let failing = |up_to, code| Shown { leo: 5, source_high_watermark: 9, fails_up_to: Some((up_to, code)) };
    data.show("orders-0", failing(0, FaultCode::DISK_FULL));
    data.show("orders-1", failing(0, FaultCode::GAP));
    let control = ControlPlane::start(folder.path());
    control.create("dr", &source.address);
    control.start_topics("dr", &["orders"]);
    let failed = control.wait_state("dr", "orders", 1, "FAILED");
    assert_eq!((failed.retry_attempt, failed.previous_state.as_deref()), (-1, Some("PREPARING")));
    let message = failed.error_message.unwrap();
    assert!(message.starts_with("gap:") && message.ends_with("offsets 5 to 9 (exclusive)"), "{message}");
    // The other one comes back by itself, and its count is forgotten when records flow.
    control.wait_state("dr", "orders", 0, "MIRRORING");
    data.show("orders-0", Shown { leo: 9, source_high_watermark: 9, fails_up_to: None });
    wait_for("the count to be forgotten", || {
        control.partition("dr", "orders", 0).filter(|seen| seen.retry_attempt == 0 && seen.error_message.is_none())
    });
    assert_eq!(control.partition("dr", "orders", 1).unwrap().state, "FAILED");
    // A start is how a person asks for another attempt.
    assert_eq!(control.start_topics("dr", &["orders"]).topics[0].error_code, 0);
    control.wait_state("dr", "orders", 1, "MIRRORING");
}

#[test]
fn a_topic_of_a_source_that_is_away_waits_and_starts_when_the_source_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("orders", 3)]);
    let address = source.address.clone();
    let _data = DataPlane::start(folder.path(), 7);
    let control = ControlPlane::start(folder.path());
    assert_eq!(control.create("dr", &address).error_code, 0);
    assert_eq!(control.start_topics("dr", &["nope"]).topics[0].error_code, 3, "a source that answers is believed");
    assert!(control.partition("dr", "nope", 0).is_none(), "and nothing is recorded");

    drop(source);
    for topic in ["orders", "nope"] {
        assert_eq!(control.start_topics("dr", &[topic]).topics[0].error_code, 0);
        assert_eq!(control.partition("dr", topic, 0).unwrap().state, "INITIALIZING");
    }
    let _source = Source::serve(TcpListener::bind(&address).unwrap(), &[("orders", 3)]);
    control.wait_state("dr", "orders", 2, "MIRRORING");
    let failed = control.wait_state("dr", "nope", 0, "FAILED");
    assert_eq!(failed.retry_attempt, -1, "{failed:?}");
    // There is nothing that a data plane could stop.
    assert_eq!(stop(&control, "dr", &["nope"], &[]).topics[0].error_code, 0);
    control.wait_state("dr", "nope", 0, "STOPPED");
}

#[test]
fn patterns_start_what_exists_now_except_internal_topics() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("a1", 1), ("a2", 1), ("b", 1), ("__consumer_offsets", 5)]);
    let control = ControlPlane::start(folder.path());
    control.create("dr", &source.address);
    let patterns = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
    let answer = control.ask(&StartMirrorTopicsRequest {
        mirror_name: "dr".to_owned(),
        include_patterns: patterns(&["a.*", "__.*", "b"]),
        exclude_patterns: patterns(&["a2"]),
        ..Default::default()
    });
    let results: Vec<(&str, i16)> = answer.topics.iter().map(|topic| (topic.name.as_str(), topic.error_code)).collect();
    assert_eq!(results, [("a1", 0), ("b", 0)]);
    let listed = control.ask(&ListMirrorsRequest { include_topic_names: true }).mirrors.remove(0);
    assert_eq!((listed.topic_count, listed.topic_names), (2, vec!["a1".to_owned(), "b".to_owned()]));
}

#[test]
fn what_is_new_at_the_source_and_matches_is_started_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("twinlog.toml");
    std::fs::write(&file, "[controlplane]\nrefresh_interval_ms = 100\n").unwrap();
    let source = Source::start(&[("a1", 1), ("a2", 1)]);
    let _data = DataPlane::start(folder.path(), 7);
    let control = ControlPlane::start_by(ControlPlane::command(folder.path()).arg("--config").arg(&file));
    control.create("dr", &source.address);
    let include_patterns = vec!["a.*".to_owned()];
    control.ask(&StartMirrorTopicsRequest { mirror_name: "dr".to_owned(), include_patterns, ..Default::default() });
    control.wait_state("dr", "a1", 0, "MIRRORING");
    stop(&control, "dr", &["a2"], &[]);
    control.wait_state("dr", "a2", 0, "STOPPED");
    {
        let mut cluster = source.cluster.lock().unwrap();
        cluster.topics[0].partitions = 3;
        for (id, name) in [(8, "a3"), (9, "b"), (10, "__a")] {
            cluster.topics.push(Topic { name, id, partitions: 1, internal: id == 10 });
        }
    }
    control.wait_state("dr", "a1", 2, "MIRRORING");
    control.wait_state("dr", "a3", 0, "MIRRORING");
    assert_eq!(control.partition("dr", "a2", 0).unwrap().state, "STOPPED", "a stop is not undone by a pattern");
    assert!(control.partition("dr", "b", 0).is_none() && control.partition("dr", "__a", 0).is_none());
}

#[test]
fn bytes_that_are_no_request_close_the_connection_and_an_unknown_api_versions_is_answered_at_version_0() {
    let folder = tempfile::tempdir().unwrap();
    let control = ControlPlane::start(folder.path());
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff, 0xff, 0xff, 0xff],
        &[0x7f, 0xff, 0xff, 0xff],
        &[0, 0, 0, 3, 1, 2, 3],
        // Unknown key 999, then Metadata at version 99.
        &[0, 0, 0, 10, 3, 0xe7, 0, 0, 0, 0, 0, 1, 0xff, 0xff],
        &[0, 0, 0, 11, 0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff, 0],
    ] {
        let mut stream = TcpStream::connect(&control.listen).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // A reset says the same as an end.
        drop(stream.read_to_end(&mut answer));
        assert_eq!(answer, b"", "{bytes:?}");
    }
    let mut stream = TcpStream::connect(&control.listen).unwrap();
    stream.write_all(&[0, 0, 0, 11, 0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0]).unwrap();
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).unwrap();
    // Correlation id, error 35, one row: ApiVersions 0 to 4.
    assert_eq!(answer[4..], [0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4]);
}

fn http(control: &ControlPlane, page: &str) -> String {
    let mut stream = TcpStream::connect(&control.metrics).unwrap();
    write!(stream, "GET {page} HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
