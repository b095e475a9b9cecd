//! Handing mirrored topics over to a stock broker: what `twinlog promote` does. Runs in the command, on the destination host; the
//! control plane itself only remembers what was handed over.

pub mod identity;
pub mod layout;
pub mod node;
pub mod problem;
pub mod release;
