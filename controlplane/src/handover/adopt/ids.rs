//! Producer ids: a cluster hands out its own from 0 on, and a new producer whose id stands in a mirrored batch could be told that its
//! records are written when they are not. So every broker is made to give out ids above all of the copies.
//!
//! A broker gives out blocks that it took from the controller, so ids are asked for until they are high enough: from the controller by
//! the thousand when that is allowed, and from each broker until its block is used up.

use super::broker::{self, Broker};
use super::progress::ProducerIds;
use super::registration;
use crate::client::Client;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::allocate_producer_ids::AllocateProducerIdsRequest;
use twinlog_proto::messages::describe_quorum::{DescribeQuorumRequest, PartitionData, TopicData};
use twinlog_proto::messages::init_producer_id::InitProducerIdRequest;
use twinlog_proto::storage::kraft::METADATA_TOPIC;

/// Ids that are asked for one by one at most; beyond that blocks must be had from the controller.
const IDS_MAX: i64 = 2_000_000;
/// Ids in a block.
const BLOCK: i64 = 1_000;
/// Blocks that are taken at most: each is a record in the cluster's metadata.
const BLOCKS_MAX: i64 = 100_000;
/// A broker may hold so many that it took before.
const HELD_MAX: i64 = 2 * BLOCK;
/// Connections over which a broker is asked at the same time.
const LANES: usize = 8;
/// How often a coordinator that is loading is asked again by each connection.
const TRIES_MAX: u32 = 600;
/// The time between.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Makes every broker of the cluster give out ids above `highest`; gives what was done.
///
/// # Errors
/// When one cannot be brought that far: then producers would be told of records that were never written.
pub(super) fn raise(found: &Broker, highest: i64) -> Result<ProducerIds, Failure> {
    let mut done = ProducerIds {
        highest_mirrored: highest,
        first_given: BTreeMap::new(),
        last_given: BTreeMap::new(),
        blocks: 0,
        no_blocks: None,
    };
    if highest < 0 {
        return Ok(done);
    }
    for (id, address, _) in found.brokers.iter().filter(|(.., fenced)| !fenced) {
        let first = one(&mut broker::connect(address)?)?;
        done.first_given.insert(*id, first);
        if highest - first > HELD_MAX {
            match blocks(found, highest) {
                Ok(blocks) => done.blocks += blocks,
                Err(cause) => done.no_blocks = Some(cause),
            }
        }
        // Asking one by one would end short of it.
        let is_far = done.no_blocks.is_some() && highest - first > IDS_MAX;
        let last = if is_far { first } else { up_to(address, highest, first)? };
        if last <= highest {
            let why = done.no_blocks.as_deref().unwrap_or("they were not asked for");
            return Err(Failure::new(
                format_args!(
                    "broker {id} gives out producer id {last}, and ids up to {highest} are in the mirrored batches"
                ),
                format_args!(
                    "a new producer could be told that records are written which are not; at most {IDS_MAX} ids are asked for one by one, and \
                     blocks cannot be had from the controller: {why}"
                ),
                "let this host reach the controller's listener, or hand over to a standby node (--to)",
            ));
        }
        done.last_given.insert(*id, last);
    }
    Ok(done)
}

/// Takes blocks from the controller until its next one is above `highest`; gives how many.
fn blocks(found: &Broker, highest: i64) -> Result<u64, String> {
    let epoch = registration::epoch(&found.metadata_log(), found.node_id())?;
    let mut controller = controller(&found.address)?;
    let (mut taken, mut before) = (0, -1);
    loop {
        let request = AllocateProducerIdsRequest { broker_id: found.node_id(), broker_epoch: epoch };
        let answer = controller.ask(&request).map_err(|cause| cause.to_string())?;
        if answer.error_code != 0 {
            return Err(format!("AllocateProducerIds is answered with {}", ErrorCode(answer.error_code)));
        }
        taken += 1;
        let next = answer.producer_id_start.checked_add(i64::from(answer.producer_id_len.max(0)));
        let Some(next) = next.filter(|next| *next > before) else {
            return Err(format!(
                "the controller gives out no rising ids: {} ids from {} on",
                answer.producer_id_len, answer.producer_id_start
            ));
        };
        if next > highest {
            return Ok(taken);
        }
        if (highest - next) / BLOCK > BLOCKS_MAX {
            return Err(format!("its next id is {next}, more than {BLOCKS_MAX} blocks below"));
        }
        before = next;
    }
}

/// A connection to the active controller.
fn controller(address: &str) -> Result<Client, String> {
    let partition = PartitionData { partition_index: 0 };
    let topic = TopicData { topic_name: METADATA_TOPIC.to_owned(), partitions: vec![partition] };
    let mut client = Client::connect(address).map_err(|cause| cause.to_string())?;
    let answer = client.ask(&DescribeQuorumRequest { topics: vec![topic] }).map_err(|cause| cause.to_string())?;
    let leader = answer.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.leader_id).next();
    let node = answer.nodes.iter().find(|node| Some(node.node_id) == leader);
    let Some(listener) = node.and_then(|node| node.listeners.first()) else {
        return Err("the broker does not say where the controller is".to_owned());
    };
    Client::connect(&broker::host_port(&listener.host, i32::from(listener.port))).map_err(|cause| cause.to_string())
}

/// Asks the broker for ids until they are above `highest`; gives the highest that was had.
fn up_to(address: &str, highest: i64, first: i64) -> Result<i64, Failure> {
    let (had, left) = (AtomicI64::new(first), AtomicI64::new(IDS_MAX));
    let lane = || -> Result<(), Failure> {
        let mut client = broker::connect(address)?;
        while had.load(Ordering::Relaxed) <= highest && left.fetch_sub(1, Ordering::Relaxed) > 0 {
            had.fetch_max(one(&mut client)?, Ordering::Relaxed);
        }
        Ok(())
    };
    if first > highest {
        return Ok(first);
    }
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| {
            let ended = || Failure::new("producer ids are not raised", "a thread ended", "run the same command again");
            lane.join().map_err(|_panic| ended())?
        })
    })?;
    Ok(had.into_inner())
}

/// One new producer id.
fn one(client: &mut Client) -> Result<i64, Failure> {
    for _ in 0..TRIES_MAX {
        // What stock clients send for an idempotent producer.
        let request = InitProducerIdRequest { transaction_timeout_ms: i32::MAX, ..Default::default() };
        let answer = client.ask(&request).map_err(broker::unasked)?;
        match ErrorCode(answer.error_code) {
            ErrorCode::NONE => return Ok(answer.producer_id),
            code if code.is_retriable() => std::thread::sleep(PAUSE),
            code => {
                return Err(Failure::new(
                    "producer ids cannot be raised above those of the source",
                    code,
                    "let this user write with idempotence (IDEMPOTENT_WRITE on the cluster)",
                ));
            }
        }
    }
    Err(Failure::timed_out("the broker gives out no producer id", "its controller does not answer"))
}
