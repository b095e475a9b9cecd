//! pure: every bound of this process, and the asserts that tie them together.

use std::time::Duration;
use twinlog_proto::primitives::STRING_BYTES_MAX;

/// Largest request frame from a client, its length prefix not counted.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Largest response frame from a source broker: metadata of a large cluster fits. Decoded, it takes up to 12 times as much.
pub const SOURCE_RESPONSE_BYTES_MAX: usize = 16 << 20;
/// Bytes of a source's cluster id; stock ones have 22.
pub const CLUSTER_ID_BYTES_MAX: usize = 249;
/// Largest answer to a command that is believed.
pub const CLIENT_RESPONSE_BYTES_MAX: usize = 256 << 20;
/// Time for the connection of a command to be made.
pub const CLIENT_CONNECT: Duration = Duration::from_secs(5);
/// Time without a byte after which an answer to a command is given up.
pub const CLIENT_SILENCE_MAX: Duration = Duration::from_secs(60);
/// Bytes of a source's frame, or of an answer to a command, that are allocated before any of them has arrived.
pub const FRAME_BYTES_FIRST: usize = 64 << 10;
/// Bytes of a frame from a client that need no budget.
pub const FRAME_BYTES_FREE: usize = 4 << 10;
/// Bytes of frames that are arriving or being served, on all client connections together.
pub const FRAMES_BYTES_MAX: usize = 64 << 20;
/// Time that a frame waits for its share of that; the connection is closed then.
pub const FRAMES_BYTES_WAIT: Duration = Duration::from_secs(5);
/// An answer gets the time of a frame for each so many bytes.
pub const ANSWER_BYTES_A_TIMEOUT: usize = 8 << 20;
/// Bytes of answers that wait to be taken, on all client connections together.
pub const ANSWERS_BYTES_MAX: usize = 64 << 20;
/// Partitions in an answer from which on it waits for its turn; so many take about a millisecond.
pub const LARGE_ANSWER_PARTITIONS: usize = 2_000;
/// What a decoded request may take in arrays: this many times its bytes, and so many bytes more.
pub const DECODED_TIMES_MAX: usize = 8;
/// See [`DECODED_TIMES_MAX`].
pub const DECODED_BYTES_MORE: usize = 64 << 10;
/// Client connections at the same time.
pub const CONNECTIONS_MAX: usize = 2_000;
/// Client connections of one address.
pub const CONNECTIONS_OF_ADDRESS_MAX: usize = 1_500;
/// Open files that are kept for everything that is not a client connection.
pub const OPEN_FILES_KEPT: usize = 500;
/// HTTP connections at the same time.
pub const HTTP_CONNECTIONS_MAX: usize = 32;
/// Bytes of an HTTP request line and headers.
pub const HTTP_REQUEST_BYTES_MAX: usize = 8 << 10;
/// Time for an HTTP request to arrive and for its answer to leave.
pub const HTTP_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection without a request for this long is closed, as a stock broker does.
pub const CONNECTION_IDLE: Duration = Duration::from_secs(600);
/// Time for the rest of a started request frame to arrive, and for an answer to be taken.
pub const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// Characters of a mirror's name: its assignment file, written aside, still has a name that a file system takes.
pub const MIRROR_NAME_CHARS_MAX: usize = 240;
/// Mirrors in one control plane.
pub const MIRRORS_MAX: usize = 1_000;
/// Slots that are handed out before a data plane has shown how many it has.
pub const SLOTS_BEFORE_FIRST_SIGHT: u32 = 1_000;
/// Partitions of one topic that are believed from a source.
pub const TOPIC_PARTITIONS_MAX: usize = 100_000;
/// Patterns of one kind (include or exclude) in one mirror.
pub const PATTERNS_MAX: usize = 1_000;
/// Characters of one pattern.
pub const PATTERN_CHARS_MAX: usize = 1_000;
/// Repetitions that a pattern may ask for, also those of nested ones together: RE2's own bound.
pub const PATTERN_REPETITIONS_MAX: u32 = 1_000;
/// Lists of patterns that are kept compiled: those of a request and of some mirrors.
pub const PATTERN_LISTS_KEPT: usize = 16;
/// Compiled size of all patterns of one kind, bytes.
pub const PATTERN_PROGRAM_BYTES_MAX: usize = 4 << 20;
/// Access control entries, those from sources included.
pub const ACLS_MAX: usize = 100_000;
/// Filters of one request about access control entries: each is held against every entry.
pub const ACL_FILTERS_MAX: usize = 100;
/// Super users.
pub const SUPER_USERS_MAX: usize = 100;
/// Settings of one mirror.
pub const SETTINGS_MAX: usize = 200;
/// Characters of one setting's value (certificates in PEM fit), also of all patterns of one list with the commas between.
pub const SETTING_CHARS_MAX: usize = 32_767;
/// Characters of an unknown setting's name that are repeated, and that are compared with the known ones.
pub const KEY_CHARS_SHOWN: usize = 100;
/// The longest pause after a failed fetch that may be configured: the data plane's bound, as those that follow.
pub const FETCH_PAUSE_MS_MAX: i64 = 10_000;
/// The longest time that a source may hold a fetch back.
pub const FETCH_WAIT_MS_MAX: i64 = 300_000;
/// Bytes of one answer to a fetch.
pub const FETCH_BYTES_MAX: i64 = i32::MAX as i64 - (128 << 20);
/// The longest time for a connection or an answer.
pub const SOCKET_TIMEOUT_MS_MAX: i64 = 3_600_000;
/// Bytes of the buffer in which the system receives.
pub const RECEIVE_BUFFER_BYTES_MAX: i64 = 1 << 30;
/// Characters of the words of one refusal in an answer, and of all of them together.
pub const ANSWER_TEXT_CHARS_MAX: usize = 4_000;
/// Characters that say who a topic was handed over to.
pub const HANDED_OVER_CHARS_MAX: usize = 1_000;
/// Partitions of a topic of which an answer says what a start from scratch throws away; the others are counted.
pub const THROWN_AWAY_TOLD_MAX: usize = 20;
/// Refusals of one answer that come with words; the others have their code alone.
pub const REFUSALS_WITH_WORDS_MAX: usize = 100;
/// Failed partitions of one mirror that are named; all are counted.
pub const FAILED_NAMED_MAX: usize = 20;
/// Lines that are said of one look at a source.
pub const SOURCE_NOTES_MAX: usize = 10;
/// Characters of an error text that is kept with a failed partition.
pub const ERROR_CHARS_MAX: usize = 500;

