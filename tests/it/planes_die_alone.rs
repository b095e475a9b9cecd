//! A pass proves: records flow without the control plane, also through a restart of the data plane; the control plane answers without
//! the data plane; and `up` starts a plane again without touching the other.

use serde_json::{Value, json};
use std::time::Duration;
use twinlog_tests::copy;
use twinlog_tests::house::{CONTROL_PLANE, DATA_PLANE, House, Plane, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::kafka_log::Log;
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::{runs, until};

const LIMIT: Duration = Duration::from_secs(40);

/// A stock source with one topic, and its helper.
struct Source {
    broker: Broker,
    oracle: Oracle,
    boot: String,
    produced: i64,
}

impl Source {
    fn start(dir: &std::path::Path) -> Self {
        let broker = Broker::start(Spec::new(dir));
        let boot = broker.address();
        let mut oracle = Oracle::start();
        oracle.create(&boot, "orders", 1, &json!({}));
        Self { broker, oracle, boot, produced: 0 }
    }

    /// Produces some more; gives the end offset.
    fn more(&mut self) -> i64 {
        self.oracle.produce(&self.boot, "orders", json!({"count": 500, "perBatch": 10}));
        self.produced += 500;
        self.produced
    }

    fn check(&mut self, site: &Site) {
        let extents = copy::extents(&mut self.oracle, &self.boot, &["orders"]);
        copy::same_bytes(&self.broker, &site.data(), &extents).expect("the same bytes");
    }
}

fn serves(site: &Site) {
    until("the control plane serves", LIMIT, || {
        let ran = site.cli(&["status"]);
        if ran.code == 0 { Ok(()) } else { Err(ran.stderr) }
    });
}

/// Waits until the partition's own files reach `end`: nobody is asked.
fn on_disk(site: &Site, end: i64) {
    until("the records arrive", LIMIT, || match Log::read(&site.data().join("orders-0")) {
        Ok(log) if log.end() >= end => Ok(()),
        Ok(log) => Err(format!("{} of {end}", log.end())),
        Err(why) => Err(why),
    });
}

#[test]
fn records_flow_without_the_control_plane_also_after_a_restart_of_the_data_plane() {
    let _turn = place::turn();
    let scratch = place::scratch("alone");
    let mut source = Source::start(&scratch.path().join("source"));
    let site = Site::new(scratch.path().join("site"));
    let (data, control) = (Plane::data(&site), Plane::control(&site));
    serves(&site);
    source.more();
    site.mirror("dr", &source.boot, &["orders"]);
    let end = source.more();
    site.caught_up("dr", &[("orders".to_owned(), 0, end)], LIMIT);

    control.kill();
    let end = source.more();
    on_disk(&site, end);
    data.kill();
    let data = Plane::data(&site);
    let end = source.more();
    on_disk(&site, end);

    let control = Plane::control(&site);
    serves(&site);
    let end = source.more();
    site.caught_up("dr", &[("orders".to_owned(), 0, end)], LIMIT);
    data.stop();

    let row = until("the offsets become unknown", LIMIT, || {
        let row = site.partition("dr", "orders", 0)?;
        if row["destinationOffset"] == Value::Null { Ok(row) } else { Err(row.to_string()) }
    });
    assert_eq!(row["state"], "MIRRORING", "{row}");
    assert!(site.http("/health").starts_with("HTTP/1.1 503"), "{}", site.http("/health"));
    control.stop();
    source.check(&site);
}

#[test]
fn up_starts_a_dead_plane_again_and_leaves_the_other_alone() {
    let _turn = place::turn();
    let scratch = place::scratch("revive");
    let mut source = Source::start(&scratch.path().join("source"));
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    source.more();
    site.mirror("dr", &source.boot, &["orders"]);
    for (name, other) in [(CONTROL_PLANE, DATA_PLANE), (DATA_PLANE, CONTROL_PLANE)] {
        let untouched = house.plane(other);
        let gone = house.kill_plane(name);
        house.revived(name, gone);
        assert_eq!(house.plane(other), untouched, "{other} goes on");
        serves(&site);
        let end = source.more();
        site.caught_up("dr", &[("orders".to_owned(), 0, end)], LIMIT);
    }
    let planes = [house.plane(CONTROL_PLANE), house.plane(DATA_PLANE)];
    house.kill();
    until("the planes end with up", Duration::from_secs(2), || {
        let left: Vec<_> = planes.iter().filter(|p| runs(**p)).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?} still run")) }
    });
    let again = House::up(&site);
    let end = source.more();
    site.caught_up("dr", &[("orders".to_owned(), 0, end)], LIMIT);
    again.down();
    source.check(&site);
}
