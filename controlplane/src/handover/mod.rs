//! Handing mirrored topics over to a stock broker: what `twinlog promote` does. Runs in the command, on the destination host; the
//! control plane itself only remembers what was handed over (`rpc/record_hand_over.rs`). `reclaim` takes it back from the stopped broker,
//! `drill` hands copies over to a broker that is thrown away.
//!
//! `survey` looks, `preflight` judges, `promote` does it in steps that the `journal` remembers, `check` asks the started broker. `adopt` hands over to one that runs.

pub mod adopt;
pub mod anew;
pub mod check;
mod control;
pub mod drill;
pub mod facts;
pub mod identity;
pub mod inherited;
pub mod journal;
pub mod layout;
#[allow(unsafe_code)]
pub mod locks;
pub mod node;
pub mod offsets;
pub mod owner;
pub mod past_epochs;
pub mod preflight;
pub mod problem;
pub mod promote;
pub mod quotas;
pub mod reclaim;
pub mod release;
pub mod report;
pub mod segments;
pub mod start;
mod step;
pub mod surgeon;
pub mod survey;
pub mod tail;
pub mod target;
