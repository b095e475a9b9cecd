//! Who may connect: so many connections, so many of one address, and whom to ask to leave when room is needed.
//!
//! A connection waits (for a request, or for the rest of one) or is being served. Only one that waits is ever asked to leave,
//! the longest waiting first, so that idle clients and slow senders cannot keep others out.

use super::counters::{Cause, Counters};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::rc::Rc;
use tokio::sync::Notify;

/// The register of the connections of one listener.
#[derive(Debug)]
pub struct Gate {
    connections_max: usize,
    of_one_address_max: usize,
    counters: Rc<Counters>,
    inside: RefCell<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    next: u64,
    entries: HashMap<u64, Entry>,
    /// Connections that wait, by when they began to.
    waiting: BTreeMap<u64, u64>,
    by_address: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    waiting_since: Option<u64>,
    leave: Rc<Notify>,
}

/// A connection that was let in. Dropped, it makes room.
#[derive(Debug)]
pub struct Ticket {
    id: u64,
    gate: Rc<Gate>,
    leave: Rc<Notify>,
}

impl Gate {
    /// A gate; what it turns away is counted.
    #[must_use]
    pub fn new(connections_max: usize, of_one_address_max: usize, counters: Rc<Counters>) -> Rc<Self> {
        Rc::new(Self { connections_max, of_one_address_max, counters, inside: RefCell::default() })
    }

    /// Connections inside.
    #[must_use]
    pub fn open(&self) -> usize {
        self.inside.borrow().entries.len()
    }

    /// Lets a connection in; at the limit, the one that waits longest is asked to leave first. `None` when it has to go away.
    #[must_use]
    pub fn enter(self: &Rc<Self>, address: IpAddr) -> Option<Ticket> {
        let of_address = self.inside.borrow().by_address.get(&address).copied().unwrap_or(0);
        if of_address >= self.of_one_address_max {
            self.counters.count(Cause::Address);
            return None;
        }
        if self.open() >= self.connections_max && !self.evict() {
            self.counters.count(Cause::Full);
            return None;
        }
        let leave = Rc::new(Notify::new());
        let mut inside = self.inside.borrow_mut();
        let id = inside.tick();
        inside.entries.insert(id, Entry { address, waiting_since: Some(id), leave: Rc::clone(&leave) });
        inside.waiting.insert(id, id);
        *inside.by_address.entry(address).or_default() += 1;
        drop(inside);
        Some(Ticket { id, gate: Rc::clone(self), leave })
    }

    /// Asks the connection that waits longest to leave, and makes its room free at once; false when none waits.
    pub fn evict(&self) -> bool {
        let mut inside = self.inside.borrow_mut();
        let Some((_, id)) = inside.waiting.pop_first() else { return false };
        if let Some(entry) = inside.remove(id) {
            entry.leave.notify_one();
        }
        drop(inside);
        self.counters.count(Cause::Evicted);
        true
    }
}

impl Inside {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        if let Some(since) = entry.waiting_since {
            self.waiting.remove(&since);
        }
        if let Some(count) = self.by_address.get_mut(&entry.address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&entry.address);
            }
        }
        Some(entry)
    }
}

impl Ticket {
    /// Done when the connection is asked to leave.
    pub async fn asked_to_leave(&self) {
        self.leave.notified().await;
    }

    /// A request is being served from now on: the connection is not asked to leave.
    pub fn serves(&self) {
        let mut inside = self.gate.inside.borrow_mut();
        let since = inside.entries.get_mut(&self.id).and_then(|entry| entry.waiting_since.take());
        if let Some(since) = since {
            inside.waiting.remove(&since);
        }
    }

    /// The connection waits from now on.
    pub fn waits(&self) {
        self.serves();
        let mut inside = self.gate.inside.borrow_mut();
        let now = inside.tick();
        if let Some(entry) = inside.entries.get_mut(&self.id) {
            entry.waiting_since = Some(now);
            inside.waiting.insert(now, self.id);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        drop(self.gate.inside.borrow_mut().remove(self.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn left(ticket: &Ticket) -> bool {
        use std::future::Future;
        let mut asked = std::pin::pin!(ticket.asked_to_leave());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        asked.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn at_the_limit_the_one_that_waits_longest_leaves_and_what_is_served_stays() {
        let counters = Rc::new(Counters::default());
        let gate = Gate::new(3, 9, Rc::clone(&counters));
        let [first, second, third] = [1, 2, 3].map(|last| gate.enter(address(last)).unwrap());
        first.serves();
        second.serves();
        second.waits();
        let fourth = gate.enter(address(4)).unwrap();
        assert_eq!((left(&first), left(&second), left(&third)), (false, false, true), "third waits longest");
        assert_eq!((gate.open(), counters.of(Cause::Evicted)), (3, 1));
        second.serves();
        fourth.serves();
        assert!(gate.enter(address(5)).is_none(), "all are being served");
        assert_eq!(counters.of(Cause::Full), 1);
        drop(third);
        assert_eq!(gate.open(), 3, "it had left already");
        drop((first, second, fourth));
        assert_eq!((gate.open(), gate.inside.borrow().by_address.len(), gate.inside.borrow().waiting.len()), (0, 0, 0));
    }

    #[test]
    fn one_address_cannot_take_all_the_room() {
        let counters = Rc::new(Counters::default());
        let gate = Gate::new(5, 2, Rc::clone(&counters));
        let _two = [gate.enter(address(1)).unwrap(), gate.enter(address(1)).unwrap()];
        assert!(gate.enter(address(1)).is_none() && gate.enter(address(2)).is_some());
        assert_eq!(counters.of(Cause::Address), 1);
    }
}
