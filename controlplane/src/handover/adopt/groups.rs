//! Offsets of groups, committed at the broker as an administrator does, for groups that nobody is in and that have none there yet; and
//! access rules for the topics.

use super::broker;
use super::progress::{Adoption, Committed};
use crate::client::Client;
use crate::failure::Failure;
use crate::handover::journal::Acl;
use crate::handover::preflight::Finding;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::create_acls::{AclCreation, CreateAclsRequest};
use twinlog_proto::messages::find_coordinator::FindCoordinatorRequest;
use twinlog_proto::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use twinlog_proto::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics};

/// How long coordinators are waited for: the first question may make the cluster create the topic that keeps offsets.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
/// How long a coordinator of transactions is waited for, which nothing here needs.
const TRANSACTIONS_TIME_MAX: Duration = Duration::from_secs(10);
/// Key type of transactional ids in requests for coordinators.
const TRANSACTIONAL_ID: i8 = 1;
/// Resource types of access rules that are about one topic or one group.
const TOPIC: i8 = 2;
const GROUP: i8 = 3;
/// Pattern type of a rule for one name.
const LITERAL: i8 = 3;

/// Offset by topic and partition.
type Found = BTreeMap<(String, i32), i64>;

/// Commits what nobody has tried yet.
///
/// # Errors
/// When the cluster does not answer.
pub(super) fn commit(adoption: &mut Adoption) -> Result<(), Failure> {
    let groups: BTreeSet<String> =
        adoption.offsets.iter().filter(|of| of.is_waiting()).map(|of| of.group.clone()).collect();
    let mut coordinators = Coordinators::new(&adoption.address);
    for group in groups {
        let mut wanted: Vec<&mut Committed> =
            adoption.offsets.iter_mut().filter(|of| of.group == group && of.is_waiting()).collect();
        let client = match coordinators.of(&group)? {
            Ok(client) => client,
            Err(why) => {
                wanted.iter_mut().for_each(|of| of.ends(Err(why.clone())));
                continue;
            }
        };
        let there = fetch(client, &group, wanted.iter().map(|of| (of.topic.clone(), of.partition)))?;
        for of in &mut wanted {
            match there.get(&(of.topic.clone(), of.partition)) {
                Some(offset) if *offset == of.offset => of.ends(Ok(())),
                Some(offset) => of.ends(Err(format!("the group has committed {offset} there; it is left as it is"))),
                None => {}
            }
        }
        wanted.retain(|of| of.is_waiting());
        if !wanted.is_empty() {
            commit_group(client, &group, wanted)?;
        }
    }
    Ok(())
}

fn commit_group(client: &mut Client, group: &str, wanted: Vec<&mut Committed>) -> Result<(), Failure> {
    let mut topics: BTreeMap<String, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for of in &wanted {
        topics.entry(of.topic.clone()).or_default().push(OffsetCommitRequestPartition {
            partition_index: of.partition,
            committed_offset: of.offset,
            // The broker's epochs are not the source's.
            committed_leader_epoch: -1,
            committed_metadata: Some(of.metadata.clone()),
        });
    }
    let topics = topics.into_iter().map(|(name, partitions)| OffsetCommitRequestTopic { name, partitions }).collect();
    let request = OffsetCommitRequest { group_id: group.to_owned(), topics, ..OffsetCommitRequest::default() };
    let begun = Instant::now();
    let codes: BTreeMap<(String, i32), ErrorCode> = loop {
        let answer = client.ask(&request).map_err(broker::unasked)?;
        let codes: BTreeMap<(String, i32), ErrorCode> = answer
            .topics
            .into_iter()
            .flat_map(|topic| {
                let name = topic.name;
                topic.partitions.into_iter().map(move |p| ((name.clone(), p.partition_index), ErrorCode(p.error_code)))
            })
            .collect();
        let Some(loading) = codes.values().find(|code| code.is_retriable()) else { break codes };
        if begun.elapsed() >= SETTLE_TIME_MAX {
            return Err(late(group, *loading));
        }
        sleep(POLL);
    };
    for of in wanted {
        of.ends(match codes.get(&(of.topic.clone(), of.partition)) {
            Some(&ErrorCode::NONE) => Ok(()),
            Some(code) => Err(refusal(*code)),
            None => Err("the coordinator says nothing of it".to_owned()),
        });
    }
    Ok(())
}

