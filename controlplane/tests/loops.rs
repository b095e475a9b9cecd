//! A pass proves: three control planes that mirror from each other refuse the topic that would come back to where it began, with the
//! loop in their words; what cannot be asked on the way is said and stops nothing; and a loop that came to be later ends.

mod kit;

use kit::source::Source;
use kit::{ControlPlane, wait_for};
use tempfile::TempDir;
use twinlog_proto::messages::describe_cluster::DescribeClusterRequest;
use twinlog_proto::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};

const SOON: (&str, &str) = ("mirror.metadata.refresh.interval.ms", "200");

struct Cluster {
    id: String,
    control: ControlPlane,
    _folder: TempDir,
}

fn cluster() -> Cluster {
    let folder = tempfile::tempdir().unwrap();
    let control = ControlPlane::start(folder.path());
    let id = control.ask(&DescribeClusterRequest::default()).cluster_id;
    Cluster { id, control, _folder: folder }
}

/// Lets `at` mirror the topic `t` by `mirror` from the cluster `from`, which does not have it yet: a source that says it was `from` has it.
fn mirror(at: &Cluster, mirror: &str, from: &Cluster) {
    let stand_in = Source::start(&[("t", 1)]);
    stand_in.cluster.lock().unwrap().id.clone_from(&from.id);
    let made =
        at.control.create_with(mirror, &[("bootstrap.servers", &stand_in.address), ("mirror.internal.topics", "none")]);
    assert_eq!(made.error_code, 0, "{made:?}");
    assert_eq!(at.control.start_topics(mirror, &["t"]).topics[0].error_code, 0);
    let value = Some(from.control.listen.clone());
    let config = AlterableConfig { name: "bootstrap.servers".to_owned(), config_operation: 0, value };
    let resource = AlterConfigsResource { resource_type: 64, resource_name: mirror.to_owned(), configs: vec![config] };
    let answer = at.control.ask(&IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false });
    assert_eq!(answer.responses[0].error_code, 0, "{answer:?}");
}

#[test]
fn a_loop_of_three_is_refused_with_the_loop_in_words() {
    let (a, b, c) = (cluster(), cluster(), cluster());
    mirror(&a, "from-b", &b);
    mirror(&b, "from-c", &c);
    assert_eq!(c.control.create("from-a", &a.control.listen).error_code, 0);
    let answer = c.control.start_topics("from-a", &["t"]);
    assert_eq!(answer.topics[0].error_code, 42, "{answer:?}");
    let wanted = format!(
        "topic t would go in a circle: {} (this cluster) -> {} (its mirror from-c) -> {} (its mirror from-b) -> {} (mirror from-a)",
        c.id, b.id, a.id, c.id
    );
    let told = answer.error_message.unwrap();
    assert!(told.starts_with(&wanted), "{told}\nwanted\n{wanted}");

    // The one in the middle cannot be asked any more: nobody can know, and it is said.
    let Cluster { control, id, _folder } = b;
    drop(control);
    let answer = c.control.start_topics("from-a", &["t"]);
    assert_eq!(answer.topics[0].error_code, 0, "{answer:?}");
    let told = answer.error_message.unwrap();
    assert!(told.contains(&format!("cluster {id} were not looked for")), "{told}");
}

#[test]
fn a_loop_of_two_that_came_to_be_later_ends_at_the_next_refresh_and_none_is_discovered() {
    let (a, c) = (cluster(), cluster());
    mirror(&a, "from-c", &c);
    let settings = [("bootstrap.servers", a.control.listen.as_str()), SOON, ("mirror.topics.include", ".*")];
    assert_eq!(c.control.create_with("from-a", &settings).error_code, 0);
    c.control.look("from-a");
    assert!(c.control.partition("from-a", "t", 0).is_none(), "not discovered");
    // Both were started when neither could see the other.
    let (d, e) = (cluster(), cluster());
    mirror(&d, "from-e", &e);
    mirror(&e, "from-d", &d);
    for (cluster, mirror) in [(&d, "from-e"), (&e, "from-d")] {
        let config = AlterableConfig { name: SOON.0.to_owned(), config_operation: 0, value: Some(SOON.1.to_owned()) };
        let resource =
            AlterConfigsResource { resource_type: 64, resource_name: mirror.to_owned(), configs: vec![config] };
        cluster.control.ask(&IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false });
    }
    let message = wait_for("the loop to end", || {
        let found = d.control.partition("from-e", "t", 0)?;
        (found.state == "FAILED").then_some(found.error_message).flatten()
    });
    assert!(message.starts_with("loop: topic t would go in a circle"), "{message}");
}