/// Largest batch of the state log that is written or believed.
pub const STATE_BATCH_BYTES_MAX: usize = 64 << 20;
/// Bytes of the state log that are read at a time; a larger batch is read as a whole.
pub const REPLAY_READ_BYTES: usize = 1 << 20;
/// A torn append was one commit: offsets that are further ahead than this are bytes that look like a batch by chance.
pub const STATE_OFFSETS_AHEAD_MAX: i64 = 1 << 32;
/// Bytes of the state log after which memory is looked at while it is replayed.
pub const MEMORY_LOOK_BYTES: u64 = 16 << 20;
/// Percent of this process's memory that the catalog may take; the rest is for requests and answers.
pub const CATALOG_MEMORY_SHARE: u64 = 60;
/// Facts that a snapshot encodes at a time.
pub const SNAPSHOT_FACTS: usize = 4_096;
/// Bytes of records that a snapshot puts into one batch.
pub const SNAPSHOT_BATCH_BYTES: usize = 1 << 20;
/// The state log is compacted when it is at least this large ...
pub const COMPACT_LOG_BYTES_MIN: u64 = 4 << 20;
/// ... and this many times as large as after its last compaction.
pub const COMPACT_GROWTH: u64 = 4;
/// Records of the state log after which its recovery point is written again.
pub const RECOVERY_POINT_RECORDS: i64 = 1_000;
/// How often it is looked whether the state log can be written again after a change was refused ...
pub const STATE_LOG_PROBE: Duration = Duration::from_secs(1);
/// ... and the most bytes that are written for it.
pub const PROBE_BYTES_MAX: usize = 1 << 20;
/// Changes that are decided and made durable together.
pub const COMMIT_CHANGES_MAX: usize = 256;
/// Partitions that one change may start among others; a larger one is made durable by itself.
pub const COMMIT_PARTITIONS_MAX: usize = 20_000;
/// Events that are taken before other tasks have their turn.
pub const DECIDE_EVENTS_AT_A_TIME: usize = 64;
/// Changes that may wait for the driver.
pub const COMMIT_QUEUE_MAX: usize = 1_024;