/// The coordinator of a group is not ready in time: nothing is decided, and the same command asks again.
fn late(group: &str, code: ErrorCode) -> Failure {
    Failure::timed_out(
        format_args!("the coordinator of group {group} is not ready ({code}), and offsets of it wait"),
        "run the same command again",
    )
}

fn refusal(code: ErrorCode) -> String {
    match code {
        ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION => {
            format!("members are in the group ({}); stop them and set its offset by hand", code.name())
        }
        code => code.to_string(),
    }
}

/// What is not there that was committed.
///
/// # Errors
/// When the cluster does not answer.
pub(super) fn missing(adoption: &Adoption) -> Result<Vec<String>, Failure> {
    let mut by_group: BTreeMap<&str, Vec<&Committed>> = BTreeMap::new();
    for of in adoption.offsets.iter().filter(|of| of.committed) {
        by_group.entry(&of.group).or_default().push(of);
    }
    let (mut coordinators, mut missing) = (Coordinators::new(&adoption.address), Vec::new());
    for (group, committed) in by_group {
        let client = match coordinators.of(group)? {
            Ok(client) => client,
            Err(why) => {
                missing.push(format!("group {group}: {why}"));
                continue;
            }
        };
        let there = fetch(client, group, committed.iter().map(|of| (of.topic.clone(), of.partition)))?;
        for of in committed {
            let found = there.get(&(of.topic.clone(), of.partition)).copied();
            // A group may have gone on, or back, by itself; but it has an offset.
            if found.is_none() {
                missing.push(format!(
                    "group {group} has no offset of {}-{}, and {} was committed",
                    of.topic, of.partition, of.offset
                ));
            }
        }
    }
    Ok(missing)
}

fn fetch(client: &mut Client, group: &str, of: impl Iterator<Item = (String, i32)>) -> Result<Found, Failure> {
    let mut topics: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    of.for_each(|(topic, partition)| topics.entry(topic).or_default().push(partition));
    let topics =
        topics.into_iter().map(|(name, partition_indexes)| OffsetFetchRequestTopics { name, partition_indexes });
    let asked =
        OffsetFetchRequestGroup { group_id: group.to_owned(), topics: Some(topics.collect()), ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![asked], ..Default::default() };
    let begun = Instant::now();
    let answer = loop {
        let answer = client.ask(&request).map_err(broker::unasked)?;
        let mut codes = answer.groups.iter().map(|group| ErrorCode(group.error_code));
        let Some(loading) = codes.find(|code| code.is_retriable()) else { break answer };
        if begun.elapsed() >= SETTLE_TIME_MAX {
            return Err(late(group, loading));
        }
        sleep(POLL);
    };
    let mut found = Found::new();
    for topic in answer.groups.into_iter().flat_map(|group| group.topics) {
        let known = topic.partitions.iter().filter(|p| p.committed_offset >= 0);
        found.extend(known.map(|p| ((topic.name.clone(), p.partition_index), p.committed_offset)));
    }
    Ok(found)
}

/// Has the cluster make the topic of its transaction coordinators when it has seen no transaction yet: without one, transactional producers of
/// the source would be kept waiting until their delivery timeout, and not be told that nobody knows their transaction.
///
/// # Errors
/// When the cluster does not answer.
pub(super) fn have_transaction_coordinator(client: &mut Client, adoption: &mut Adoption) -> Result<(), Failure> {
    if adoption.topics.iter().all(|topic| topic.highest_producer_id < 0) {
        return Ok(());
    }
    let begun = Instant::now();
    loop {
        let coordinator_keys = vec!["twinlog".to_owned()];
        let request = FindCoordinatorRequest { key_type: TRANSACTIONAL_ID, coordinator_keys, ..Default::default() };
        let answer = client.ask(&request).map_err(broker::unasked)?;
        let code = answer.coordinators.first().map_or(ErrorCode::NONE, |told| ErrorCode(told.error_code));
        if code == ErrorCode::NONE {
            return Ok(());
        }
        if !code.is_retriable() || begun.elapsed() >= TRANSACTIONS_TIME_MAX {
            adoption.findings.push(Finding::new(
                format!("the cluster has no coordinator of transactions: {code}"),
                "restart transactional producers of the source: they may wait for one until their delivery timeout",
            ));
            return Ok(());
        }
        sleep(POLL);
    }
}

