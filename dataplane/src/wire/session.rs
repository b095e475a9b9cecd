//! pure: the fetch session of one connection: what to list in the next request, what to forget, when to start over.
//!
//! A broker remembers the parameters of every partition in a session, so a request lists only what changed. Members are
//! numbered by the caller (small, dense numbers); a member that wants nothing is not in the session. One request is in
//! flight per session: `begin` marks what was listed as known to the broker, and any failure starts over with a full list.

/// What one partition asks for. A partition is listed again whenever this changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// The leader epoch that the source's metadata names, -1 when unknown.
    pub leader_epoch: i32,
    /// The next offset.
    pub offset: i64,
    /// The epoch of the last batch that we hold, -1 for none.
    pub last_epoch: i32,
    /// Bytes of records at most.
    pub max_bytes: i32,
}

/// The head of a request: which session, and whether every member must be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The session's id, 0 to ask for a new one.
    pub session_id: i32,
    /// 0 for a full request, else the number of this request in its session.
    pub session_epoch: i32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Member {
    want: Option<Want>,
    /// What the broker remembers of it.
    known: Option<Want>,
    queued: bool,
}

/// The members of one connection and what the broker knows of them.
#[derive(Debug, Default)]
pub struct Session {
    id: i32,
    epoch: i32,
    members: Vec<Member>,
    /// Members whose `want` may differ from `known`; each at most once.
    changed: Vec<u32>,
    wanting: usize,
    /// The most bytes that a member asks for, and whether it must be looked for again.
    largest: i32,
    largest_left: bool,
}

