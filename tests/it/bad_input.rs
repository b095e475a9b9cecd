//! A pass proves: what people and hosts get wrong ends in one clear line with the remedy and exit code 1 (2 for usage), and leaves
//! nothing half-made behind.

use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use twinlog_tests::command::{Ran, twinlog};
use twinlog_tests::house::{CONTROL_PLANE, DATA_PLANE, House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;

fn up(site: &Site, extra: &[&str]) -> Ran {
    let own = site.up_arguments();
    let mut all: Vec<&str> = own.iter().map(String::as_str).collect();
    all.extend(extra);
    twinlog(&all)
}

/// The line names what matters and says what to do about it.
fn clear(line: &str, names: &[&str]) {
    for name in names {
        assert!(line.contains(name), "{line:?} does not name {name:?}");
    }
    assert!(line.contains(';') || line.contains('('), "{line:?} has no remedy");
}

#[test]
fn a_mirror_of_a_bad_source_is_refused() {
    let _turn = place::turn();
    let scratch = place::scratch("bad-source");
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);

    let [closed] = place::free_ports();
    let closed = format!("127.0.0.1:{closed}");
    let line = site.cli(&["mirrors", "create", "dr", "--source", &closed]).refused();
    clear(&line, &[&closed]);

    let web = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = web.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for mut stream in web.incoming().flatten() {
            let mut asked = [0; 16];
            stream.read_exact(&mut asked).ok();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").ok();
        }
    });
    let line = site.cli(&["mirrors", "create", "dr", "--source", &address]).refused();
    clear(&line, &[&address]);

    assert_eq!(site.ask(&["mirrors", "list"]), json!([]), "nothing half-made");
    let line = site.cli(&["topics", "start", "nobody", "--topic", "orders"]).refused();
    clear(&line, &["nobody", "twinlog mirrors"]);
    let line = site.cli(&["mirrors", "describe", "nobody"]).refused();
    clear(&line, &["nobody"]);
    house.down();
}

#[test]
fn a_topic_that_the_source_does_not_have_is_refused_and_not_recorded() {
    let _turn = place::turn();
    let scratch = place::scratch("bad-topic");
    let source = Broker::start(Spec::new(scratch.path().join("source")));
    Oracle::start().create(&source.address(), "orders", 1, &json!({}));
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    site.cli(&["mirrors", "create", "dr", "--source", &source.address()]).done();
    let line = site.cli(&["topics", "start", "dr", "--topic", "odrers"]).refused();
    clear(&line, &["odrers"]);
    let described = site.ask(&["mirrors", "describe", "dr"]);
    assert_eq!(described[0]["topics"], json!([]), "{described}");
    assert!(folders(&site.data()).is_empty(), "{:?}", folders(&site.data()));

    let line = site.cli(&["mirrors", "create", "dr", "--source", &source.address()]).refused();
    clear(&line, &["dr"]);
    house.down();
}

#[test]
fn a_busy_port_an_unusable_folder_and_an_unknown_key_stop_the_start() {
    let _turn = place::turn();
    let scratch = place::scratch("bad-start");
    let site = Site::new(scratch.path().join("busy"));
    let held = TcpListener::bind(&site.listen).expect("the port");
    let line = up(&site, &[]).refused();
    clear(&line, &[&site.listen]);
    drop(held);
    let held = TcpListener::bind(&site.metrics).expect("the port");
    let line = up(&site, &[]).refused();
    clear(&line, &[&site.metrics]);
    drop(held);

    let file = scratch.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let site = Site::new(scratch.path().join("under-a-file"));
    std::os::unix::fs::symlink(&file, site.data()).expect("a link");
    let line = up(&site, &[]).refused();
    clear(&line, &[site.data().to_str().expect("UTF-8")]);

    let config = scratch.path().join("twinlog.toml");
    std::fs::write(&config, "[dataplane]\nflush_intervall_ms = 5\n").expect("a config");
    let line = up(&Site::new(scratch.path().join("config")), &["--config", config.to_str().expect("UTF-8")]).refused();
    clear(&line, &["flush_intervall_ms", "twinlog.toml"]);

    assert_eq!(twinlog(&["mirrors", "creat"]).code, 2);
    assert_eq!(twinlog(&["topics", "start"]).code, 2);
    let nobody = place::free_ports::<1>()[0];
    let line = twinlog(&["status", "--bootstrap-server", &format!("127.0.0.1:{nobody}")]).refused();
    clear(&line, &[&nobody.to_string()]);
}

#[test]
fn a_second_instance_on_the_same_folder_is_refused_and_the_first_goes_on() {
    let _turn = place::turn();
    let scratch = place::scratch("second");
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    let other = Site { dir: site.dir.clone(), ..Site::new(scratch.path().join("other")) };
    let line = up(&other, &[]).refused();
    clear(&line, &[site.dir.to_str().expect("UTF-8")]);
    assert_eq!(site.cli(&["status"]).code, 0);
    house.down();
}

#[test]
fn an_unwritable_folder_is_refused() {
    let _turn = place::turn();
    // A user without powers may not even reach the repository: the programs go where everyone may.
    let open = tempfile::tempdir().expect("a temporary folder");
    mode(open.path(), 0o755);
    for name in ["twinlog", DATA_PLANE, CONTROL_PLANE] {
        std::fs::copy(place::binary(name), open.path().join(name)).expect("a program copied");
    }
    let site = Site::new(open.path().join("site"));
    for dir in [site.data(), site.state()] {
        std::fs::create_dir_all(&dir).expect("a folder");
        mode(&dir, 0o555);
    }
    let line = unprivileged(&open.path().join("twinlog"), &site.up_arguments()).refused();
    clear(&line, &["ermission"]);
    assert!(folders(&site.data()).is_empty());
    for dir in [site.data(), site.state()] {
        mode(&dir, 0o755); // so that it can be removed
    }
}

fn mode(path: &Path, bits: u32) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(bits)).expect("permissions set");
}

/// Runs a program without the powers of root, who may write anywhere.
fn unprivileged(program: &Path, arguments: &[String]) -> Ran {
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]);
    }
    let out = command.arg("--").arg(program).args(arguments).output().expect("setpriv starts");
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    Ran { code: out.status.code().unwrap_or(-1), stdout: text(&out.stdout), stderr: text(&out.stderr) }
}

/// Names in a folder that are partition folders or unknown; empty when the folder is not there.
fn folders(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten().filter(|e| e.path().is_dir());
    names.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}
