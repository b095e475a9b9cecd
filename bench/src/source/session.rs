//! pure: fetch sessions as a stock broker keeps them.
//!
//! A session remembers what a client wants of each partition and what it was told last, so that a request names only what
//! changed and a response only what is news. Partitions that returned data go to the end of the order.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use twinlog_proto::error_code::ErrorCode;

use super::read::{Read, Want};
use crate::limits::SESSIONS_MAX;

const FULL: i32 = 0;
const FINAL: i32 = -1;

/// The sessions of a broker. `K` names a partition.
#[derive(Debug)]
pub struct Sessions<K> {
    open: HashMap<i32, Session<K>>,
    last_id: i32,
}

/// What to read for one request, in order.
#[derive(Debug)]
pub struct Fetch<K> {
    /// The session id to answer, 0 for none.
    pub session_id: i32,
    /// The partitions to read, in this order.
    pub wants: Vec<(K, Want)>,
    /// Whether the answer is part of a session that has been answered before: only news is sent.
    pub is_incremental: bool,
}

/// Looking at a session of many thousand partitions must cost microseconds, for that happens with every request: the entries are
/// numbered, and only numbers change places.
#[derive(Debug)]
struct Session<K> {
    next_epoch: i32,
    numbers: HashMap<K, u32>,
    entries: Vec<Entry<K>>,
    /// Numbers that no partition has.
    free: Vec<u32>,
    order: Vec<u32>,
}

#[derive(Debug)]
struct Entry<K> {
    key: K,
    want: Want,
    high_watermark: i64,
    log_start: i64,
}

impl<K: Clone + Eq + Hash> Default for Sessions<K> {
    fn default() -> Self {
        Self { open: HashMap::new(), last_id: 0 }
    }
}

impl<K: Clone + Eq + Hash> Sessions<K> {
    /// Takes a request of session (`id`, `epoch`): what it lists and what it forgets.
    ///
    /// # Errors
    /// A Kafka error code for the top level of the response.
    pub fn begin(
        &mut self,
        id: i32,
        epoch: i32,
        listed: Vec<(K, Want)>,
        forgotten: &[K],
    ) -> Result<Fetch<K>, ErrorCode> {
        if epoch == FULL || epoch == FINAL {
            self.open.remove(&id);
            let session_id = if epoch == FULL { self.grant(&listed) } else { 0 };
            return Ok(Fetch { session_id, wants: listed, is_incremental: false });
        }
        let session = self.open.get_mut(&id).ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if session.next_epoch != epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        session.next_epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        session.update(listed, forgotten);
        let wants = session.in_order().map(|entry| (entry.key.clone(), entry.want)).collect();
        Ok(Fetch { session_id: id, wants, is_incremental: true })
    }

    /// Notes what was read and says, in the order of `fetch.wants`, which partitions belong into the response.
    pub fn finish(&mut self, fetch: &Fetch<K>, reads: &[Read]) -> Vec<bool> {
        let mut is_news = vec![true; reads.len()];
        if let Some(session) = self.open.get_mut(&fetch.session_id) {
            // Another request may have come in between, or the client listed a partition twice.
            let is_as_before = session.order.len() == reads.len()
                && session.in_order().zip(&fetch.wants).all(|(entry, (key, _))| entry.key == *key);
            if is_as_before {
                for (at, (read, news)) in reads.iter().zip(&mut is_news).enumerate() {
                    *news = session.note(at, read) || !fetch.is_incremental;
                }
                session.move_to_the_end(reads);
            }
        }
        is_news
    }

    fn grant(&mut self, listed: &[(K, Want)]) -> i32 {
        if self.open.len() >= SESSIONS_MAX {
            return 0;
        }
        self.last_id = if self.last_id == i32::MAX { 1 } else { self.last_id + 1 };
        let (numbers, entries) = (HashMap::with_capacity(listed.len()), Vec::with_capacity(listed.len()));
        let mut session = Session { next_epoch: 1, numbers, entries, free: Vec::new(), order: Vec::new() };
        session.update(listed.to_vec(), &[]);
        self.open.insert(self.last_id, session);
        self.last_id
    }
}

impl<K: Clone + Eq + Hash> Session<K> {
    fn update(&mut self, listed: Vec<(K, Want)>, forgotten: &[K]) {
        let gone: HashSet<u32> = forgotten.iter().filter_map(|key| self.numbers.remove(key)).collect();
        if !gone.is_empty() {
            self.order.retain(|number| !gone.contains(number));
            self.free.extend(gone);
        }
        for (key, want) in listed {
            if let Some(&known) = self.numbers.get(&key) {
                self.entries[known as usize].want = want;
                continue;
            }
            let entry = Entry { key: key.clone(), want, high_watermark: -1, log_start: -1 };
            let number = self.free.pop().unwrap_or(self.entries.len() as u32);
            match self.entries.get_mut(number as usize) {
                Some(free) => *free = entry,
                None => self.entries.push(entry),
            }
            self.numbers.insert(key, number);
            self.order.push(number);
        }
    }

