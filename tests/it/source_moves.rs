//! A pass proves: `mirrors alter --set bootstrap.servers=...` moves a mirror to another broker of the same cluster without a restart, and
//! nobody else's connections. Another cluster is refused by its id; one that appears there later fails the mirror with both ids and writes
//! nothing, and the way back is a correction and a start. A source that takes connections and never answers holds up its own sync for a
//! bounded time, and no other request.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use twinlog_tests::copy;
use twinlog_tests::house::{CONTROL_PLANE, DATA_PLANE, House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::until;

const LIMIT: Duration = Duration::from_secs(40);
const OTHER_CLUSTER: &str = "dHdpbmxvZy1kZXN0aW5hdDE";
/// How long a request may take that has nothing to do with a silent source.
const PROMPT: Duration = Duration::from_secs(5);

/// Whatever comes to `listener` is led to `target`, until the test ends.
fn lead(listener: TcpListener, target: String) {
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(broker) = TcpStream::connect(&target) else { continue };
            let pairs = [(&client, &broker), (&broker, &client)];
            for (from, to) in pairs.map(|(from, to)| (from.try_clone(), to.try_clone())) {
                let (Ok(mut from), Ok(mut to)) = (from, to) else { continue };
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        }
    });
}

/// Local ports of a process's connections to `port`.
fn connections(pid: u32, port: u16) -> BTreeSet<u16> {
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).expect("the table of connections");
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the descriptors of the process");
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let own: BTreeSet<String> = links.map(|link| link.display().to_string()).collect();
    let one = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
        let ours = own.contains(&format!("socket:[{}]", words.get(9)?));
        (number(words[2])? == port && words[3] == "01" && ours).then(|| number(words[1])).flatten()
    };
    table.lines().skip(1).filter_map(one).collect()
}

fn alter(site: &Site, servers: &str) -> twinlog_tests::command::Ran {
    site.cli(&["mirrors", "alter", "dr", "--set", &format!("bootstrap.servers={servers}")])
}

struct Scene {
    first: Broker,
    second: Broker,
    other: Broker,
    oracle: Oracle,
    site: Site,
    sent: i64,
    _scratch: tempfile::TempDir,
}

/// A cluster of two brokers with topic `orders` as mirror `dr`, another cluster with topics `orders` and `still`, of which mirror `still`
/// has the second.
fn scene() -> (Scene, House) {
    let scratch = place::scratch("moves");
    let first = Broker::start(Spec::new(scratch.path().join("one")));
    let second = Broker::start(Spec::new(scratch.path().join("two")).joining(&first, 2));
    let other = Broker::start(Spec::new(scratch.path().join("other")).cluster_id(OTHER_CLUSTER));
    let mut oracle = Oracle::start();
    let (boot, there) = (first.address(), other.address());
    let replicas = json!({"0": [1, 2], "1": [2, 1]});
    oracle.ask(&json!({"do": "create", "boot": boot, "topic": "orders", "replicas": replicas, "config": {"min.insync.replicas": "1"}}));
    for topic in ["orders", "still"] {
        oracle.create(&there, topic, 2, &json!({}));
        oracle.produce(&there, topic, json!({"partitions": 2, "count": 2000, "perBatch": 10}));
    }
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    site.mirror("dr", &boot, &["orders"]);
    site.mirror("still", &there, &["still"]);
    let mut scene = Scene { first, second, other, oracle, site, sent: 0, _scratch: scratch };
    scene.flows();
    scene.site.caught_up("still", &[("still".to_owned(), 0, 1000), ("still".to_owned(), 1, 1000)], LIMIT);
    (scene, house)
}

impl Scene {
    /// More records, and they arrive.
    fn flows(&mut self) {
        self.oracle.produce(&self.first.address(), "orders", json!({"partitions": 2, "count": 200, "perBatch": 10}));
        self.sent += 100;
        self.site.caught_up("dr", &[("orders".to_owned(), 0, self.sent), ("orders".to_owned(), 1, self.sent)], LIMIT);
    }
}