impl Session {
    /// Whether no member wants anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wanting == 0
    }

    /// Members that want something.
    #[must_use]
    pub fn len(&self) -> usize {
        self.wanting
    }

    /// Sets what `member` asks for from now on; `None` takes it out of the session.
    pub fn want(&mut self, member: u32, want: Option<Want>) {
        let at = member as usize;
        if at >= self.members.len() {
            self.members.resize(at + 1, Member::default());
        }
        let entry = &mut self.members[at];
        self.wanting = self.wanting + usize::from(want.is_some()) - usize::from(entry.want.is_some());
        if let Some(want) = want {
            let before = entry.want.map_or(0, |before| before.max_bytes);
            self.largest_left |= before == self.largest && want.max_bytes < before;
            self.largest = self.largest.max(want.max_bytes);
        }
        entry.want = want;
        if entry.want != entry.known && !entry.queued {
            entry.queued = true;
            self.changed.push(member);
        }
    }

    /// What `member` asks for.
    #[must_use]
    pub fn wanted(&self, member: u32) -> Option<Want> {
        self.members.get(member as usize).and_then(|m| m.want)
    }

    /// What the request under way asks for `member`.
    #[must_use]
    pub fn asked(&self, member: u32) -> Option<Want> {
        self.members.get(member as usize).and_then(|m| m.known)
    }

    /// The most bytes that a member asks for, 1 at least.
    pub fn largest(&mut self) -> i32 {
        if std::mem::take(&mut self.largest_left) {
            self.largest = self.members.iter().filter_map(|m| m.want).map(|want| want.max_bytes).max().unwrap_or(0);
        }
        self.largest.max(1)
    }

    /// Starts a request: calls `list` for each member to list and `forget` for each that leaves the session, and takes
    /// both as known to the broker. `order` sorts the members of the request (same topic beside each other).
    pub fn begin<K: Ord>(
        &mut self,
        order: impl Fn(u32) -> K,
        mut list: impl FnMut(u32, Want),
        mut forget: impl FnMut(u32),
    ) -> Ask {
        self.changed.sort_unstable_by_key(|&member| order(member));
        let mut changed = core::mem::take(&mut self.changed);
        for member in changed.drain(..) {
            let entry = &mut self.members[member as usize];
            entry.queued = false;
            match (entry.want, entry.known) {
                (Some(want), known) if known != Some(want) => list(member, want),
                (None, Some(_)) if self.epoch != 0 => forget(member),
                _ => {}
            }
            entry.known = entry.want;
        }
        // The buffer goes back, so that a steady state allocates nothing.
        self.changed = changed;
        Ask { session_id: self.id, session_epoch: self.epoch }
    }

    /// The broker answered without an error and named this session (0: it keeps none).
    pub fn answered(&mut self, session_id: i32) {
        if session_id == 0 {
            self.start_over();
            return;
        }
        if self.epoch == 0 || self.id != session_id {
            self.id = session_id;
            self.epoch = 1;
        } else {
            self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 };
        }
    }

    /// The next request lists everything and asks for a new session: after a disconnect, a refusal to keep a session, or
    /// `FETCH_SESSION_ID_NOT_FOUND`.
    pub fn start_over(&mut self) {
        self.id = 0;
        self.restart();
    }

    /// The next request lists everything under the old id, which closes that session: after `INVALID_FETCH_SESSION_EPOCH`.
    pub fn start_over_and_close(&mut self) {
        self.restart();
    }

    fn restart(&mut self) {
        self.epoch = 0;
        for (number, entry) in self.members.iter_mut().enumerate() {
            entry.known = None;
            if entry.want.is_some() && !entry.queued {
                entry.queued = true;
                self.changed.push(number as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Want {
        Want { leader_epoch: 3, offset, last_epoch: 2, max_bytes: 1 << 20 }
    }

    fn request(session: &mut Session) -> (Ask, Vec<u32>, Vec<u32>) {
        let (mut listed, mut forgotten) = (Vec::new(), Vec::new());
        let ask = session.begin(|m| m, |m, _| listed.push(m), |m| forgotten.push(m));
        (ask, listed, forgotten)
    }

    #[test]
    fn a_new_session_lists_everything_and_then_only_what_changed() {
        let mut session = Session::default();
        session.want(0, Some(at(0)));
        session.want(1, Some(at(0)));
        assert_eq!(request(&mut session), (Ask { session_id: 0, session_epoch: 0 }, vec![0, 1], vec![]));
        session.answered(77);
        assert_eq!(request(&mut session), (Ask { session_id: 77, session_epoch: 1 }, vec![], vec![]));
        session.answered(77);
        session.want(1, Some(at(9)));
        assert_eq!(request(&mut session), (Ask { session_id: 77, session_epoch: 2 }, vec![1], vec![]));
    }

    #[test]
    fn a_member_that_wants_nothing_is_forgotten_once_and_may_return() {
        let mut session = Session::default();
        session.want(0, Some(at(0)));
        session.want(1, Some(at(0)));
        request(&mut session);
        session.answered(5);
        session.want(0, None);
        assert_eq!(session.len(), 1);
        assert_eq!(request(&mut session).2, vec![0]);
        session.answered(5);
        assert_eq!(request(&mut session), (Ask { session_id: 5, session_epoch: 2 }, vec![], vec![]));
        session.answered(5);
        session.want(0, Some(at(0)));
        assert_eq!(request(&mut session).1, vec![0]);
    }

    #[test]
    fn a_broker_that_keeps_no_session_is_told_everything_each_time() {
        let mut session = Session::default();
        session.want(0, Some(at(0)));
        for _ in 0..3 {
            assert_eq!(request(&mut session), (Ask { session_id: 0, session_epoch: 0 }, vec![0], vec![]));
            session.answered(0);
        }
    }

    #[test]
    fn what_was_asked_and_the_largest_share_are_known_without_looking_at_every_member() {
        let mut session = Session::default();
        let want = |max_bytes| Some(Want { max_bytes, ..at(0) });
        session.want(0, want(10));
        session.want(1, want(30));
        assert_eq!((session.largest(), session.asked(1)), (30, None));
        request(&mut session);
        session.want(1, want(20));
        assert_eq!((session.largest(), session.asked(1)), (20, want(30)), "asked is what was sent");
        session.want(1, None);
        session.want(0, want(15));
        assert_eq!(session.asked(7), None);
        session.start_over();
        assert_eq!(session.asked(1), None);
    }

    #[test]
    fn a_lost_session_starts_over_and_a_wrong_epoch_closes_the_old_id() {
        let mut session = Session::default();
        session.want(0, Some(at(0)));
        request(&mut session);
        session.answered(9);
        session.start_over_and_close();
        assert_eq!(request(&mut session), (Ask { session_id: 9, session_epoch: 0 }, vec![0], vec![]));
        session.start_over();
        assert_eq!(request(&mut session), (Ask { session_id: 0, session_epoch: 0 }, vec![0], vec![]));
    }

    #[test]
    fn the_number_of_a_request_wraps_to_one() {
        let mut session = Session { id: 4, epoch: i32::MAX, ..Session::default() };
        session.answered(4);
        assert_eq!(request(&mut session).0, Ask { session_id: 4, session_epoch: 1 });
    }

    #[test]
    fn a_want_that_changed_back_is_not_listed() {
        let mut session = Session::default();
        session.want(0, Some(at(0)));
        request(&mut session);
        session.answered(4);
        session.want(0, Some(at(1)));
        session.want(0, Some(at(0)));
        assert_eq!(request(&mut session).1, Vec::<u32>::new());
    }
}
