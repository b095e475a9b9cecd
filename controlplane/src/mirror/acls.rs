//! pure: the access control entries that are wanted: those made here, and by mirror those that come from its source.
//!
//! Only the first decide over who may do what to this control plane: a source must not be able to give rights over its
//! destination. All are what a broker gets that takes the mirrored topics over.

use std::collections::BTreeMap;
use twinlog_proto::security::acl::AclBinding;
use twinlog_proto::security::authorizer::AclIndex;

/// The origin of entries that were made here.
pub const MADE_HERE: &str = "";

/// Entries by origin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Acls {
    here: AclIndex,
    /// By the mirror whose source they come from; none is empty.
    mirrored: BTreeMap<String, AclIndex>,
}

impl Acls {
    /// Those made here, by which callers are judged.
    #[must_use]
    pub fn here(&self) -> &AclIndex {
        &self.here
    }

    /// Those of an origin: [`MADE_HERE`], or a mirror.
    #[must_use]
    pub fn of(&self, origin: &str) -> Option<&AclIndex> {
        if origin == MADE_HERE { Some(&self.here) } else { self.mirrored.get(origin) }
    }

    /// Every entry with its origin.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AclBinding)> {
        let mirrored =
            self.mirrored.iter().flat_map(|(origin, acls)| acls.iter().map(move |acl| (origin.as_str(), acl)));
        self.here.iter().map(|acl| (MADE_HERE, acl)).chain(mirrored)
    }

    /// How many there are, of all origins.
    #[must_use]
    pub fn len(&self) -> usize {
        self.here.len() + self.mirrored.values().map(AclIndex::len).sum::<usize>()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes an entry, or takes it away.
    pub(super) fn set(&mut self, origin: &str, binding: &AclBinding, present: bool) {
        if origin == MADE_HERE {
            change(&mut self.here, binding, present);
            return;
        }
        if present {
            change(self.mirrored.entry(origin.to_owned()).or_default(), binding, true);
        } else if let Some(acls) = self.mirrored.get_mut(origin) {
            change(acls, binding, false);
            if acls.is_empty() {
                self.mirrored.remove(origin);
            }
        }
    }

    /// Takes away everything of an origin.
    pub(super) fn forget(&mut self, origin: &str) {
        self.mirrored.remove(origin);
    }
}

fn change(acls: &mut AclIndex, binding: &AclBinding, present: bool) {
    if present {
        acls.insert(binding.clone());
    } else {
        acls.remove(binding);
    }
}
