//! pure: every bound of the process, and the asserts that tie them together.

/// Bytes of one receive buffer, the unit of the record path: large enough for a disk, small enough for a cache.
pub const PIECE_BYTES: usize = 1 << 20;

/// Bytes of one stage buffer, in which small runs of one partition are gathered.
pub const STAGE_BYTES: usize = 64 << 10;

/// Bytes of the largest run that is copied into a stage instead of being received straight into a piece.
pub const STAGE_RUN_BYTES_MAX: usize = STAGE_BYTES - DIRECT_ALIGN_BYTES_MAX;

/// Pieces that one core works with unless configured otherwise: the working set should stay in its cache.
pub const PIECES_PER_CORE: usize = 32;

/// Stage buffers that one core works with unless configured otherwise.
pub const STAGES_PER_CORE: usize = 64;

/// The most pieces one core may have: the kernel registers at most 1 GiB as one buffer.
pub const PIECES_PER_CORE_MAX: usize = 768;

/// The most stage buffers one core may have.
pub const STAGES_PER_CORE_MAX: usize = 2048;

/// Bytes of a huge page.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The smallest alignment used for direct writes. A device may allow 512, but below a page the filesystems serialise.
pub const DIRECT_ALIGN_BYTES_MIN: usize = 4096;

/// The largest alignment used for direct writes; a file that asks for more is written through the page cache.
pub const DIRECT_ALIGN_BYTES_MAX: usize = 4096;

/// Bytes allocated ahead of the end of a segment that has just begun to grow.
pub const ALLOCATE_STEP_BYTES_MIN: u64 = 64 << 10;

/// Bytes allocated ahead of the end of a segment that grows fast. Each step doubles, from the smallest to this one.
pub const ALLOCATE_STEP_BYTES_MAX: u64 = 64 << 20;

/// Writes (and syncs) that one core keeps in flight.
pub const WRITES_IN_FLIGHT_PER_CORE: usize = 16;

/// Jobs that may wait for a writer of one core without its queue growing.
pub const WRITE_JOBS_PER_CORE: usize = 4096;

/// Jobs that one log may have under way without its list growing.
pub const WRITE_JOBS_PER_LOG: usize = 64;

/// Bytes of the largest batch that is taken from a source unless the mirror says otherwise.
pub const BATCH_BYTES_MAX: usize = 128 << 20;

/// Bytes of the largest segment file: positions are signed 32-bit numbers.
pub const SEGMENT_FILE_BYTES_MAX: u64 = i32::MAX as u64;

/// Bytes read at once when a segment is scanned.
pub const SCAN_BYTES: usize = 1 << 20;

/// Bytes of the largest text file (checkpoint, metadata) that is read whole.
pub const SMALL_FILE_BYTES_MAX: u64 = 64 << 20;

const _: () = assert!(PIECE_BYTES.is_multiple_of(DIRECT_ALIGN_BYTES_MAX), "a piece must be writable without a copy");
const _: () = assert!(STAGE_BYTES.is_multiple_of(DIRECT_ALIGN_BYTES_MAX), "a stage must be writable without a copy");
const _: () = assert!(DIRECT_ALIGN_BYTES_MIN <= DIRECT_ALIGN_BYTES_MAX, "one alignment must fit");
const _: () = assert!(ALLOCATE_STEP_BYTES_MIN <= ALLOCATE_STEP_BYTES_MAX, "steps must grow");
const _: () = assert!(
    PIECES_PER_CORE_MAX * PIECE_BYTES + STAGES_PER_CORE_MAX * STAGE_BYTES + HUGE_PAGE_BYTES <= 1 << 30,
    "all buffers of a core must fit one registered buffer"
);
const _: () = assert!(WRITES_IN_FLIGHT_PER_CORE <= WRITE_JOBS_PER_CORE, "every writer must find its job queued");

/// Bytes that one connection receives at once while regions are small; every connection has one such buffer.
pub const INBOX_BYTES: usize = 256 << 10;

/// Bytes asked for at once while only the head of a large region is wanted: what comes with it must be copied.
pub const HEAD_BYTES: usize = 256;

/// A record region of at least this many bytes goes straight into pieces.
pub const DIRECT_REGION_BYTES_MIN: usize = 128 << 10;