/// How often the board is read when no doorbell rings ...
pub const BOARD_POLL: Duration = Duration::from_millis(100);
/// ... unless reading it takes long: then it is left alone for this many times as long as the last look took, ...
pub const BOARD_IDLE_FACTOR: u32 = 64;
/// ... but not longer than this.
pub const BOARD_POLL_MAX: Duration = Duration::from_secs(2);
/// After a ring, further ones are collected for this many times as long as the last look took.
pub const BOARD_RUNG_FACTOR: u32 = 3;
/// How often it is looked how partitions move while some do ...
pub const PACE_POLL: Duration = Duration::from_secs(1);
/// ... and while all rest.
pub const PACE_POLL_IDLE: Duration = Duration::from_secs(5);
/// A rate is told when it was measured over this long at least ...
pub const PACE_WINDOW_MS_MIN: i64 = 5_000;
/// ... and its newer anchor becomes the older one after this long, so that it is measured over three times as much at most.
pub const PACE_WINDOW_MS: i64 = 20_000;
/// After a silence of this long a measurement begins anew.
pub const PACE_SILENCE_MS_MAX: i64 = 60_000;
/// Who is behind for this long is catching up; shorter is the way of every record.
pub const CATCH_UP_MS_MIN: i64 = 5_000;
/// A core of the data plane that has not turned for this long tells nothing any more.
pub const CORE_SILENCE_MAX: Duration = Duration::from_secs(10);
/// How often an absent data plane is looked for.
pub const ATTACH_RETRY: Duration = Duration::from_millis(200);

/// Time for one question to a source, connection and all retries included.
pub const SOURCE_ASK: Duration = Duration::from_secs(10);
/// Time for one connection attempt to one address of a source.
pub const SOURCE_CONNECT: Duration = Duration::from_secs(3);
/// Addresses of `bootstrap.servers` that are tried.
pub const BOOTSTRAP_SERVERS_MAX: usize = 64;
/// Time to follow where the topics of a source come from, that is, to look for loops.
pub const TRAIL_TIME: Duration = Duration::from_secs(5);
/// Mirrors in a row that are followed.
pub const TRAIL_DEPTH_MAX: usize = 8;
/// Clusters that are asked for their mirrors in one such search.
pub const TRAIL_CLUSTERS_MAX: usize = 64;
/// How long a topic must have been missing before it counts as gone: longer than a broker takes to learn of a new one.
pub const GONE_AFTER: Duration = Duration::from_secs(2);
/// How often it is looked which sources are to be asked.
pub const FOLLOW_TICK: Duration = Duration::from_millis(100);
/// The shortest time between two looks through the topics of a mirror for whether its source is to be asked.
pub const FOLLOW_LOOK: Duration = Duration::from_millis(500);
/// Sources that are asked at the same time.
pub const SOURCE_ASKS_MAX: usize = 32;
/// The same for sources that did not answer the last time.
pub const DOUBTFUL_ASKS_MAX: usize = 8;
/// How often the source of topics that wait for it is asked again.
pub const RESOLVE_RETRY: Duration = Duration::from_secs(2);

/// How often sources are asked for new topics and partitions.
pub const REFRESH_INTERVAL_MS: u64 = 30_000;
/// The shortest interval that may be configured.
pub const REFRESH_INTERVAL_MS_MIN: u64 = 100;
/// The longest: a day.
pub const REFRESH_INTERVAL_MS_MAX: u64 = 86_400_000;

