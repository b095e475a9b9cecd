//! States written by another node, over TCP to the real process. What a pass proves: the data plane follows them, a writer
//! that is behind is fenced by what a read showed it, and all of it survives SIGKILL.

mod kit;

use kit::ControlPlane;
use kit::plane::{DataPlane, Shown};
use kit::source::Source;
use twinlog_proto::messages::find_coordinator::FindCoordinatorRequest;
use twinlog_proto::messages::read_mirror_states::{PartitionResult, ReadMirrorStatesRequest};
use twinlog_proto::messages::write_mirror_states::{PartitionData, TopicData, WriteMirrorStatesRequest};
use twinlog_proto::mirror_state::MirrorState;

fn read(control: &ControlPlane) -> PartitionResult {
    let request = ReadMirrorStatesRequest { mirror_name: "dr".to_owned(), topics: Vec::new() };
    control.ask(&request).topics.remove(0).partitions.remove(0)
}

/// Writes `orders`-0; gives the error code and the new state epoch.
fn write(control: &ControlPlane, state: MirrorState, read: &PartitionResult) -> (i16, i32) {
    let partition = PartitionData {
        state: state.code(),
        leader_epoch: read.leader_epoch,
        state_epoch: read.state_epoch,
        ..PartitionData::default()
    };
    let topics = vec![TopicData { name: "orders".to_owned(), partitions: vec![partition] }];
    let request = WriteMirrorStatesRequest { mirror_name: "dr".to_owned(), topics, removed_topics: Vec::new() };
    let answer = control.ask(&request).topics.remove(0).partitions.remove(0);
    (answer.error_code, answer.state_epoch)
}

#[test]
fn the_data_plane_follows_a_written_state_and_a_writer_that_is_behind_is_fenced_also_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("orders", 1)]);
    let data = DataPlane::start(folder.path(), 7);
    data.show("orders-0", Shown { leo: 100, source_high_watermark: 100, fails_up_to: None });
    let control = ControlPlane::start(folder.path());
    let coordinator = control.ask(&FindCoordinatorRequest {
        key_type: 3,
        coordinator_keys: vec!["dr".to_owned()],
        ..FindCoordinatorRequest::default()
    });
    assert_eq!((coordinator.coordinators[0].error_code, coordinator.coordinators[0].node_id), (0, 1));
    control.create("dr", &source.address);
    control.start_topics("dr", &["orders"]);
    control.wait_state("dr", "orders", 0, "MIRRORING");

    let first = read(&control);
    assert_eq!((first.state, first.leader_epoch), (MirrorState::Mirroring.code(), 4), "the board's leader epoch");
    assert_eq!(write(&control, MirrorState::Pausing, &first), (0, first.state_epoch + 1));
    control.wait_state("dr", "orders", 0, "PAUSED");
    assert_eq!(write(&control, MirrorState::Mirroring, &first), (124, -1), "the state moved on");
    let older = PartitionResult { leader_epoch: 3, ..read(&control) };
    assert_eq!(write(&control, MirrorState::Mirroring, &older), (74, -1));

    let before = read(&control);
    control.kill();
    let control = ControlPlane::start(folder.path());
    control.wait_state("dr", "orders", 0, "PAUSED");
    assert_eq!(read(&control).state_epoch, before.state_epoch);
    assert_eq!(write(&control, MirrorState::Mirroring, &first), (124, -1));
    assert_eq!(write(&control, MirrorState::Mirroring, &before), (0, before.state_epoch + 1));
    control.wait_state("dr", "orders", 0, "MIRRORING");
    assert_eq!(write(&control, MirrorState::Stopping, &read(&control)).0, 0);
    assert_eq!(control.wait_state("dr", "orders", 0, "STOPPED").last_mirror_offset, 100);
    assert_eq!(control.terminate(), Some(0));
}