/// Bytes of the largest answer to a request that carries no records (metadata of many partitions).
pub const PLAIN_ANSWER_BYTES_MAX: usize = 64 << 20;

/// Slack of a Fetch response beyond its records: heads of partitions, tagged fields.
pub const FETCH_HEADS_BYTES_MAX: usize = 16 << 20;

/// Bytes per second below which an answer counts as stalled once its deadline has passed.
pub const RECEIVE_RATE_BYTES_PER_S_MIN: u64 = 16 << 10;

/// The longest pause that a source may ask for by throttling.
pub const THROTTLE_MS_MAX: u64 = 60_000;

/// `SO_RCVBUF` unless a mirror sets it: larger ones fall out of the cache before they are read.
pub const RECEIVE_BUFFER_BYTES: u32 = 4 << 20;

/// Bytes of records asked for per partition unless a mirror sets it.
pub const FETCH_PARTITION_BYTES: i32 = 8 << 20;

/// Bytes of records asked for per response unless a mirror sets it.
pub const FETCH_RESPONSE_BYTES: i32 = 16 << 20;

/// How long a source may hold a Fetch request without records, in ms, unless a mirror sets it.
pub const FETCH_WAIT_MS: i32 = 500;

/// The longest such time that a mirror may set, in ms.
pub const FETCH_WAIT_MS_MAX: i64 = 300_000;

/// The first pause of a partition after an error, in ms, unless a mirror sets it.
pub const FETCH_PAUSE_MS: u64 = 100;

/// How long an answer may take to begin, in ms, unless a mirror sets it.
pub const REQUEST_TIMEOUT_MS: u64 = 30_000;

/// How long connecting may take, in ms, unless a mirror sets it.
pub const SETUP_TIMEOUT_MS: u64 = 10_000;

/// The longest of these two that a mirror may set, in ms.
pub const TIMEOUT_MS_MAX: i64 = 3_600_000;

/// The largest `SO_RCVBUF` that a mirror may set, in bytes.
pub const RECEIVE_BUFFER_BYTES_MAX: i64 = 1 << 30;

/// Connections to one source broker, per core, unless configured otherwise.
pub const CONNECTIONS_PER_BROKER: u32 = 2;

/// The most connections to one source broker that a core may be told to make.
pub const CONNECTIONS_PER_BROKER_MAX: u32 = 16;

/// Jobs on logs (open, flush, finish, cut) that a core works on at once; more would wait for the same disk.
pub const LOG_JOBS_PER_CORE: usize = 16;

/// The largest plan of a hand-over that is read, in bytes.
pub const HAND_OVER_PLAN_BYTES_MAX: u64 = twinlog_proto::handover::plan::BYTES_MAX;

/// Partitions that are copied at the same time for a broker that runs.
pub const COPIERS: usize = 4;

/// Bytes of a segment that are read at once for a copy.
pub const COPY_PIECE_BYTES: usize = 1 << 20;

/// How often a core looks at deadlines, retries and flushes, in ms.
pub const TICK_MS: u64 = 20;

/// Time between two looks at the source's metadata when nothing asks for it, in ms.
pub const METADATA_REFRESH_MS: u64 = 60_000;

/// The shortest time between two looks at the source's metadata, in ms.
pub const METADATA_PAUSE_MS_MIN: u64 = 100;

/// The longest pause between two tries to reach a source, in ms.
pub const CONNECT_PAUSE_MS_MAX: u64 = 10_000;

/// The longest pause between two tries of one partition, in ms.
pub const PARTITION_PAUSE_MS_MAX: u64 = 30_000;

/// The first pause after a lost connection, in ms.
pub const CONNECT_PAUSE_MS: u64 = 50;

/// Failures of a connection in a row after which its partitions show that their broker cannot be reached.
pub const UNREACHABLE_TRIES: u32 = 3;

/// The shortest time between two deletions of a partition's old segments, in ms.
pub const FOLLOW_START_PAUSE_MS: u64 = 1000;

/// Time between two looks at the board for the checkpoint files, in ms.
pub const CHECKPOINT_MS: u64 = 5000;

/// Tries of a partition with an error that should pass before it is shown as failed.
pub const PARTITION_TRIES_MAX: u32 = 12;

