//! What is found in directories that Kafka formatted, and how each that cannot be used is told.

use super::*;
use crate::handover::node::Quorum;
use std::sync::Arc;

/// A node with one log directory, which holds what a release's format tool left.
pub(in crate::handover) struct Place {
    folder: Arc<tempfile::TempDir>,
    pub(in crate::handover) node: Node,
}

impl Place {
    /// `golden` is as `4.4/static`; none for an empty directory.
    pub(in crate::handover) fn new(golden: Option<&str>, more: &str) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let data = folder.path().join("data");
        let quorum = match golden.is_some_and(|name| name.ends_with("standalone")) {
            true => "controller.quorum.bootstrap.servers=127.0.0.1:9093",
            false => "controller.quorum.voters=1@127.0.0.1:9093",
        };
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\n{quorum}\ncontroller.listener.names=CONTROLLER\n\
             listeners=PLAINTEXT://:9092,CONTROLLER://:9093\nlog.dirs={}\n{more}",
            data.display()
        );
        let node = Node::parse(Path::new("server.properties"), text.as_bytes()).unwrap();
        let place = Self { folder, node };
        if let Some(name) = golden {
            place.put(name);
        }
        place
    }

    pub(in crate::handover) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("data").join(name)
    }

    /// Copies what a format tool left.
    fn put(&self, name: &str) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/golden/kraft").join(name);
        fs::create_dir_all(self.path(METADATA_LOG)).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
            let name = entry.file_name().into_string().unwrap();
            let to = if name == FIRST_SNAPSHOT { self.path(METADATA_LOG).join(name) } else { self.path(&name) };
            fs::copy(entry.path(), to).unwrap();
        }
    }

    pub(in crate::handover) fn look(&self) -> Layout {
        Layout::look(&self.node, &Asked::default())
    }
}

fn said(layout: &Layout) -> String {
    layout.problems.iter().map(|problem| format!("{problem}\n")).collect()
}

#[test]
fn what_the_tools_formatted_is_known_by_release_file_and_quorum() {
    for (release, level) in [("4.0", 25), ("4.1", 27), ("4.2", 29), ("4.3", 30), ("4.4", 33)] {
        for (quorum, expected) in [("static", Quorum::Static), ("standalone", Quorum::Dynamic)] {
            let place = Place::new(Some(&format!("{release}/{quorum}")), "");
            let layout = place.look();
            assert_eq!((said(&layout).as_str(), place.node.quorum), ("", expected), "{release} {quorum}");
            assert!(layout.is_formatted() && layout.directory_id(&place.path("")).is_some());
            assert_eq!(layout.cluster_id.as_deref(), Some("dHdpbmxvZy1zb3VyY2UtMQ"));
            let bootstrap = layout.bootstrap.unwrap();
            let file = match release {
                "4.4" => place.path(METADATA_LOG).join(FIRST_SNAPSHOT),
                _ => place.path(BOOTSTRAP_CHECKPOINT),
            };
            assert_eq!((bootstrap.file, bootstrap.level, bootstrap.added), (file, level, 0), "{release} {quorum}");
            assert_eq!(bootstrap.release.to_string(), release);
            let levels = bootstrap.release.levels();
            assert_eq!(bootstrap.formatted.unwrap().len(), levels.len(), "{release} {quorum}");
        }
    }
}

#[test]
fn the_levels_of_a_release_are_those_of_its_tool() {
    use twinlog_proto::storage::kraft::records::MetadataRecord;
    for name in ["4.0", "4.1", "4.2", "4.3", "4.4"] {
        let formatted = Place::new(Some(&format!("{name}/static")), "").look().bootstrap.unwrap().formatted.unwrap();
        let of_tool: Vec<_> = formatted.values().map(|value| MetadataRecord::decode(value).unwrap()).collect();
        let release: Release = name.parse().unwrap();
        for (record, (feature, level)) in of_tool.iter().zip(release.levels()) {
            let MetadataRecord::FeatureLevel(found) = record else { panic!("{record:?}") };
            assert_eq!((found.name.as_str(), found.feature_level), (*feature, *level), "{name}");
        }
    }
}