#[test]
fn other_servers_of_the_same_cluster_are_taken_at_once_and_another_cluster_never() {
    let _turn = place::turn();
    let (mut scene, house) = scene();
    let site = scene.site.clone();
    let (data, control) = (house.plane(DATA_PLANE), house.plane(CONTROL_PLANE));
    let stays = connections(data, scene.other.port());
    let before = connections(data, scene.first.port());
    assert!(!stays.is_empty() && !before.is_empty(), "{stays:?} {before:?}");

    alter(&site, &scene.second.address()).done();
    until("the connections are made anew", LIMIT, || match connections(data, scene.first.port()) {
        now if !now.is_empty() && now.is_disjoint(&before) => Ok(()),
        now => Err(format!("{before:?} {now:?}")),
    });
    scene.flows();
    assert_eq!(connections(data, scene.other.port()), stays, "another mirror's connections");
    assert_eq!((house.plane(DATA_PLANE), house.plane(CONTROL_PLANE)), (data, control), "nothing was restarted");

    let refused = alter(&site, &scene.other.address()).refused();
    assert!(refused.contains(OTHER_CLUSTER) && refused.contains(&scene.first.cluster_id()), "both ids: {refused}");
    scene.flows();
    another_cluster_appears(&scene, &house);
    alter(&site, &scene.first.address()).done();
    site.cli(&["topics", "start", "dr", "--topic", "orders", "--wait"]).done();
    scene.flows();
    a_silent_source_holds_nobody_up(&scene);
    assert_eq!(connections(data, scene.other.port()), stays, "another mirror's connections");

    house.down();
    let extents = copy::extents(&mut scene.oracle, &scene.first.address(), &["orders"]);
    copy::same_bytes(&scene.first, &site.data(), &extents).expect("the same bytes");
}

/// Servers that nobody answers at are taken, for the source may be down; who answers there later is looked at.
fn another_cluster_appears(scene: &Scene, house: &House) {
    let [port] = place::free_ports();
    let address = format!("127.0.0.1:{port}");
    alter(&scene.site, &address).done();
    lead(TcpListener::bind(&address).expect("a free port"), scene.other.address());
    for partition in 0..2 {
        let row = until("the mirror fails", LIMIT, || match scene.site.partition("dr", "orders", partition)? {
            row if row["state"] == "FAILED" => Ok(row),
            row => Err(row.to_string()),
        });
        let why = row["errorMessage"].as_str().unwrap_or_default();
        assert!(why.starts_with("cluster"), "{row}");
        assert_eq!(row["destinationOffset"], scene.sent, "nothing of the other cluster is written: {row}");
    }
    let (log, ours) = (house.log(), scene.first.cluster_id());
    let told = log.lines().any(|line| line.contains("failed") && line.contains(OTHER_CLUSTER) && line.contains(&ours));
    assert!(told, "both ids: {log}");
}

fn a_silent_source_holds_nobody_up(scene: &Scene) {
    let [port] = place::free_ports();
    let address = format!("127.0.0.1:{port}");
    alter(&scene.site, &address).done();
    let silent = TcpListener::bind(&address).expect("a free port");
    std::thread::spawn(move || silent.incoming().flatten().collect::<Vec<_>>());
    let site = scene.site.clone();
    let began = Instant::now();
    let sync = std::thread::spawn(move || site.cli(&["mirrors", "sync", "dr", "--what", "configs"]));
    while !sync.is_finished() {
        let asked = Instant::now();
        let known: Value = scene.site.ask(&["mirrors", "list"]);
        assert!(asked.elapsed() < PROMPT, "{:?} for {known}", asked.elapsed());
    }
    let ran = sync.join().expect("the command ended");
    assert!(ran.code == 1 && ran.stderr.contains(&address), "{ran:?}");
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
}
