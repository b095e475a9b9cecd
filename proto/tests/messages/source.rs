//! Where samples come from: a seeded stream of small values that differ from the defaults.

use twinlog_proto::ids::Uuid;

/// A value of this struct that version `version` can carry.
pub(crate) trait Sample {
    fn sample(source: &mut Source, version: i16) -> Self;
}

pub(crate) struct Source {
    state: u64,
}

impl Source {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// splitmix64.
    pub(crate) fn number(&mut self) -> i64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).cast_signed()
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.number().cast_unsigned() % bound as u64) as usize
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.number() & 4 == 0
    }

    pub(crate) fn text(&mut self) -> String {
        ["", "a", "orders.eu-1", "grün", "127.0.0.1:9092", "0123456789 0123456789 0123456789"][self.below(6)].to_owned()
    }

    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        (0..self.below(6)).map(|_| self.number() as u8).collect()
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        let (high, low) = (self.number().to_be_bytes(), self.number().to_be_bytes());
        Uuid([high, low].concat().try_into().expect("two halves of 8 bytes"))
    }

    pub(crate) fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(3)).map(|_| element(self)).collect()
    }

    pub(crate) fn noise(&mut self) -> Vec<u8> {
        // Mostly small bytes: they make valid counts, lengths and tags, so that decoders get past the first field.
        (0..self.below(400)).map(|_| if self.coin() { self.number() as u8 & 3 } else { self.number() as u8 }).collect()
    }
}
