//! A pass proves: what an operator sees is true. Lag is 0 on an idle topic and counts no open transaction, grows while a topic is paused,
//! is unknown without the data plane; a catch-up shows how far it is and when it ends; the metrics keep their rules and have everything
//! that the alert rules and the dashboard ask for; the live view gives the terminal back.

use serde_json::{Value, json};
use std::time::Duration;
use twinlog_tests::house::{Plane, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::until;
use twinlog_tests::prometheus::{Page, documents, selectors};
use twinlog_tests::terminal::Watched;

const LIMIT: Duration = Duration::from_secs(30);

fn metrics(site: &Site) -> Page {
    let answer = site.http("/metrics");
    let (_, text) = answer.split_once("\r\n\r\n").expect("a body");
    Page::parse(text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

fn row(site: &Site, topic: &str) -> Value {
    site.partition("dr", topic, 0).expect("described")
}

fn number(row: &Value, key: &str) -> i64 {
    row[key].as_i64().unwrap_or_else(|| panic!("{key} is unknown: {row}"))
}

#[test]
fn what_an_operator_sees_is_true() {
    let _turn = place::turn();
    let scratch = place::scratch("operating");
    let source = Broker::start(Spec::new(scratch.path().join("source")));
    let boot = source.address();
    let mut oracle = Oracle::start();
    for topic in ["idle", "paused", "txn", "bulk"] {
        oracle.create(&boot, topic, 1, &json!({}));
    }
    oracle.produce(&boot, "idle", json!({"count": 100, "perBatch": 10}));
    oracle.produce(&boot, "bulk", json!({"count": BULK, "perBatch": 10}));
    let site = Site::new(scratch.path().join("site"));
    let (data, control) = (Plane::data(&site), Plane::control(&site));
    until("the control plane serves", LIMIT, || match site.cli(&["status"]) {
        ran if ran.code == 0 => Ok(()),
        ran => Err(ran.stderr),
    });
    // Each answer of the source has one batch, and the source waits with it for more than it may give: ten batches in a second.
    let slow = ["mirror.fetch.max.bytes=1024", "mirror.fetch.min.bytes=1000000", "mirror.fetch.wait.max.ms=100"];
    site.mirror_with("dr", &boot, &["idle", "paused", "txn"], &slow);
    site.caught_up("dr", &[("idle".to_owned(), 0, 100)], LIMIT);

    open_transaction(&site, &mut oracle, &boot);
    paused_grows(&site);
    catch_up(&site);
    documents_agree(&metrics(&site));
    live_view(&site);

    data.kill();
    let lost = until("lag becomes unknown", LIMIT, || match row(&site, "idle") {
        row if row["lagMs"].is_null() => Ok(row),
        row => Err(row.to_string()),
    });
    assert!(lost["lagRecords"].is_null() && lost["destinationOffset"].is_null(), "{lost}");
    let status = site.cli(&["status"]).done();
    assert!(status.starts_with("WRONG: the data plane is not there"), "{status}");
    let page = metrics(&site);
    assert_eq!(page.value("twinlog_data_plane_up", &[]), Some(0.0));
    assert_eq!(page.value("twinlog_mirror_lag_seconds_max", &[("mirror", "dr")]), None, "unknown has no sample");
    assert_eq!(page.value("twinlog_mirror_lag_unknown_partitions", &[("mirror", "dr")]), Some(4.0));
    for (path, code) in [("/live", "200"), ("/ready", "503"), ("/health?format=json", "503")] {
        assert!(site.http(path).starts_with(&format!("HTTP/1.1 {code}")), "{path}: {}", site.http(path));
    }
    assert!(site.http("/health?format=json").contains("\"ready\":false"));
    control.stop();
}

/// Records of the topic that takes a while.
const BULK: i64 = 3_000;

fn open_transaction(site: &Site, oracle: &mut Oracle, boot: &str) {
    oracle.produce(boot, "txn", json!({"count": 100, "perBatch": 10, "txn": "open", "end": "open"}));
    let seen = until("the open transaction is mirrored", LIMIT, || match row(site, "txn") {
        row if row["destinationOffset"] == 100 && row["lsoLagRecords"] == 100 => Ok(row),
        row => Err(row.to_string()),
    });
    assert_eq!((number(&seen, "lagRecords"), number(&seen, "lagMs")), (0, 0), "{seen}");
    let idle = row(site, "idle");
    assert_eq!((number(&idle, "lagRecords"), number(&idle, "lagMs"), number(&idle, "lsoLagRecords")), (0, 0, 0));
}

fn paused_grows(site: &Site) {
    site.cli(&["topics", "pause", "dr", "--topic", "paused", "--wait"]).done();
    let before = number(&row(site, "paused"), "lagMs");
    std::thread::sleep(Duration::from_millis(1_500));
    let after = number(&row(site, "paused"), "lagMs");
    assert!(after >= before + 1_400, "{before} ms, then {after} ms");
    site.cli(&["topics", "resume", "dr", "--topic", "paused", "--wait"]).done();
    until("the pause is made up for", LIMIT, || match row(site, "paused") {
        row if row["lagMs"] == 0 => Ok(()),
        row => Err(row.to_string()),
    });
}

fn catch_up(site: &Site) {
    site.cli(&["topics", "start", "dr", "--topic", "bulk", "--wait"]).done();
    let seen = until("the catch-up is measured", LIMIT, || match row(site, "bulk") {
        row if row["catchingUp"] == true => Ok(row),
        row => Err(row.to_string()),
    });
    let percent = seen["catchUpPercent"].as_f64().expect("a share");
    assert!(percent > 0.0 && percent < 100.0 && number(&seen, "etaMs") > 0, "{seen}");
    assert!(number(&seen, "lagMs") >= 5_000 && number(&seen, "bytesPerSecond") > 0, "{seen}");
    let text = site.cli(&["mirrors", "describe", "dr"]).done();
    assert!(text.contains("to go"), "{text}");
    let status = site.ask(&["status"]);
    assert_eq!(status["mirrors"][0]["catchingUp"], true, "{status}");
    let planes: Vec<_> = status["node"]["planes"].as_array().expect("planes").iter().map(|p| &p["plane"]).collect();
    assert_eq!(planes, ["control", "data"], "{status}");
}

/// Whatever the documents ask for is on the page, with its labels.
fn documents_agree(page: &Page) {
    let all = [documents::alerts().expect("alerts"), documents::dashboard().expect("a dashboard")].concat();
    assert!(page.series() < 1_500, "{} series by default", page.series());
    for expression in all {
        let (found, _) = selectors(&expression.text).unwrap_or_else(|why| panic!("{}: {why}", expression.place));
        for selector in found {
            let family = page.family_of(&selector.name);
            let family = family.unwrap_or_else(|| panic!("{}: there is no {}", expression.place, selector.name));
            for label in &selector.labels {
                let has = family.samples.first().is_none_or(|(_, labels, _)| labels.contains_key(label));
                assert!(has, "{}: {} has no label {label}", expression.place, selector.name);
            }
        }
    }
}

fn live_view(site: &Site) {
    for ending in [Some(b'q'), None] {
        let mut view =
            Watched::start(&["status", "--watch", "--interval", "200ms", "--bootstrap-server", &site.listen]);
        view.reads("q ends");
        assert!(view.seen().starts_with("\u{1b}[?1049h"), "another screen first: {:?}", view.seen());
        assert!(view.seen().contains("data plane: pid"), "{:?}", view.seen());
        view.resize(8, 30);
        view.reads("more lines");
        match ending {
            Some(key) => view.press(key),
            None => view.terminate(),
        }
        let (code, echoes) = view.ends();
        assert_eq!((code, echoes), (Some(0), true), "the terminal is as it was");
        assert!(view.seen().ends_with("\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l"), "{:?}", view.seen());
    }
}
