//! Ids that nobody else has: of this node's cluster, and of nodes that are laid out.

use std::hash::{BuildHasher, RandomState};
use twinlog_proto::ids::Uuid;

/// A random id, of version 4 as Java makes them: none that Kafka reserves, and its text begins with no dash, which command lines
/// would take for an option.
#[must_use]
pub fn uuid() -> Uuid {
    loop {
        // The keys of a RandomState are the system's random numbers.
        let half = |which: u8| RandomState::new().hash_one(which).to_be_bytes();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&half(0));
        bytes[8..].copy_from_slice(&half(1));
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let id = Uuid(bytes);
        if !id.to_string().starts_with('-') {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_differ_and_look_like_java_s() {
        let ids: BTreeSet<_> = (0..1_000).map(|_| uuid()).collect();
        assert_eq!(ids.len(), 1_000);
        assert!(ids.iter().all(|id| id.0[6] >> 4 == 4 && id.0[8] >> 6 == 2 && !id.to_string().starts_with('-')));
    }
}
