//! What a node that is laid out has in its files.

use super::*;
use crate::handover::layout::tests::Place;
use crate::handover::release::Release;
use std::collections::BTreeMap;
use std::fs;
use twinlog_proto::ids::Uuid;
use twinlog_proto::security::acl::AclBinding;
use twinlog_proto::security::codes::{Operation, PatternType, Permission, ResourceType};
use twinlog_proto::storage::kraft::records::MetadataRecord;
use twinlog_proto::storage::kraft::snapshot::Snapshot;

const NOW_MS: i64 = 1_700_000_000_000;
/// Producer ids, topic, setting, partition, access rule.
const OURS: usize = 5;

fn identity(place: &Place) -> Identity {
    Identity {
        next_producer_id: 1_004_000,
        topics: vec![IdentityTopic {
            name: "orders".into(),
            id: Uuid([9; 16]),
            configs: BTreeMap::from([("retention.ms".into(), "5".into())]),
            partitions: vec![IdentityPartition {
                index: 0,
                leader_epoch: 14,
                directory: place.node.log_dirs[0].clone(),
            }],
        }],
        acls: vec![AclBinding {
            resource_type: ResourceType::Topic,
            resource_name: "orders".into(),
            pattern_type: PatternType::Literal,
            principal: "User:alice".into(),
            host: "*".into(),
            operation: Operation::Read,
            permission: Permission::Allow,
        }],
        ..Identity::default()
    }
}

fn built(place: &Place) -> BootstrapFile {
    build(&place.node, &place.look(), &identity(place), NOW_MS, random::uuid).unwrap()
}

fn records(path: &Path) -> Vec<MetadataRecord> {
    let snapshot = Snapshot::read(&fs::read(path).unwrap()).unwrap();
    snapshot.values().map(|value| MetadataRecord::decode(value).unwrap()).collect()
}

#[test]
fn a_new_node_gets_ids_the_lowest_levels_and_our_records() {
    let place = Place::new(None, "");
    let layout = place.look();
    let early = build(&place.node, &layout, &identity(&place), NOW_MS, random::uuid).unwrap_err();
    assert!(early.to_string().contains("format the directory first"), "{early}");
    let made = format(&place.node, &layout, &Asked::default()).unwrap();
    assert_eq!(made, [place.path("meta.properties")]);
    let layout = place.look();
    assert!(layout.is_formatted() && layout.problems.is_empty());
    assert_eq!(format(&place.node, &layout, &Asked::default()).unwrap(), [] as [PathBuf; 0], "nothing to do again");
    let file = built(&place);
    assert_eq!((file.records, file.formatted.as_ref()), (3 + OURS, None));
    let keep = place.path("keep");
    write(&file, &keep).unwrap();
    let found = records(&file.path);
    assert!(!keep.exists() && found.len() == file.records && file.path == place.path("bootstrap.checkpoint"));
    let MetadataRecord::Partition(partition) = &found[6] else { panic!("{found:?}") };
    assert_eq!((partition.leader, partition.leader_epoch, &partition.isr[..]), (1, 14, &[1][..]));
    assert_eq!(partition.directories, [layout.directories[0].id.unwrap()]);
    assert!(matches!(&found[3], MetadataRecord::ProducerIds(ids) if ids.next_producer_id == 1_004_000));
    undo(&file.path, &keep, &made).unwrap();
    assert_eq!(fs::read_dir(place.path("")).unwrap().filter(|e| e.as_ref().unwrap().path().is_file()).count(), 0);
}

