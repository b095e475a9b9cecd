//! pure: how long to wait before the next try. Exponential with full jitter, per partition or per connection.

/// A bounded, growing pause.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    first_ms: u64,
    max_ms: u64,
    tries: u32,
}

impl Backoff {
    /// The first pause is up to `first_ms`, no pause is above `max_ms`.
    #[must_use]
    pub const fn new(first_ms: u64, max_ms: u64) -> Self {
        Self { first_ms, max_ms, tries: 0 }
    }

    /// Tries since the last success.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// It worked: start small the next time.
    pub fn reset(&mut self) {
        self.tries = 0;
    }

    /// The pause before the next try, in ms: between a half and the whole of the exponential step, spread by `random`.
    pub fn next_ms(&mut self, random: u64) -> u64 {
        let step = self.first_ms.saturating_mul(1 << self.tries.min(16)).min(self.max_ms).max(1);
        self.tries = self.tries.saturating_add(1);
        step / 2 + random % (step - step / 2 + 1)
    }
}

/// A small generator for jitter; not for secrets.
#[derive(Debug, Clone)]
pub struct Jitter(u64);

impl Jitter {
    /// Starts from any seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// The next number (xorshift64*).
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_never_vanish() {
        let mut jitter = Jitter::new(7);
        let mut backoff = Backoff::new(100, 5_000);
        for (tries, step) in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000].into_iter().enumerate() {
            assert_eq!(backoff.tries() as usize, tries);
            let pause = backoff.next_ms(jitter.draw());
            assert!((step / 2..=step).contains(&pause), "try {tries}: {pause} ms of {step}");
        }
        for _ in 0..100 {
            assert!(backoff.next_ms(jitter.draw()) <= 5_000);
        }
        backoff.reset();
        assert!(backoff.next_ms(jitter.draw()) <= 100);
    }

    #[test]
    fn a_backoff_of_nothing_still_pauses() {
        assert_eq!(Backoff::new(0, 0).next_ms(u64::MAX), 1);
    }
}
