//! pure: keys and values of `__mirror_state`. Layout: `schemas/state_log.json`.

include!(concat!(env!("OUT_DIR"), "/state_log.rs"));

/// Record type of [`LastMirrorEpochsKey`]: the first int16 of the key.
pub const LAST_MIRROR_EPOCHS: i16 = 1;
/// Record type of [`MirrorPartitionStateKey`].
pub const MIRROR_PARTITION_STATE: i16 = 2;
/// Record type of [`PartitionStateByIdKey`].
pub const PARTITION_STATE_BY_ID: i16 = 100;
/// Record type of [`MirrorKey`].
pub const MIRROR: i16 = 101;
/// Record type of [`MirrorTopicKey`].
pub const MIRROR_TOPIC: i16 = 102;
/// Record type of [`HostPartitionKey`].
pub const HOST_PARTITION: i16 = 103;
/// Record type of [`AclKey`].
pub const ACL: i16 = 104;
/// Record type of [`TopicConfigsKey`].
pub const TOPIC_CONFIGS: i16 = 105;
/// Record type of [`GivenAclKey`].
pub const GIVEN_ACL: i16 = 106;
/// Offsets of a group that we wrote at a running destination.
pub const GROUP_OFFSETS: i16 = 107;
/// Record type of [`HandOverKey`].
pub const HAND_OVER: i16 = 108;
/// Record type of [`QuotasKey`].
pub const QUOTAS: i16 = 109;