/// Connections to the brokers that keep offsets.
struct Coordinators {
    address: String,
    clients: BTreeMap<String, Client>,
}

impl Coordinators {
    fn new(address: &str) -> Self {
        Self { address: address.to_owned(), clients: BTreeMap::new() }
    }

    /// The connection to the coordinator of `group`; why there is none.
    fn of(&mut self, group: &str) -> Result<Result<&mut Client, String>, Failure> {
        let own = self.address.clone();
        let begun = Instant::now();
        let address = loop {
            let request = FindCoordinatorRequest { coordinator_keys: vec![group.to_owned()], ..Default::default() };
            let answer = self.client(&own)?.ask(&request).map_err(broker::unasked)?;
            let Some(told) = answer.coordinators.into_iter().next() else {
                return Ok(Err("the cluster names no coordinator for it".to_owned()));
            };
            match ErrorCode(told.error_code) {
                ErrorCode::NONE => break broker::host_port(&told.host, told.port),
                code if code.is_retriable() && begun.elapsed() < SETTLE_TIME_MAX => sleep(POLL),
                code if code.is_retriable() => return Err(late(group, code)),
                code => return Ok(Err(format!("its coordinator is not known: {code}"))),
            }
        };
        self.client(&address).map(Ok)
    }

    fn client(&mut self, address: &str) -> Result<&mut Client, Failure> {
        if !self.clients.contains_key(address) {
            self.clients.insert(address.to_owned(), broker::connect(address)?);
        }
        self.clients
            .get_mut(address)
            .ok_or_else(|| Failure::new(address, "there is no connection", "run the command again"))
    }
}

/// Makes access rules about the topics alone and about groups that come along; says what became of the others.
///
/// # Errors
/// When the broker does not answer.
pub(super) fn make_acls(client: &mut Client, adoption: &mut Adoption, all: &[Acl]) -> Result<(), Failure> {
    let is_ours = |acl: &&Acl| {
        acl.pattern_type == LITERAL
            && match acl.resource_type {
                TOPIC => adoption.topics.iter().any(|topic| topic.topic == acl.resource_name),
                GROUP => adoption.offsets.iter().any(|of| of.group == acl.resource_name),
                _ => false,
            }
    };
    let ours: Vec<&Acl> = all.iter().filter(is_ours).collect();
    let mut finding = |what: String, remedy: &str| adoption.findings.push(Finding::new(what, remedy));
    if ours.len() < all.len() {
        finding(
            format!(
                "{} access rules of the source reach beyond these topics and their groups, and are not made",
                all.len() - ours.len()
            ),
            "make those by hand that the broker is to have",
        );
    }
    if ours.is_empty() {
        return Ok(());
    }
    if !adoption.has_authorizer {
        finding(
            format!("{} access rules are not made: the broker has no authorizer", ours.len()),
            "everybody may do everything there; set authorizer.class.name and make them if that is not wanted",
        );
        return Ok(());
    }
    let creation = |acl: &&Acl| AclCreation {
        resource_type: acl.resource_type,
        resource_name: acl.resource_name.clone(),
        resource_pattern_type: acl.pattern_type,
        principal: acl.principal.clone(),
        host: acl.host.clone(),
        operation: acl.operation,
        permission_type: acl.permission_type,
    };
    let request = CreateAclsRequest { creations: ours.iter().map(creation).collect() };
    let answer = client.ask(&request).map_err(broker::unasked)?;
    let refused: Vec<String> = answer
        .results
        .iter()
        .filter(|result| result.error_code != 0)
        .map(|result| result.error_message.clone().unwrap_or_else(|| ErrorCode(result.error_code).to_string()))
        .collect();
    if let Some(first) = refused.first() {
        finding(format!("{} access rules are not made: {first}", refused.len()), "make them by hand");
    }
    adoption.acls = ours.len() - refused.len();
    Ok(())
}
