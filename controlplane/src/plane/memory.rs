//! pure: what is known of the memory that the planes share: damage found here, what the data plane tells, and what is said of it.
//!
//! Damage that this plane finds is told to the data plane once for each region (`hello`): it decides when there is another one.

use twinlog_proto::channel::damage::Damage;
use twinlog_proto::channel::handshake::{Hello, Memory, Standing};

/// Damage that is over stays a reason of `/health` for this long, lest whoever looks once a minute misses it, in ms ...
const REASON_MS: i64 = 60_000;
/// ... and a warning for this long, in ms.
const WARNING_MS: i64 = 24 * 3_600_000;

/// See the module text.
#[derive(Debug, Default)]
pub struct SharedMemory {
    /// Of the present region; 0 before the first.
    generation: u64,
    told: Memory,
    /// What was found first in the present region, and how it showed.
    found: Option<(Damage, String)>,
    /// The region of which the data plane was told.
    said_of: Option<u64>,
    found_total: u64,
}

/// The numbers of it, for metrics and health.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// It is damaged now.
    pub damaged: bool,
    /// How often the attached data plane made it anew.
    pub renewed: u32,
    /// How often this plane found damage.
    pub found: u64,
    /// What is wrong with it, or was lately.
    pub reason: Option<String>,
    /// What was wrong with it, once it is no reason any more.
    pub warning: Option<String>,
}

impl SharedMemory {
    /// What to say to the data plane next.
    #[must_use]
    pub fn hello(&self) -> Hello {
        match self.found {
            Some((damage, _)) if self.said_of != Some(self.generation) => {
                Hello::Damaged { generation: self.generation, damage }
            }
            _ => Hello::Control,
        }
    }

    /// A region came, after `hello` was said; true when it is another one than before, from a data plane that had one before.
    pub fn attached(&mut self, hello: Hello, generation: u64, told: Memory) -> bool {
        if let Hello::Damaged { generation, .. } = hello {
            self.said_of = Some(generation);
        }
        if generation != self.generation {
            (self.generation, self.found) = (generation, None);
        }
        let renewed = told.renewed > self.told.renewed;
        self.told = told;
        renewed
    }

    /// Damage in the region with this generation; true when it is the first of it, so that the data plane is to be told.
    pub fn find(&mut self, generation: u64, damage: Damage, detail: String) -> bool {
        if generation != self.generation {
            (self.generation, self.found) = (generation, None);
        }
        let first = self.found.is_none();
        if first {
            self.found = Some((damage, detail));
            self.found_total += 1;
        }
        first && self.said_of != Some(generation)
    }

    /// The data plane ended, or another one came: nothing is known of its memory.
    pub fn forget(&mut self) {
        *self = Self { found_total: self.found_total, ..Self::default() };
    }

    /// What is said of it at `now_ms` since 1970.
    #[must_use]
    pub fn facts(&self, now_ms: i64) -> MemoryFacts {
        let damaged = self.found.is_some() || self.told.standing != Standing::Sound;
        let reason = self.reason(now_ms);
        let warning = self.past(now_ms, WARNING_MS).filter(|_| reason.is_none());
        MemoryFacts { damaged, renewed: self.told.renewed, found: self.found_total, reason, warning }
    }

    fn reason(&self, now_ms: i64) -> Option<String> {
        let told = &self.told;
        let place = match (&self.found, told.damage) {
            (Some((damage, detail)), _) => format!("{damage}: {detail}"),
            (None, Some(damage)) => damage.to_string(),
            (None, None) => "somewhere".to_owned(),
        };
        match told.standing {
            Standing::GivenUp => Some(format!(
                "the shared memory is damaged ({place}), as each time that it was made anew ({} times); it is left as it is \
                 for 10 minutes and orders may not arrive: find who writes into it, then restart the data plane",
                told.renewed
            )),
            Standing::Waiting => Some(format!(
                "the shared memory is damaged again ({place}); it is made anew within a minute: find who writes into it"
            )),
            Standing::Sound if self.found.is_some() => {
                Some(format!("the shared memory is damaged ({place}); the data plane is asked to make it anew"))
            }
            Standing::Sound => self.past(now_ms, REASON_MS),
        }
    }