/// Time from one sync to the next when nothing is configured.
pub const SYNC_INTERVAL_MS: u64 = 60_000;
/// How often it is looked whether a sync is due.
pub const SYNC_POLL: Duration = Duration::from_millis(500);
/// Mirrors that are synced at the same time.
pub const SYNC_RUNS_MAX: usize = 8;
/// Time for the sync of one kind of one mirror; shorter than a client waits for the answer.
pub const SYNC_LIMIT: Duration = Duration::from_secs(50);
/// Time after which a topic without recorded settings is asked for again, whatever the interval is.
pub const SYNC_FRESH_RETRY_MS: u64 = 3_000;
/// Differences of one kind that an answer shows; all are counted.
pub const SYNC_CHANGES_SHOWN_MAX: usize = 5_000;
/// Brokers of one cluster that are believed.
pub const SYNC_BROKERS_MAX: usize = 2_000;
/// Groups whose offsets are read and committed together.
pub const SYNC_GROUPS_PER_STEP: usize = 250;
/// Connections to one coordinator over which offsets are committed.
pub const SYNC_COMMIT_LANES: usize = 8;
/// How often a coordinator that is not known yet is asked for, and the time between.
pub const SYNC_COORDINATOR_RETRIES: usize = 20;
/// See [`SYNC_COORDINATOR_RETRIES`].
pub const SYNC_COORDINATOR_RETRY: Duration = Duration::from_millis(500);
/// Quotas and users of one cluster that are taken.
pub const SYNC_QUOTAS_MAX: usize = 5_000;
/// Access rules of one cluster that are taken.
pub const SYNC_ACLS_MAX: usize = 100_000;
/// Access rules that are recorded together.
pub const SYNC_ACLS_PER_STEP: usize = 2_000;
/// Access rules that an answer to the deletion of a mirror names.
pub const LEFT_ACLS_SHOWN_MAX: usize = 1_000;
/// Offsets of one mirror's groups that are remembered because we wrote them at a running destination.
pub const GROUP_OFFSETS_MAX: usize = 500_000;
/// Those that are recorded together.
pub const GROUP_OFFSETS_PER_STEP: usize = 10_000;
/// Facts about a former destination that are forgotten together.
pub const SYNC_FORGET_PER_STEP: usize = 1_000;
/// Settings of one topic that are kept.
pub const TOPIC_CONFIGS_MAX: usize = 200;

/// Bytes of a file that a node's metadata begins with: 500,000 partitions fit.
pub const METADATA_SNAPSHOT_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a used node's metadata log that are read to name its topics.
pub const METADATA_LOG_READ_BYTES_MAX: u64 = 64 << 20;

/// First and largest delay before a failed partition is tried again; the delay is drawn from `0..=limit`.
pub const RETRY_INITIAL_MS: u64 = 1_000;
/// See [`RETRY_INITIAL_MS`].
pub const RETRY_MAX_MS: u64 = 300_000;
/// Automatic attempts before a failed partition waits for a person.
pub const RETRY_ATTEMPTS_MAX: i16 = 100;

const _: () =
    assert!(SOURCE_RESPONSE_BYTES_MAX >= 128 * TOPIC_PARTITIONS_MAX, "a partition with nine replicas takes 128 bytes");
const _: () = assert!(CONNECTIONS_OF_ADDRESS_MAX < CONNECTIONS_MAX, "one address cannot take all the room");
const _: () = assert!(2 * REQUEST_BYTES_MAX <= FRAMES_BYTES_MAX, "the largest frame fits the budget beside another");
const _: () = assert!((COMMIT_CHANGES_MAX as i64) < STATE_OFFSETS_AHEAD_MAX, "one commit is within reach");
const _: () = assert!(PACE_WINDOW_MS_MIN < PACE_WINDOW_MS, "a rate is told before its anchor moves");
const _: () = assert!(FRAME_BYTES_FIRST <= CLIENT_RESPONSE_BYTES_MAX, "the first allocation is within the bound");
const _: () = assert!(SNAPSHOT_BATCH_BYTES <= STATE_BATCH_BYTES_MAX, "a snapshot batch must be replayable");
const _: () = assert!(FRAME_BYTES_FIRST <= SOURCE_RESPONSE_BYTES_MAX, "the first allocation is within the frame bound");
const _: () = assert!(8 * ANSWER_TEXT_CHARS_MAX <= STRING_BYTES_MAX, "two such texts fit a string of the protocol");
const _: () = assert!(RETRY_INITIAL_MS <= RETRY_MAX_MS, "a delay grows");