/// Fetches of the same corrupt offsets before the partition fails.
pub const CORRUPT_TRIES_MAX: u32 = 2;

const _: () = assert!(HEAD_BYTES < DIRECT_REGION_BYTES_MIN && DIRECT_REGION_BYTES_MIN <= INBOX_BYTES);
const _: () = assert!(
    DIRECT_REGION_BYTES_MIN < PIECE_BYTES,
    "a region that goes straight into pieces must be worth at least a part of one"
);

/// Entries of a core's submission queue.
pub const RING_SUBMISSIONS: u32 = 256;

/// Entries of a core's completion queue: above the writes, receives and sends that may be in flight together.
pub const RING_COMPLETIONS: u32 = 4096;

/// How long mirrored bytes may stay without a sync unless configured otherwise, in ms.
pub const FLUSH_INTERVAL_MS: u64 = 1000;

/// The longest such time that may be configured.
pub const FLUSH_INTERVAL_MS_MAX: u64 = 3_600_000;

/// Mirrored bytes of one core that may stay without a sync unless configured otherwise.
pub const FLUSH_BYTES: u64 = 256 << 20;

/// The fewest pieces one core works with: two connections must be able to receive while earlier pieces are written.
pub const PIECES_PER_CORE_MIN: usize = 8;

/// How long an end of the process waits for jobs on logs (a recovery may take long) before it goes on without them, in ms.
pub const STOP_JOBS_MS_MAX: u64 = 20_000;

/// Closed segments and snapshots of one log that a flush syncs one by one, each with a file open; with more it syncs the filesystem.
pub const FILES_SYNCED_ONE_BY_ONE: usize = 16;

/// Segments of one log that may wait for their last writes; then its source waits.
pub const CLOSING_MAX: usize = 16;

/// The fewest bytes of a piece that a roll carries over to the new segment: padding behind the old segment's end must not reach
/// what is left of the piece.
pub const CARRIED_BYTES_MIN: usize = 16 << 10;

const _: () =
    assert!(CARRIED_BYTES_MIN >= DIRECT_ALIGN_BYTES_MAX, "padding of a block must lie within what was carried over");

/// Flushes that a core starts in one tick: fewer than it has writers, so that writes go on.
pub const FLUSHES_PER_TICK: usize = WRITES_IN_FLIGHT_PER_CORE / 2;

/// Time between two looks of a core at its order ring when no bell rings, in ms: also whether it is whole.
pub const ORDERS_LOOK_MS: u64 = 100;

/// How long the new shared memory waits for all cores to show themselves in it, in ms.
pub const CORES_MOVE_MS_MAX: u64 = 500;

/// Pause before the shared memory is made anew for the second time in a row, in ms; it doubles with each time ...
pub const RENEWAL_PAUSE_MS_MIN: u64 = 1_000;

/// ... up to this.
pub const RENEWAL_PAUSE_MS_MAX: u64 = 60_000;

/// So often in a row the shared memory is made anew; then it is left as it is for [`RENEWALS_QUIET_MS`].
pub const RENEWALS_ROW_MAX: u32 = 8;

/// Shared memory that was whole for this long begins a new row, in ms.
pub const RENEWALS_QUIET_MS: u64 = 600_000;

/// Pause after shared memory could not be made, in ms.
pub const RENEWAL_FAILED_MS: u64 = 5_000;

const _: () = assert!(CORES_MOVE_MS_MAX >= 10 * TICK_MS, "a core moves at its next tick");
const _: () = assert!(RENEWAL_PAUSE_MS_MAX < RENEWALS_QUIET_MS, "giving up must be rarer than trying");

/// Tries to copy a log that changes meanwhile, with a pause in between.
pub const CLONE_TRIES_MAX: u32 = 10;

/// The pause, in ms: a cut and the fetch behind it take about as long.
pub const CLONE_PAUSE_MS: u64 = 20;

/// Bytes that stay free beside a clone.
pub const CLONE_FREE_BYTES_MIN: u64 = 64 << 20;

/// What each partition of a clone may need for small files besides, in bytes.
pub const CLONE_BYTES_A_PARTITION: u64 = 64 << 10;