#[test]
fn an_empty_directory_is_no_problem_for_a_static_quorum_and_one_for_a_dynamic_one() {
    let place = Place::new(None, "");
    let layout = place.look();
    assert_eq!((said(&layout).as_str(), layout.is_formatted(), layout.cluster_id.as_deref()), ("", false, None));
    let bootstrap = layout.bootstrap.unwrap();
    assert_eq!((bootstrap.file, bootstrap.release), (place.path(BOOTSTRAP_CHECKPOINT), Release::V4_0));
    let asked = Asked { release: Some(Release::V4_2), cluster_id: None };
    assert_eq!(Layout::look(&place.node, &asked).bootstrap.unwrap().level, 29);
    let mut dynamic = place.node.clone();
    dynamic.quorum = Quorum::Dynamic;
    let layout = Layout::look(&dynamic, &Asked::default());
    assert!(said(&layout).contains("no voters") && said(&layout).contains("--standalone"), "{layout:?}");
}

#[test]
fn a_directory_that_does_not_fit_is_refused_with_both_values() {
    let place = Place::new(Some("4.4/standalone"), "");
    let mut other = place.node.clone();
    other.id = 2;
    let text = said(&Layout::look(&other, &Asked::default()));
    assert!(text.contains("node.id is 1, but server.properties says 2"), "{text}");
    assert!(text.contains("its voters are the nodes 1, and not node 2 alone"), "{text}");
    let asked = Asked { release: Some(Release::V4_1), cluster_id: Some("OgPTlPLSRv6jUn9CaRPJWg".into()) };
    let text = said(&Layout::look(&place.node, &asked));
    assert!(text.contains("formatted for 4.4 (metadata.version 33), not for 4.1"), "{text}");
    assert!(text.contains("formatted for cluster dHdpbmxvZy1zb3VyY2UtMQ"), "{text}");
    let asked = Asked { release: Some(Release::V4_4), cluster_id: Some("dHdpbmxvZy1zb3VyY2UtMQ".into()) };
    assert_eq!(said(&Layout::look(&place.node, &asked)), "");
    let meta = place.path(names::META_PROPERTIES);
    let text = fs::read_to_string(&meta).unwrap();
    let kept: Vec<_> = text.lines().filter(|line| !line.starts_with("directory.id")).collect();
    fs::write(&meta, kept.join("\n")).unwrap();
    assert!(said(&place.look()).contains("directory.id is missing"));
    fs::write(&meta, text.replace("directory.id=", "directory.id=AAA")).unwrap();
    assert!(said(&place.look()).contains("directory.id is no id"));
}

#[test]
fn directories_of_two_clusters_or_with_one_id_are_refused() {
    let spare = tempfile::tempdir().unwrap();
    let more = format!("metadata.log.dir={}", spare.path().display());
    let place = Place::new(Some("4.3/static"), &more);
    let meta = fs::read_to_string(place.path(names::META_PROPERTIES)).unwrap();
    fs::write(spare.path().join(names::META_PROPERTIES), meta.replace("dHdpbmxvZy1zb3VyY2UtMQ", "other")).unwrap();
    let text = said(&place.look());
    assert!(text.contains("cluster.id is") && text.contains("of another directory"), "{text}");
    // The records of the format are looked for where the metadata log is.
    assert_eq!(place.look().bootstrap.unwrap().file, spare.path().join(BOOTSTRAP_CHECKPOINT));
}

