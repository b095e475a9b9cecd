//! Rows of the requests that are about a mirror as a whole.

use super::{Answered, Matrix};
use crate::mirror::catalog::{Catalog, Desired};
use crate::mirror::event::{Detail, MirrorEvent};
use crate::mirror::machine::Event;
use crate::rpc::tests::apply;
use crate::rpc::{create_mirror, delete_mirror, incremental_alter_configs};
use crate::source::SourceError;
use twinlog_proto::api;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::create_mirror::{CreateMirrorRequest, MirrorConfig};
use twinlog_proto::messages::delete_mirror::DeleteMirrorRequest;
use twinlog_proto::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};

pub(super) fn all(matrix: &mut Matrix, catalog: &Catalog) {
    create(matrix, catalog);
    delete(matrix, catalog);
    alter(matrix, catalog);
}

type Pair<'a> = (&'a str, Option<&'a str>);

const SERVERS: Pair<'static> = ("bootstrap.servers", Some("s:1"));

fn created(catalog: &Catalog, name: &str, pairs: &[Pair<'_>], source: Result<&str, SourceError>) -> Answered {
    let config = pairs.iter().map(|(name, value)| MirrorConfig { name: (*name).into(), value: value.map(Into::into) });
    let request = CreateMirrorRequest { mirror_name: name.into(), config: config.collect() };
    let settings = match create_mirror::question(&request, catalog) {
        Ok(settings) => settings,
        Err(refusal) => return Answered::whole(refusal.code.0, 0),
    };
    let (events, response) = create_mirror::decide(&request, &settings, source.map(str::to_owned), "own", catalog);
    Answered::whole(response.error_code, events.len())
}

fn create(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::CREATE_MIRROR);
    let src = || Ok("src");
    let mut row = |case: &str, name: &str, pairs: &[Pair<'_>], source| {
        matrix.row(case, created(catalog, name, pairs, source));
    };
    row("a name and servers", "new", &[SERVERS], src());
    row("MirrorName empty", "", &[SERVERS], src());
    row("MirrorName with a forbidden character", "a b", &[SERVERS], src());
    row("MirrorName .", ".", &[SERVERS], src());
    row("MirrorName ends in .removed", "x.removed", &[SERVERS], src());
    row("MirrorName of 241 characters", &"x".repeat(241), &[SERVERS], src());
    row("MirrorName in use", "m", &[SERVERS], src());
    row("Config empty", "new", &[], src());
    row("Config with an unknown key", "new", &[SERVERS, ("no.such.key", Some("1"))], src());
    row("Config with an empty key", "new", &[SERVERS, ("", Some("1"))], src());
    row("Config with a key twice", "new", &[SERVERS, SERVERS], src());
    row("Config with a null value", "new", &[SERVERS, ("client.id", None)], src());
    row("bootstrap.servers null", "new", &[("bootstrap.servers", None)], src());
    row("bootstrap.servers empty", "new", &[("bootstrap.servers", Some(""))], src());
    row("bootstrap.servers without a port", "new", &[("bootstrap.servers", Some("s"))], src());
    row("a number that is none", "new", &[SERVERS, ("request.timeout.ms", Some("soon"))], src());
    row("a number out of range", "new", &[SERVERS, ("request.timeout.ms", Some("0"))], src());
    let id = ("mirror.source.cluster.id", Some("src"));
    row("the cluster id that the source has", "new", &[SERVERS, id], src());
    row("a cluster id that the source does not have", "new", &[SERVERS, id], Ok("else"));
    row("servers that are this node", "new", &[SERVERS], Ok("own"));
    row("a source that is down", "new", &[SERVERS], Err(SourceError::Unreachable("s:1".into())));
    let not_kafka = SourceError::NotKafka { server: "s:1".into(), why: "no".into() };
    row("servers that are no Kafka", "new", &[SERVERS], Err(not_kafka));
    row("a source that is too old", "new", &[SERVERS], Err(SourceError::Unsupported("old".into())));
    let refused = SourceError::Refused { what: "metadata", code: ErrorCode::CLUSTER_AUTHORIZATION_FAILED };
    row("a source that refuses", "new", &[SERVERS], Err(refused));
}

