//! The control plane is killed at seeded moments while clients create, start, stop and delete. What a pass proves:
//! after each restart everything that was answered is there, what was not answered is there as a whole or not at all, and
//! the assignments say the same. `TWINLOG_KILLS` sets how many moments are tried, `TWINLOG_SEED` the first seed.

mod kit;

use controlplane::client::{Client, ClientError};
use kit::plane::{DataPlane, Shown};
use kit::source::Source;
use kit::{ControlPlane, wait_for};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use twinlog_proto::assignment;
use twinlog_proto::messages::create_mirror::{CreateMirrorRequest, MirrorConfig};
use twinlog_proto::messages::delete_mirror::DeleteMirrorRequest;
use twinlog_proto::messages::describe_mirrors::{DescribeMirrorsRequest, DescribedMirror};
use twinlog_proto::messages::last_mirrored_offsets::LastMirroredOffsetsRequest;
use twinlog_proto::messages::start_mirror_topics::{StartMirrorTopicsRequest, TopicData as StartTopic};
use twinlog_proto::messages::stop_mirror_topics::{StopMirrorTopicsRequest, TopicData as StopTopic};

const KILLS: u64 = 12;
const MIRRORS: [&str; 3] = ["one", "two", "three"];
const TOPICS: [[&str; 3]; 3] = [["a1", "b1", "c1"], ["a2", "b2", "c2"], ["a3", "b3", "c3"]];

/// What the client of one mirror was told last; `None` = it does not know, for its question was cut off.
#[derive(Debug, Clone, Default)]
struct Told {
    exists: Option<bool>,
    /// Whether each topic was last started (true) or stopped; absent = never.
    flows: BTreeMap<&'static str, Option<bool>>,
    /// Where mirroring had ended, as far as it was seen.
    ended: BTreeMap<&'static str, i64>,
}

/// Numbers that look random and are the same for the same seed (SplitMix64).
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }
}