    fn in_order(&self) -> impl Iterator<Item = &Entry<K>> {
        self.order.iter().map(|&number| &self.entries[number as usize])
    }

    /// Notes what the client is told of the partition at this place of the order; false when it is no news.
    fn note(&mut self, at: usize, read: &Read) -> bool {
        let entry = &mut self.entries[self.order[at] as usize];
        let told = (entry.high_watermark, entry.log_start);
        // After an error the numbers are -1, so the first good answer is news.
        (entry.high_watermark, entry.log_start) = (read.high_watermark, read.log_start);
        read.slice.bytes > 0 || read.is_urgent() || told != (read.high_watermark, read.log_start)
    }

    fn move_to_the_end(&mut self, reads: &[Read]) {
        if reads.iter().all(|read| read.slice.bytes == 0) {
            return;
        }
        let mut with_data = Vec::new();
        let mut reads = reads.iter();
        self.order.retain(|&number| {
            let has_data = reads.next().is_some_and(|read| read.slice.bytes > 0);
            if has_data {
                with_data.push(number);
            }
            !has_data
        });
        self.order.append(&mut with_data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::read::Slice;

    fn want(fetch_offset: i64) -> Want {
        Want { fetch_offset, bytes_max: 1, current_leader_epoch: -1, last_fetched_epoch: -1 }
    }

    fn read(high_watermark: i64, bytes: u64) -> Read {
        Read {
            error: ErrorCode::NONE,
            high_watermark,
            log_start: 0,
            slice: Slice { first_index: 0, bytes },
            diverging: None,
        }
    }

    fn keys(fetch: &Fetch<u32>) -> Vec<u32> {
        fetch.wants.iter().map(|(key, _)| *key).collect()
    }

    #[test]
    fn a_full_fetch_grants_a_session_and_answers_every_partition() {
        let mut sessions = Sessions::default();
        let fetch = sessions.begin(0, 0, vec![(1, want(0)), (2, want(0))], &[]).unwrap();
        assert!(fetch.session_id > 0 && !fetch.is_incremental);
        assert_eq!(sessions.finish(&fetch, &[read(0, 0), read(0, 0)]), [true, true]);
    }

    #[test]
    fn an_incremental_fetch_reads_all_partitions_and_answers_only_news() {
        let mut sessions = Sessions::default();
        let first = sessions.begin(0, 0, vec![(1, want(0)), (2, want(0)), (3, want(0))], &[]).unwrap();
        sessions.finish(&first, &[read(10, 5), read(10, 0), read(10, 0)]);
        let second = sessions.begin(first.session_id, 1, vec![(1, want(10))], &[]).unwrap();
        assert_eq!(keys(&second), [2, 3, 1], "the partition with data went to the end");
        assert_eq!(second.wants[2].1.fetch_offset, 10);
        assert_eq!(
            sessions.finish(&second, &[read(10, 0), read(11, 0), Read::refused(ErrorCode::NOT_LEADER_OR_FOLLOWER)]),
            [false, true, true]
        );
        let third = sessions.begin(first.session_id, 2, vec![], &[3]).unwrap();
        assert_eq!(keys(&third), [2, 1]);
        assert_eq!(sessions.finish(&third, &[read(10, 0), read(10, 0)]), [false, true], "good again after an error");
    }

    #[test]
    fn a_wrong_epoch_and_an_unknown_id_are_told_apart() {
        let mut sessions = Sessions::default();
        let id = sessions.begin(0, 0, vec![(1, want(0))], &[]).unwrap().session_id;
        assert_eq!(sessions.begin(id, 2, vec![], &[]).unwrap_err(), ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        assert_eq!(sessions.begin(id + 1, 1, vec![], &[]).unwrap_err(), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    }

    #[test]
    fn a_final_fetch_closes_the_session_and_a_full_one_replaces_it() {
        let mut sessions = Sessions::default();
        let id = sessions.begin(0, 0, vec![(1, want(0))], &[]).unwrap().session_id;
        let other = sessions.begin(id, 0, vec![(1, want(0))], &[]).unwrap().session_id;
        assert_eq!(sessions.begin(id, 1, vec![], &[]).unwrap_err(), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
        assert_eq!(sessions.begin(other, -1, vec![(1, want(0))], &[]).unwrap().session_id, 0);
        assert!(sessions.open.is_empty());
    }

    #[test]
    fn a_broker_full_of_sessions_serves_without_one() {
        let mut sessions = Sessions::<u32>::default();
        for _ in 0..SESSIONS_MAX {
            assert_ne!(sessions.begin(0, 0, vec![], &[]).unwrap().session_id, 0);
        }
        assert_eq!(sessions.begin(0, 0, vec![], &[]).unwrap().session_id, 0);
    }
}
