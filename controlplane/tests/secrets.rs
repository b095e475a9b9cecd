//! A pass proves: the value of a secret setting stands in the state log and the assignment, which only their owner may read, and
//! nowhere else: no answer, no page, no dump, no line of the log however much of it is asked for.

mod kit;

use kit::ControlPlane;
use kit::source::Source;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use twinlog_proto::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};

const SECRET: &str = "hunter2-and-more";

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else if entry.file_type().unwrap().is_file() {
            found.push(entry.path());
        }
    }
    found
}

fn said_by(arguments: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_twinlog")).args(arguments).output().unwrap();
    [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
}

#[test]
fn a_secret_is_in_private_files_and_in_nothing_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("a1", 1)]);
    let log = folder.path().join("control.log");
    let control = ControlPlane::start_by(
        ControlPlane::command(folder.path()).env("TWINLOG_LOG", "trace").stderr(File::create(&log).unwrap()),
    );
    let settings = [("bootstrap.servers", source.address.as_str()), ("ssl.key.password", SECRET)];
    assert_eq!(control.create_with("dr", &settings).error_code, 0);
    assert_eq!(control.start_topics("dr", &["a1"]).topics[0].error_code, 0);

    let mut said = String::new();
    let listen = control.listen.clone();
    for (arguments, tells) in [
        (vec!["mirrors", "alter", "dr", "--set", "ssl.keystore.password=hunter2-and-more-of-it"], "altered"),
        (vec!["mirrors", "alter", "dr", "--set", "sasl.jaas.confi=hunter2-and-more"], "sasl.jaas.config"),
        (vec!["mirrors", "create", "dr", "--source", "h:1", "--set", "ssl.key.password=hunter2-and-more"], "dr"),
        (vec!["mirrors", "list"], "dr"),
        (vec!["mirrors", "describe"], "a1"),
        (vec!["mirrors", "describe", "--json"], "a1"),
        (vec!["status"], "dr"),
    ] {
        let mut arguments = arguments;
        arguments.extend(["--bootstrap-server", &listen]);
        let text = said_by(&arguments);
        assert!(text.contains(tells), "{arguments:?}: {text}");
        said.push_str(&text);
    }
    let resource =
        DescribeConfigsResource { resource_type: 64, resource_name: "dr".to_owned(), configuration_keys: None };
    let answer = control.ask(&DescribeConfigsRequest { resources: vec![resource], ..Default::default() });
    let config = answer.results[0].configs.iter().find(|config| config.name == "ssl.key.password").unwrap();
    assert!(config.value.is_none() && config.is_sensitive, "{config:?}");
    said.push_str(&format!("{answer:?}"));
    for page in ["/metrics", "/health"] {
        let mut stream = TcpStream::connect(&control.metrics).unwrap();
        write!(stream, "GET {page} HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
        stream.read_to_string(&mut said).unwrap();
    }
    // A copy that was put back with more rights than it should have.
    control.terminate();
    let state = folder.path().join("state");
    for file in files(&state) {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let control = ControlPlane::start(folder.path());
    let mut holders = 0;
    for file in files(&state) {
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
        let holds = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).contains(SECRET);
        if holds {
            holders += 1;
            let dump =
                said_by(&["dump", file.to_str().unwrap()]) + &said_by(&["dump", "--json", file.to_str().unwrap()]);
            assert!(dump.contains("ssl.key.password") && dump.contains("[hidden]"), "{}: {dump}", file.display());
            said.push_str(&dump);
        }
    }
    assert_eq!(holders, 2, "the state log and the assignment");
    drop(control);
    said.push_str(&std::fs::read_to_string(&log).unwrap());
    assert!(said.contains("a1"), "the log says something");
    assert!(!said.contains("hunter2"), "{said}");
}