fn from_env(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn whatever_was_answered_survives_a_kill_at_any_moment_and_nothing_is_half_made() {
    let folder = tempfile::tempdir().unwrap();
    let topics: Vec<(&'static str, i32)> = TOPICS.iter().flatten().map(|name| (*name, 1)).collect();
    let source = Source::start(&topics);
    let data = DataPlane::start(folder.path(), 7);
    for (leo, topic) in (100..).zip(TOPICS.iter().flatten()) {
        data.show(&format!("{topic}-0"), Shown { leo, source_high_watermark: leo, fails_up_to: None });
    }
    let seed = from_env("TWINLOG_SEED", 1);
    let mut told = vec![Told { exists: Some(false), ..Told::default() }; MIRRORS.len()];
    for moment in seed..seed + from_env("TWINLOG_KILLS", KILLS) {
        let mut draws = Draws(moment);
        let control = start(folder.path());
        for (told, mirror) in told.iter_mut().zip(MIRRORS) {
            compare(&control, folder.path(), mirror, told, moment);
        }
        let clients: Vec<_> = (0..MIRRORS.len())
            .map(|at| {
                let (listen, source, told) = (control.listen.clone(), source.address.clone(), told[at].clone());
                let mut draws = Draws(moment << 8 | at as u64);
                thread::spawn(move || load(&listen, &source, at, told, &mut draws))
            })
            .collect();
        thread::sleep(Duration::from_millis(20 + draws.below(300)));
        control.kill();
        told = clients.into_iter().map(|client| client.join().unwrap()).collect();
    }
    let control = start(folder.path());
    for (told, mirror) in told.iter_mut().zip(MIRRORS) {
        compare(&control, folder.path(), mirror, told, 0);
    }
}

fn start(folder: &Path) -> ControlPlane {
    ControlPlane::start_by(ControlPlane::command(folder).env("TWINLOG_LOG", "error").stderr(Stdio::null()))
}

/// Asks one thing after the other until the connection is cut; gives what was told until then.
fn load(listen: &str, source: &str, at: usize, mut told: Told, draws: &mut Draws) -> Told {
    while step(listen, source, at, &mut told, draws).is_ok() {}
    told
}

fn step(listen: &str, source: &str, at: usize, told: &mut Told, draws: &mut Draws) -> Result<(), ClientError> {
    let (mirror, topic) = (MIRRORS[at].to_owned(), TOPICS[at][draws.below(3) as usize]);
    let mut client = Client::connect(listen)?;
    match draws.below(10) {
        0 | 1 => {
            let before = told.exists.take();
            let config = vec![MirrorConfig { name: "bootstrap.servers".to_owned(), value: Some(source.to_owned()) }];
            let code = client.ask(&CreateMirrorRequest { mirror_name: mirror, config })?.error_code;
            assert!(code == 0 || (code == 1136 && before != Some(false)), "create after {before:?} gives {code}");
            told.exists = Some(true);
        }
        2..=5 => {
            let before = told.flows.insert(topic, None);
            let ended = told.ended.remove(topic);
            let topics = vec![StartTopic { topic_name: topic.to_owned(), ..StartTopic::default() }];
            let request = StartMirrorTopicsRequest { mirror_name: mirror, topics, ..Default::default() };
            let answer = client.ask(&request)?;
            if answer.error_code == 0 && answer.topics[0].error_code == 0 {
                told.flows.insert(topic, Some(true));
            } else {
                restore(told, topic, before, ended);
            }
        }
        6..=8 => {
            let before = told.flows.insert(topic, None);
            let topics = vec![StopTopic { topic_name: topic.to_owned(), ..StopTopic::default() }];
            let request = StopMirrorTopicsRequest { mirror_name: mirror.clone(), topics, patterns: Vec::new() };
            let answer = client.ask(&request)?;
            if answer.error_code == 0 && answer.topics[0].error_code == 0 {
                told.flows.insert(topic, Some(false));
            } else {
                restore(told, topic, before, None);
            }
            look_for_ends(&mut client, &mirror, told)?;
        }
        _ => {
            let before = told.clone();
            *told = Told::default();
            told.flows = before.flows.keys().map(|topic| (*topic, None)).collect();
            match client.ask(&DeleteMirrorRequest { mirror_name: mirror, ..Default::default() })?.error_code {
                0 => *told = Told { exists: Some(false), ..Told::default() },
                _ => *told = before,
            }
        }
    }
    Ok(())
}

/// A refusal changes nothing.
fn restore(told: &mut Told, topic: &'static str, before: Option<Option<bool>>, ended: Option<i64>) {
    match before {
        Some(before) => drop(told.flows.insert(topic, before)),
        None => drop(told.flows.remove(topic)),
    }
    told.ended.extend(ended.map(|offset| (topic, offset)));
}

fn look_for_ends(client: &mut Client, mirror: &str, told: &mut Told) -> Result<(), ClientError> {
    let answer = client.ask(&LastMirroredOffsetsRequest { mirror_name: mirror.to_owned(), topics: Vec::new() })?;
    for topic in answer.topics {
        let Some((name, Some(false))) = told.flows.iter().find(|(name, _)| **name == topic.name) else { continue };
        let ended = topic.partitions.iter().filter(|p| p.last_mirror_epoch >= 0).map(|p| p.last_mirrored_offset);
        told.ended.extend(ended.map(|offset| (*name, offset)));
    }
    Ok(())
}

fn described(control: &ControlPlane, mirror: &str) -> Option<DescribedMirror> {
    let names = Some(vec![mirror.to_owned()]);
    let mut answer = control.ask(&DescribeMirrorsRequest { mirror_names: names, ..Default::default() });
    answer.mirrors.pop().filter(|found| found.error_code == 0)
}

/// What is there now against what was told; what was not told is learnt.
fn compare(control: &ControlPlane, folder: &Path, mirror: &str, told: &mut Told, moment: u64) {
    let found = described(control, mirror);
    let say = format!("seed {moment}, mirror {mirror}: told {told:?}, found {found:?}");
    assert!(told.exists.is_none_or(|exists| exists == found.is_some()), "{say}");
    let file = folder.join("state/assignments").join(format!("{mirror}.assignment"));
    let Some(found) = found else {
        assert!(!file.exists(), "{say}");
        *told = Told { exists: Some(false), ..Told::default() };
        return;
    };
    told.exists = Some(true);
    assert!(found.source_bootstrap.is_some() && found.source_cluster_id.is_some(), "half-made: {say}");
    let assigned = assignment::decode(&std::fs::read(&file).unwrap()).unwrap();
    let mut flows = BTreeMap::new();
    for (topic, last) in &told.flows {
        let known = found.topics.iter().find(|known| known.topic_name == *topic);
        let Some(known) = known else {
            assert!(last.is_none(), "{topic} is lost: {say}");
            continue;
        };
        assert_eq!(known.partitions.len(), 1, "half-made: {say}");
        let partition = &known.partitions[0];
        let stops = matches!(partition.state.as_str(), "STOPPING" | "STOPPED");
        assert!(stops || matches!(partition.state.as_str(), "PREPARING" | "MIRRORING" | "EPOCH_FENCING"), "{say}");
        assert!(last.is_none_or(|flows| flows != stops), "{topic}: {say}");
        let desired = assigned.topics.iter().find(|known| known.name == *topic).map(|t| t.partitions[0].desired);
        assert_eq!(desired, Some(if stops { 2 } else { 0 }), "{topic} is assigned otherwise: {say}");
        if let Some(offset) = told.ended.get(topic) {
            assert_eq!(partition.last_mirror_offset, *offset, "{topic}: {say}");
        }
        flows.insert(*topic, Some(!stops));
    }
    assert!(found.topics.iter().all(|known| flows.contains_key(known.topic_name.as_str())), "from nowhere: {say}");
    told.flows = flows;
    told.ended.retain(|topic, _| told.flows.contains_key(topic));
    // A stop goes on by itself.
    wait_for("every stop to end", || {
        let found = described(control, mirror)?;
        found.topics.iter().flat_map(|topic| &topic.partitions).all(|p| p.state != "STOPPING").then_some(())
    });
}