#[test]
fn damaged_and_foreign_files_are_refused_by_name() {
    let place = Place::new(Some("4.3/standalone"), "");
    let legacy = place.path(BOOTSTRAP_CHECKPOINT);
    let good = fs::read(&legacy).unwrap();
    fs::write(&legacy, &good[..good.len() - 1]).unwrap();
    let text = said(&place.look());
    assert!(text.contains("bootstrap.checkpoint: malformed"), "{text}");
    fs::write(&legacy, include_bytes!("../../../../proto/golden/kraft/records-4.4.checkpoint")).unwrap();
    // A dump of a running node begins with its topics or with producer ids: here the levels, then producer ids.
    assert_eq!(place.look().bootstrap.unwrap().added, 13);
    fs::remove_file(&legacy).unwrap();
    assert!(said(&place.look()).contains("no feature levels"), "{}", said(&place.look()));
    fs::remove_file(place.path(METADATA_LOG).join(FIRST_SNAPSHOT)).unwrap();
    assert!(said(&place.look()).contains("no voters"), "{}", said(&place.look()));
    let place = Place::new(Some("4.4/static"), "");
    fs::remove_file(place.path(names::META_PROPERTIES)).unwrap();
    assert!(said(&place.look()).contains("no meta.properties"), "{}", said(&place.look()));
}

#[test]
fn a_node_that_was_started_before_is_laid_out_anew_only_when_no_topic_of_it_is_left_and_its_log_can_be_read() {
    let place = Place::new(Some("4.4/standalone"), "");
    let log = include_bytes!("../../../../proto/golden/kraft/4.4/used/__cluster_metadata-0/00000000000000000000.log");
    let path = place.path(METADATA_LOG).join("00000000000000000000.log");
    fs::write(&path, b"").unwrap();
    let layout = place.look();
    assert_eq!((said(&layout).as_str(), layout.former), ("", None), "an empty log is of a start that came to nothing");
    fs::write(&path, log).unwrap();
    let layout = place.look();
    assert!(said(&layout).contains("not its only voter"), "it is the log of another directory: {}", said(&layout));
    assert_eq!(layout.former.unwrap().topics.into_values().collect::<Vec<_>>(), ["kept"]);
    fs::create_dir(place.path("kept-0")).unwrap();
    let text = said(&place.look());
    assert!(text.contains("started before and has topics of its own: kept;"), "{text}");
    fs::remove_dir(place.path("kept-0")).unwrap();
    fs::write(&path, &log[..log.len() - 1]).unwrap();
    assert!(place.look().former.is_some(), "a torn log is one of a used node");
    let mut damaged = log.to_vec();
    damaged[30] ^= 1;
    fs::write(&path, damaged).unwrap();
    let text = said(&place.look());
    assert!(text.contains("00000000000000000000.log: malformed"), "{text}");
    fs::remove_file(&path).unwrap();
    fs::write(place.path(METADATA_LOG).join("00000000000000000100-0000000001.checkpoint"), b"x").unwrap();
    let text = said(&place.look());
    assert!(text.contains("0000000001.checkpoint: malformed"), "{text}");
}

#[test]
fn partitions_that_nobody_hands_over_are_named() {
    let place = Place::new(Some("4.4/static"), "");
    for name in ["orders-0", "own-0", "own-1.0123456789abcdef0123456789abcdef-stray", "a-0", "b-0", "c-0", "d-0"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    fs::write(place.path("file-0"), b"").unwrap();
    let layout = place.look();
    assert_eq!((said(&layout).as_str(), layout.directories[0].partitions.len()), ("", 7));
    let problems = layout.foreign_partitions(&HashSet::from(["orders-0".to_owned()]));
    assert!(problems.len() == 1 && problems[0].why.ends_with("a-0, b-0, c-0, d-0, own-0 and 1 more"), "{problems:?}");
    let all: HashSet<_> = layout.directories[0].partitions.iter().cloned().collect();
    assert_eq!(layout.foreign_partitions(&all), []);
}

#[test]
fn a_server_properties_that_is_not_there_is_named() {
    let problems = read_node(Path::new("/nowhere/server.properties")).unwrap_err();
    assert!(problems[0].to_string().contains("/nowhere/server.properties: there is no such file"));
}
