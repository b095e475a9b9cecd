//! What is remembered of each source between two questions, and who asks it now. Never written anywhere.

use crate::limits::GONE_AFTER;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// All mirrors.
#[derive(Debug, Default)]
pub struct Rounds {
    own_cluster_id: RefCell<Rc<str>>,
    mirrors: RefCell<BTreeMap<String, Rc<Asker>>>,
}

/// One mirror; whoever holds `turn` asks its source.
#[derive(Debug, Default)]
pub struct Asker {
    /// Held from the question until its answer is taken in.
    pub turn: Mutex<()>,
    /// What is remembered.
    pub round: RefCell<Round>,
}

/// What is remembered of a mirror between two questions.
#[derive(Debug)]
pub struct Round {
    /// When the last question ended.
    pub last: Instant,
    /// When it was last looked whether the next one is due.
    pub looked: Option<Instant>,
    /// Whether the next one is on its way.
    pub asking: bool,
    /// Whether the last one was answered.
    pub answered: bool,
    /// Topics that the source lacked the last time, and since when.
    lacking: BTreeMap<String, Instant>,
    /// What was said after the last answer.
    pub said: Vec<String>,
}

impl Default for Round {
    fn default() -> Self {
        Self {
            last: Instant::now(),
            looked: None,
            asking: false,
            answered: true,
            lacking: BTreeMap::new(),
            said: Vec::new(),
        }
    }
}

impl Rounds {
    /// From now on our own cluster has this id.
    pub fn set_own_cluster_id(&self, id: Rc<str>) {
        *self.own_cluster_id.borrow_mut() = id;
    }

    /// Our own cluster's id.
    #[must_use]
    pub fn own_cluster_id(&self) -> Rc<str> {
        Rc::clone(&self.own_cluster_id.borrow())
    }

    /// What is remembered of a mirror.
    #[must_use]
    pub fn of(&self, mirror: &str) -> Rc<Asker> {
        if let Some(known) = self.mirrors.borrow().get(mirror) {
            return Rc::clone(known);
        }
        Rc::clone(self.mirrors.borrow_mut().entry(mirror.to_owned()).or_default())
    }

    /// Forgets mirrors that are not there any more.
    pub fn retain(&self, exists: impl Fn(&str) -> bool) {
        self.mirrors.borrow_mut().retain(|mirror, _| exists(mirror));
    }
}

impl Round {
    /// The topics that were lacking in the last answer too, and for long enough that no broker can be that late. With `forget`
    /// this answer counts for nothing the next time.
    pub fn gone(&mut self, absent: &BTreeSet<String>, now: Instant, forget: bool) -> BTreeSet<String> {
        let since = |name: &String| self.lacking.get(name).copied().unwrap_or(now);
        let found: BTreeMap<String, Instant> = absent.iter().map(|name| (name.clone(), since(name))).collect();
        let lasts =
            |(name, since): (&String, &Instant)| (now.duration_since(*since) >= GONE_AFTER).then(|| name.clone());
        let gone = found.iter().filter_map(lasts).collect();
        if !forget {
            self.lacking = found;
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_gone_when_it_lacks_twice_and_long_enough_and_not_when_it_was_there_between() {
        let (mut round, start) = (Round::default(), Instant::now());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        assert!(round.gone(&names(&["a", "b"]), start, false).is_empty(), "once");
        assert!(round.gone(&names(&["a"]), start + GONE_AFTER / 2, false).is_empty(), "twice and too soon");
        let dry = round.gone(&names(&["b"]), start + GONE_AFTER, true);
        assert!(dry.is_empty(), "b was there between");
        let gone = round.gone(&names(&["a", "b"]), start + GONE_AFTER, false);
        assert_eq!(gone, names(&["a"]), "what a dry run saw was not remembered");
        assert!(round.gone(&names(&[]), start + GONE_AFTER, false).is_empty() && round.lacking.is_empty());
    }
}
