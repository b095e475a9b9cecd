//! pure: where a new partition lives: its slot on the board and its data directory.

use crate::mirror::catalog::Catalog;
use std::collections::{BTreeMap, BTreeSet};

/// Hands out slots and directories; made from the catalog for each decision.
#[derive(Debug)]
pub struct Placer {
    used: BTreeSet<u32>,
    next: u32,
    load: BTreeMap<String, usize>,
}

/// There is no room for another partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl Placer {
    /// Counts what `catalog` holds in `directories`.
    #[must_use]
    pub fn new(catalog: &Catalog, directories: &[String]) -> Self {
        let mut load: BTreeMap<String, usize> = directories.iter().map(|folder| (folder.clone(), 0)).collect();
        for (.., partition) in catalog.partitions() {
            if let Some(count) = partition.placement.as_ref().and_then(|placed| load.get_mut(&placed.directory)) {
                *count += 1;
            }
        }
        Self { used: catalog.slots(), next: 0, load }
    }

    /// How many partitions still fit below `slots_max`.
    #[must_use]
    pub fn room(&self, slots_max: u32) -> usize {
        (slots_max as usize).saturating_sub(self.used.len())
    }

    /// The lowest free slot and the directory with the fewest partitions (the first by name among equals).
    ///
    /// # Errors
    /// When all slots below `slots_max` are taken or there is no directory.
    pub fn place(&mut self, slots_max: u32) -> Result<(u32, String), Full> {
        let folder = self.load.iter().min_by_key(|(_, count)| **count).ok_or(Full)?.0.clone();
        Ok((self.place_in(&folder, slots_max)?, folder))
    }

    /// The lowest free slot, for a partition that lies in `folder`.
    ///
    /// # Errors
    /// When all slots below `slots_max` are taken.
    pub fn place_in(&mut self, folder: &str, slots_max: u32) -> Result<u32, Full> {
        while self.used.contains(&self.next) {
            self.next += 1;
        }
        if self.next >= slots_max {
            return Err(Full);
        }
        if let Some(count) = self.load.get_mut(folder) {
            *count += 1;
        }
        self.used.insert(self.next);
        Ok(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_the_lowest_free_ones_and_directories_fill_evenly() {
        let mut placer = Placer::new(&Catalog::default(), &["/a".into(), "/b".into()]);
        placer.used.insert(1);
        let placed: Vec<(u32, String)> = (0..4).map(|_| placer.place(6).unwrap()).collect();
        let expected = [(0, "/a"), (2, "/b"), (3, "/a"), (4, "/b")].map(|(slot, dir)| (slot, dir.to_owned()));
        assert_eq!(placed, expected);
        assert_eq!(placer.room(6), 1);
        placer.place(6).unwrap();
        assert_eq!(placer.place(6), Err(Full));
    }
}