#[test]
fn a_formatted_node_keeps_its_records_and_voters_and_has_them_back_after_undo() {
    for name in ["4.0/static", "4.1/standalone", "4.4/static", "4.4/standalone"] {
        let place = Place::new(Some(name), "");
        let layout = place.look();
        let own = layout.bootstrap.clone().unwrap();
        let before = fs::read(&own.file).unwrap();
        let keep = place.path("keep");
        let file = built(&place);
        write(&file, &keep).unwrap();
        assert_eq!((&fs::read(&keep).unwrap(), &file.path), (&before, &own.file), "{name}");
        let snapshot = Snapshot::read(&fs::read(&file.path).unwrap()).unwrap();
        assert_eq!(snapshot.len(), own.release.levels().len() + OURS, "{name}");
        assert_eq!(snapshot.len(), file.records, "{name}");
        assert_eq!(snapshot.voters(), own.formatted.unwrap().voters(), "{name}");
        // Again, as after a kill: the same count, and what was kept stays.
        let again = built(&place);
        assert_eq!((place.look().bootstrap.unwrap().added, again.records), (OURS, file.records), "{name}");
        write(&again, &keep).unwrap();
        undo(&file.path, &keep, &[]).unwrap();
        assert_eq!((fs::read(&own.file).unwrap(), keep.exists()), (before, false), "{name}");
        undo(&file.path, &keep, &[]).unwrap();
        assert!(own.file.exists(), "{name}: what the tool wrote is not removed");
    }
}

#[test]
fn a_second_directory_gets_its_own_id_in_the_cluster_of_the_first() {
    let spare = tempfile::tempdir().unwrap();
    let below = spare.path().join("not/there");
    let place = Place::new(Some("4.3/static"), &format!("metadata.log.dir={}", spare.path().join("meta").display()));
    let mut node = place.node.clone();
    node.log_dirs.push(below.clone());
    let layout = Layout::look(&node, &Asked::default());
    let made = format(&node, &layout, &Asked::default()).unwrap();
    assert_eq!(made.len(), 2);
    let layout = Layout::look(&node, &Asked::default());
    assert_eq!((layout.problems.len(), layout.cluster_id.as_deref()), (0, Some("dHdpbmxvZy1zb3VyY2UtMQ")));
    assert!(layout.is_formatted() && layout.directory_id(&below) != layout.directory_id(&node.log_dirs[0]));
}

#[test]
fn an_asked_cluster_and_release_are_those_of_the_new_node() {
    let place = Place::new(None, "");
    let asked = Asked { release: Some(Release::V4_4), cluster_id: Some("OgPTlPLSRv6jUn9CaRPJWg".into()) };
    format(&place.node, &place.look(), &asked).unwrap();
    let layout = Layout::look(&place.node, &asked);
    assert_eq!((layout.cluster_id.as_deref(), layout.problems.len()), (Some("OgPTlPLSRv6jUn9CaRPJWg"), 0));
    let file = build(&place.node, &layout, &identity(&place), NOW_MS, random::uuid).unwrap();
    assert_eq!(file.records, 6 + OURS);
}

#[test]
fn what_cannot_be_said_is_refused_by_name() {
    let place = Place::new(Some("4.4/static"), "");
    let refused = |change: &dyn Fn(&mut Identity)| {
        let mut identity = identity(&place);
        change(&mut identity);
        build(&place.node, &place.look(), &identity, NOW_MS, random::uuid).unwrap_err().to_string()
    };
    let text = refused(&|identity| identity.topics[0].partitions[0].directory = "/elsewhere".into());
    assert!(text.contains("orders-0") && text.contains("/elsewhere"), "{text}");
    let text = refused(&|identity| {
        identity.topics[0].configs.insert("long".into(), "x".repeat(40_000));
    });
    assert!(text.contains("setting long of topic orders"), "{text}");
}

#[test]
fn a_link_beside_a_file_that_is_written_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, elsewhere) = (folder.path().join("meta.properties"), folder.path().join("elsewhere"));
    fs::write(&elsewhere, b"of somebody else").unwrap();
    replace_public(&path, b"x").unwrap();
    let aside = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(aside, 2, "nothing is left beside it");
    std::os::unix::fs::symlink(&elsewhere, files::aside(&path)).unwrap();
    assert!(replace_public(&path, b"y").is_err());
    assert_eq!(fs::read(&elsewhere).unwrap(), b"of somebody else");
}
