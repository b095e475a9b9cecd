//! A pass proves: the control plane's process follows its sources by itself, each mirror at its own interval, and a source that
//! is silent delays nobody else.

mod kit;

use kit::ControlPlane;
use kit::plane::DataPlane;
use kit::source::{Source, Topic};
use std::net::{TcpListener, TcpStream};
use twinlog_proto::messages::start_mirror_topics::StartMirrorTopicsRequest;
use twinlog_proto::messages::stop_mirror_topics::{StopMirrorTopicsRequest, TopicData};

const SOON: (&str, &str) = ("mirror.metadata.refresh.interval.ms", "100");

fn follow(control: &ControlPlane, mirror: &str, source: &str, pattern: &str) {
    let made = control.create_with(mirror, &[("bootstrap.servers", source), SOON]);
    assert_eq!(made.error_code, 0, "{made:?}");
    let include_patterns = vec![pattern.to_owned()];
    control.ask(&StartMirrorTopicsRequest { mirror_name: mirror.to_owned(), include_patterns, ..Default::default() });
}

fn stop(control: &ControlPlane, mirror: &str, topic: &str) -> i16 {
    let topics = vec![TopicData { topic_name: topic.to_owned(), ..TopicData::default() }];
    let request = StopMirrorTopicsRequest { mirror_name: mirror.to_owned(), topics, ..Default::default() };
    control.ask(&request).topics[0].error_code
}

#[test]
fn a_topic_that_is_gone_or_made_anew_fails_by_itself_and_a_start_brings_back_what_came_back() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("a1", 2), ("a2", 1), ("a3", 1)]);
    let _data = DataPlane::start(folder.path(), 7);
    let control = ControlPlane::start(folder.path());
    follow(&control, "dr", &source.address, "a.*");
    for topic in ["a1", "a2", "a3"] {
        control.wait_state("dr", topic, 0, "MIRRORING");
    }
    {
        let mut cluster = source.cluster.lock().unwrap();
        cluster.topics.remove(0);
        cluster.topics[0].id = 77;
    }
    // The data plane of this test goes on as if nothing had happened; the source's word stands.
    for partition in [0, 1] {
        let gone = control.wait_state("dr", "a1", partition, "FAILED");
        assert_eq!(gone.retry_attempt, -1, "{gone:?}");
        assert!(gone.error_message.as_ref().unwrap().starts_with("unknown_topic: "), "{gone:?}");
    }
    let anew = control.wait_state("dr", "a2", 0, "FAILED");
    assert!(anew.error_message.as_ref().unwrap().starts_with("recreated: "), "{anew:?}");
    // A look at the board shows all slots, so one that takes in a later topic has shown those of the topic that is gone.
    source.cluster.lock().unwrap().topics.push(Topic { name: "a4", id: 4, partitions: 1, internal: false });
    control.wait_state("dr", "a4", 0, "MIRRORING");
    assert_eq!(control.partition("dr", "a1", 0).unwrap().state, "FAILED", "a slot that moves takes nothing back");
    assert_eq!(control.partition("dr", "a3", 0).unwrap().state, "MIRRORING");

    source.cluster.lock().unwrap().topics.push(Topic { name: "a1", id: 1, partitions: 2, internal: false });
    assert_eq!(
        control.start_topics("dr", &["a1", "a2"]).topics.iter().map(|t| t.error_code).collect::<Vec<_>>(),
        [0, 103]
    );
    control.wait_state("dr", "a1", 1, "MIRRORING");
    assert_eq!(stop(&control, "dr", "a2"), 0);
    control.wait_state("dr", "a2", 0, "STOPPED");
}

#[test]
fn servers_of_another_cluster_fail_everything_with_both_ids() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("a1", 1), ("a2", 1)]);
    let _data = DataPlane::start(folder.path(), 7);
    let control = ControlPlane::start(folder.path());
    follow(&control, "dr", &source.address, "a.*");
    control.wait_state("dr", "a2", 0, "MIRRORING");
    source.cluster.lock().unwrap().id = "some-other-cluster".to_owned();
    for topic in ["a1", "a2"] {
        let failed = control.wait_state("dr", topic, 0, "FAILED");
        let message = failed.error_message.unwrap();
        assert!(message.contains("some-other-cluster") && message.contains("the-source-cluster-id"), "{message}");
    }
}

#[test]
fn silent_sources_delay_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let _data = DataPlane::start(folder.path(), 7);
    let control = ControlPlane::start(folder.path());
    // Sources that were there when their mirrors were made, and then take a connection and say nothing.
    let silent: Vec<TcpListener> = (0..9)
        .map(|n| {
            let source = Source::start(&[("b", 1)]);
            follow(&control, &format!("silent{n}"), &source.address, "none.*");
            let address = source.address.clone();
            drop(source);
            TcpListener::bind(&address).unwrap()
        })
        .collect();
    let source = Source::start(&[("a1", 1)]);
    follow(&control, "dr", &source.address, "a.*");
    // Every silent one is asked, and more of them than may wait at the same time: one after the other they would take longer than
    // the wait below.
    let asked: Vec<TcpStream> = silent.iter().map(|listener| listener.accept().unwrap().0).collect();
    source.cluster.lock().unwrap().topics.push(Topic { name: "a2", id: 9, partitions: 1, internal: false });
    control.wait_state("dr", "a2", 0, "MIRRORING");
    drop((asked, silent));
}