    /// Damage that is over, for `shown_ms` after it was found. A clock that was set back hides nothing.
    fn past(&self, now_ms: i64, shown_ms: i64) -> Option<String> {
        let Memory { renewed, damage: Some(damage), damaged_at_ms, .. } = self.told else { return None };
        let ago_ms = now_ms.saturating_sub(damaged_at_ms).max(0);
        (ago_ms < shown_ms).then(|| {
            format!(
                "the shared memory was damaged {} s ago ({damage}) and made anew, {renewed} times since the data plane \
                 started: find who writes into it",
                ago_ms / 1000
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::channel::damage::Part;

    const SLOT: Damage = Damage { part: Part::Slot, index: 3 };

    fn told(renewed: u32, standing: Standing) -> Memory {
        Memory { renewed, standing, damage: Some(SLOT), damaged_at_ms: 1_000_000 }
    }

    #[test]
    fn the_data_plane_is_told_once_of_each_region() {
        let mut memory = SharedMemory::default();
        assert!(!memory.attached(Hello::Control, 5, Memory::default()));
        assert_eq!(memory.hello(), Hello::Control);
        assert!(memory.find(5, SLOT, "odd".into()));
        assert!(!memory.find(5, SLOT, "odd".into()), "once");
        let hello = memory.hello();
        assert_eq!(hello, Hello::Damaged { generation: 5, damage: SLOT });
        // It is not made anew yet: the same region came again.
        assert!(!memory.attached(hello, 5, told(0, Standing::Waiting)));
        assert_eq!(memory.hello(), Hello::Control);
        assert!(!memory.find(5, SLOT, "odd".into()), "it knows");
        assert!(memory.attached(Hello::Control, 6, told(1, Standing::Sound)));
        assert!(memory.find(6, Damage::HEADER, "odd".into()));
        assert_eq!(memory.hello(), Hello::Damaged { generation: 6, damage: Damage::HEADER });
        assert_eq!(memory.facts(0).found, 2);
    }

    #[test]
    fn what_is_said_lasts_as_long_as_the_damage_and_a_minute_more() {
        let mut memory = SharedMemory::default();
        memory.attached(Hello::Control, 5, Memory::default());
        let says = |memory: &SharedMemory, now_ms| {
            let facts = memory.facts(now_ms);
            (facts.damaged, facts.reason.unwrap_or_default(), facts.warning.unwrap_or_default())
        };
        assert_eq!(says(&memory, 0), (false, String::new(), String::new()));
        memory.find(5, SLOT, "odd".into());
        let (damaged, reason, warning) = says(&memory, 0);
        assert!(damaged && reason.contains("slot 3 of the board: odd") && warning.is_empty(), "{reason}");
        memory.attached(Hello::Control, 6, told(1, Standing::Sound));
        let (damaged, reason, warning) = says(&memory, 1_002_000);
        assert!(!damaged && reason.contains("2 s ago") && warning.is_empty(), "{reason} {warning}");
        let (_, reason, warning) = says(&memory, 1_000_000 + REASON_MS);
        assert!(reason.is_empty() && warning.contains("1 times"), "{warning}");
        assert_eq!(says(&memory, 1_000_000 + WARNING_MS), (false, String::new(), String::new()));
        memory.attached(Hello::Control, 6, told(1, Standing::Waiting));
        assert!(says(&memory, i64::MAX).1.contains("within a minute"));
        memory.attached(Hello::Control, 6, told(8, Standing::GivenUp));
        let (damaged, reason, warning) = says(&memory, i64::MAX);
        assert!(damaged && reason.contains("8 times") && reason.contains("restart") && warning.is_empty(), "{reason}");
        memory.forget();
        assert_eq!(says(&memory, 1_002_000), (false, String::new(), String::new()));
    }
}