fn delete(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::DELETE_MIRROR);
    for (case, name) in [("MirrorName empty", ""), ("MirrorName unknown", "no"), ("a topic flows", "m")] {
        matrix.row(case, deleted(catalog, name));
    }
    let (mirror, topic) = ("other".to_owned(), "theirs".to_owned());
    let stop = MirrorEvent::Wanted { mirror, topic, desired: Desired::Stop, event: Event::Stop };
    let stopping = apply(catalog, vec![stop]);
    matrix.row("a topic is still stopping", deleted(&stopping, "other"));
    let stopped = MirrorEvent::detailed("other", "theirs", 0, Event::SlotStopped, Detail::Ended(None));
    let stopped = apply(&stopping, vec![stopped]);
    matrix.row("all topics are stopped", deleted(&stopped, "other"));
    let (mirror, topic) = ("other".to_owned(), "theirs".to_owned());
    let away = apply(&stopped, vec![MirrorEvent::HandedOver { mirror, topic, to: Some("node 1".into()) }]);
    matrix.row("a topic is handed over", deleted(&away, "other"));
    let request = DeleteMirrorRequest { mirror_name: "other".into(), even_handed_over: true };
    let (events, response) = delete_mirror::decide(&request, &away);
    matrix.row("a topic is handed over, EvenHandedOver", Answered::whole(response.error_code, events.len()));
}

fn deleted(catalog: &Catalog, name: &str) -> Answered {
    let (events, response) = {
        let request = DeleteMirrorRequest { mirror_name: name.into(), ..Default::default() };
        delete_mirror::decide(&request, catalog)
    };
    Answered::whole(response.error_code, events.len())
}

/// Key, operation, value.
type Change<'a> = (&'a str, i8, Option<&'a str>);

fn resource(resource_type: i8, name: &str, changes: &[Change<'_>]) -> AlterConfigsResource {
    let config = |(name, config_operation, value): &Change<'_>| AlterableConfig {
        name: (*name).into(),
        config_operation: *config_operation,
        value: value.map(Into::into),
    };
    AlterConfigsResource { resource_type, resource_name: name.into(), configs: changes.iter().map(config).collect() }
}

fn alter(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::INCREMENTAL_ALTER_CONFIGS);
    let mut row = |case: &str, resources: Vec<AlterConfigsResource>, validate_only| {
        let request = IncrementalAlterConfigsRequest { resources, validate_only };
        let (events, response) = incremental_alter_configs::decide(&request, &Default::default(), catalog);
        let items =
            response.responses.iter().map(|r| (format!("{} {:?}", r.resource_type, r.resource_name), r.error_code));
        matrix.row(case, Answered::items(0, items, events.len()));
    };
    let set = ("client.id", 0, Some("x"));
    let bad = ("request.timeout.ms", 0, Some("soon"));
    row("Resources empty", Vec::new(), false);
    row("set", vec![resource(64, "m", &[set])], false);
    row("set, ValidateOnly", vec![resource(64, "m", &[set])], true);
    row("a bad value, ValidateOnly", vec![resource(64, "m", &[bad])], true);
    row("one bad resource of two", vec![resource(64, "m", &[bad]), resource(64, "other", &[set])], false);
    row("the same resource twice", vec![resource(64, "m", &[set]), resource(64, "m", &[bad])], false);
    row("ResourceName empty", vec![resource(64, "", &[set])], false);
    row("ResourceName unknown", vec![resource(64, "no", &[set])], false);
    row("ResourceType topic", vec![resource(2, "flows", &[("segment.bytes", 0, Some("1"))])], false);
    row("ResourceType broker", vec![resource(4, "1", &[set])], false);
    row("ResourceType 0", vec![resource(0, "m", &[set])], false);
    row("Configs empty", vec![resource(64, "m", &[])], false);
    row("a key twice", vec![resource(64, "m", &[set, set])], false);
    row("an unknown key set", vec![resource(64, "m", &[("no.such.key", 0, Some("1"))])], false);
    row("an unknown key deleted", vec![resource(64, "m", &[("no.such.key", 1, None)])], false);
    row("a key that is not set deleted", vec![resource(64, "m", &[("client.id", 1, None)])], false);
    row("bootstrap.servers deleted", vec![resource(64, "m", &[("bootstrap.servers", 1, None)])], false);
    row("set to null", vec![resource(64, "m", &[("client.id", 0, None)])], false);
    row("append", vec![resource(64, "m", &[("client.id", 2, Some("y"))])], false);
    row("subtract", vec![resource(64, "m", &[("client.id", 3, Some("y"))])], false);
    row("an unknown operation", vec![resource(64, "m", &[("client.id", 9, Some("y"))])], false);
}
