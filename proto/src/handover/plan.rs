//! pure: the plan file that `twinlog-dataplane hand-over` reads, and the result that it writes to its standard output.
//!
//! The control plane writes the plan, the data plane does what it says, again and again if it must: every step of it may be repeated.
//! Which checkpoint lines the log directories need follows from the partitions.
//!
//! ```text
//! "TWLH" (plan) or "TWLR" (result) | i16 version | u32 CRC-32C of what follows | body (`schemas/hand_over.json`)
//! ```

pub use crate::messages::hand_over::{HandOverPlan, HandOverResult, HandedPartition, PlannedPartition};

use crate::error::{DecodeError, EncodeError};
use crate::sealed::Seal;

/// The first bytes of a plan file.
pub const PLAN_MAGIC: [u8; 4] = *b"TWLH";
/// The first bytes of a result.
pub const RESULT_MAGIC: [u8; 4] = *b"TWLR";
/// The largest plan that is read, in bytes: 100,000 partitions and as many records to append.
pub const BYTES_MAX: u64 = 256 << 20;
/// The version of both bodies that is written.
pub const VERSION: i16 = 0;

const PLAN: Seal =
    Seal { what: "hand-over plan", magic: PLAN_MAGIC, no_magic: "the file does not start with TWLH", version: VERSION };

const RESULT: Seal = Seal {
    what: "hand-over result",
    magic: RESULT_MAGIC,
    no_magic: "the output does not start with TWLR",
    version: VERSION,
};

/// The content of a plan file.
///
/// # Errors
/// When a name is longer than 32767 bytes.
pub fn encode(plan: &HandOverPlan) -> Result<Vec<u8>, EncodeError> {
    PLAN.encode(plan)
}

/// Reads the content of a plan file.
///
/// # Errors
/// When it is no plan file, has a version that this code does not speak, or is damaged.
pub fn decode(file: &[u8]) -> Result<HandOverPlan, DecodeError> {
    PLAN.decode(file)
}

/// The bytes of a result.
///
/// # Errors
/// When a name is longer than 32767 bytes.
pub fn encode_result(result: &HandOverResult) -> Result<Vec<u8>, EncodeError> {
    RESULT.encode(result)
}

/// Reads a result.
///
/// # Errors
/// When it is none, has a version that this code does not speak, or is damaged.
pub fn decode_result(bytes: &[u8]) -> Result<HandOverResult, DecodeError> {
    RESULT.decode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Uuid;

    fn sample() -> HandOverPlan {
        HandOverPlan {
            mirror_name: "dr".into(),
            undo: false,
            reclaim: false,
            dry_run: false,
            find_cut: false,
            save_directory: String::new(),
            copy: true,
            place: false,
            partitions: vec![PlannedPartition {
                topic: "orders".into(),
                index: 3,
                topic_id: Uuid([7; 16]),
                data_directory: "/data".into(),
                log_directory: "/broker/logs".into(),
                log_start_offset: 4,
                last_mirrored_offset: 92,
                last_mirror_epoch: 4,
                verify_from: -1,
                leader_epoch: 5,
                segment_bytes: 1 << 30,
                segment_index_bytes: 10 << 20,
                index_interval_bytes: 4096,
                batches: vec![1, 2, 3],
            }],
        }
    }

    #[test]
    fn a_plan_and_a_result_are_read_back_and_not_taken_for_each_other() {
        let plan = encode(&sample()).unwrap();
        assert_eq!(plan[..6], *b"TWLH\0\0");
        assert_eq!(decode(&plan), Ok(sample()));
        let result = HandOverResult {
            mirror_name: "dr".into(),
            partitions: vec![HandedPartition { topic: "orders".into(), end_offset: 93, ..Default::default() }],
            ..Default::default()
        };
        let bytes = encode_result(&result).unwrap();
        assert_eq!(decode_result(&bytes), Ok(result));
        assert!(decode(&bytes).is_err() && decode_result(&plan).is_err());
    }

    #[test]
    fn a_damaged_plan_is_refused_wherever_the_damage_is() {
        let file = encode(&sample()).unwrap();
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 0x10;
            assert!(decode(&damaged).is_err(), "byte {at}");
            assert!(decode(&file[..at]).is_err(), "cut at {at}");
        }
    }
}
