//! Rights at the real process. What a pass proves: who may describe the node and one of two mirrors learns of the node's own trouble and of
//! that mirror's, and not even the name of the other.

mod kit;

use kit::ControlPlane;
use kit::plane::{DataPlane, Shown};
use kit::source::Source;
use twinlog_proto::channel::progress::FaultCode;
use twinlog_proto::messages::create_acls::{AclCreation, CreateAclsRequest};
use twinlog_proto::messages::describe_mirrors::DescribeMirrorsRequest;
use twinlog_proto::security::acl::CLUSTER_NAME;
use twinlog_proto::security::codes::{Operation, ResourceType};

#[test]
fn warnings_about_a_mirror_are_for_those_who_may_describe_it() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(&[("orders", 1), ("payments", 1)]);
    let data = DataPlane::start(folder.path(), 7);
    let failing = Shown { leo: 5, source_high_watermark: 9, fails_up_to: Some((i32::MAX, FaultCode::GAP)) };
    let control = ControlPlane::start(folder.path());
    for (mirror, topic) in [("shown", "orders"), ("hidden", "payments")] {
        data.show(&format!("{topic}-0"), failing);
        assert_eq!(control.create(mirror, &source.address).error_code, 0);
        assert_eq!(control.start_topics(mirror, &[topic]).topics[0].error_code, 0);
        control.wait_state(mirror, topic, 0, "FAILED");
    }
    let describe = |kind: ResourceType, name: &str| AclCreation {
        resource_type: kind.code(),
        resource_name: name.to_owned(),
        resource_pattern_type: 3,
        principal: "User:ANONYMOUS".to_owned(),
        host: "*".to_owned(),
        operation: Operation::Describe.code(),
        permission_type: 3,
    };
    let cluster = describe(ResourceType::Cluster, CLUSTER_NAME);
    let creations = vec![cluster, describe(ResourceType::ClusterMirror, "shown")];
    let made = control.ask(&CreateAclsRequest { creations });
    assert!(made.results.iter().all(|result| result.error_code == 0), "{made:?}");
    control.kill();

    let config = folder.path().join("twinlog.toml");
    std::fs::write(&config, "[controlplane]\nauthorizer = \"acl\"\n").unwrap();
    let control = ControlPlane::start_by(ControlPlane::command(folder.path()).arg("--config").arg(&config));
    let request = DescribeMirrorsRequest { include_node: true, ..Default::default() };
    let answer = kit::wait_for("the failure to be warned of", || {
        Some(control.ask(&request)).filter(|answer| !answer.nodes[0].warnings.is_empty())
    });
    let told = format!("{answer:?}");
    assert!(told.contains("mirror shown: 1 partitions FAILED"), "{told}");
    assert!(!told.contains("hidden") && !told.contains("payments"), "{told}");
}
