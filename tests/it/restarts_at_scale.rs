//! A pass proves: what is wanted of 1,000 partitions and what they are doing stay apart, and both planes may be killed while all of
//! them start, pause, go on or stop: whichever comes back finds its orders, and every partition ends where it was wanted, with a last
//! mirrored offset that is where its files end.

use serde_json::Value;
use std::thread::sleep;
use std::time::Duration;
use twinlog_tests::embedded::Embedded;
use twinlog_tests::house::{Plane, Site};
use twinlog_tests::kafka_log::Log;
use twinlog_tests::place;
use twinlog_tests::process::until;

const LIMIT: Duration = Duration::from_secs(120);
const TOPICS: u32 = 100;
const PARTITIONS: u32 = 10;

struct Planes {
    site: Site,
    data: Option<Plane>,
    control: Option<Plane>,
}

impl Planes {
    fn control_dies(&mut self) {
        self.control.take().into_iter().for_each(Plane::kill);
        self.control = Some(Plane::control(&self.site));
    }

    fn data_dies(&mut self) {
        self.data.take().into_iter().for_each(Plane::kill);
        self.data = Some(Plane::data(&self.site));
    }

    /// Asks until it is answered, as a person would after a restart.
    fn tell(&self, words: &[&str]) {
        until(&format!("{words:?} is answered"), LIMIT, || {
            let ran = self.site.cli(words);
            if ran.code == 0 { Ok(()) } else { Err(ran.stderr) }
        });
    }

    fn partitions(&self) -> Result<Vec<(String, Value)>, String> {
        let ran = self.site.cli(&["mirrors", "describe", "dr", "--json"]);
        if ran.code != 0 {
            return Err(ran.stderr);
        }
        let described = ran.json();
        let topics = described[0]["topics"].as_array().cloned().unwrap_or_default();
        let rows = topics.iter().flat_map(|topic| {
            let name = topic["topic"].as_str().unwrap_or_default().to_owned();
            let rows = topic["partitions"].as_array().cloned().unwrap_or_default();
            rows.into_iter().map(move |row| (format!("{name}-{}", row["partition"]), row))
        });
        Ok(rows.collect())
    }

    fn reach(&self, state: &str) {
        until(&format!("all partitions become {state}"), LIMIT, || {
            let rows = self.partitions()?;
            let there = rows.iter().filter(|(_, row)| row["state"] == state).count();
            let other = rows.iter().find(|(_, row)| row["state"] != state);
            let all = (TOPICS * PARTITIONS) as usize;
            if there == all { Ok(()) } else { Err(format!("{there} of {}, one is {other:?}", rows.len())) }
        });
    }
}

#[test]
fn a_thousand_partitions_end_where_they_were_wanted_although_both_planes_die_on_the_way() {
    let _turn = place::turn();
    let scratch = place::scratch("restarts");
    let source = Embedded::start(TOPICS, PARTITIONS, "4MiB", "400KB");
    let site = Site::new(scratch.path().join("site"));
    let (data, control) = (Some(Plane::data(&site)), Some(Plane::control(&site)));
    let mut planes = Planes { site, data, control };
    planes.tell(&["mirrors", "create", "dr", "--source", &source.address]);
    planes.tell(&["topics", "start", "dr", "--include", "bench-.*"]);
    sleep(Duration::from_millis(50));
    planes.data_dies();
    sleep(Duration::from_millis(100));
    planes.control_dies();
    planes.reach("MIRRORING");

    for (verb, state) in [("pause", "PAUSED"), ("resume", "MIRRORING"), ("stop", "STOPPED")] {
        planes.tell(&["topics", verb, "dr", "--include", "bench-.*"]);
        planes.control_dies();
        sleep(Duration::from_millis(30));
        planes.data_dies();
        planes.reach(state);
    }
    let stopped = planes.partitions().expect("described");
    planes.control_dies();
    planes.reach("STOPPED");
    let again = planes.partitions().expect("described");
    for ((name, before), (_, after)) in stopped.iter().zip(&again) {
        assert_eq!(before["lastMirroredOffset"], after["lastMirroredOffset"], "{name} moved");
        let end = Log::read(&planes.site.data().join(name)).expect("the mirrored files").end();
        assert_eq!(after["lastMirroredOffset"], end, "{name} ends elsewhere: {after}");
    }
    planes.control.take().into_iter().for_each(Plane::stop);
    planes.data.take().into_iter().for_each(Plane::stop);
}
