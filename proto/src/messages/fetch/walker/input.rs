//! pure: elements of a frame out of pieces cut at any byte, each checked against what is left of the frame.

use crate::error::{DecodeError, Malformed};

/// The name in errors.
pub(super) const WHAT: &str = "Fetch response";
/// The longest fixed element, rounded up.
const CARRY_BYTES: usize = 32;
const VARINT_SHIFT_MAX: u32 = 28;

/// Where in the frame the walk is, and the element that a piece cut through.
#[derive(Debug, Clone)]
pub(super) struct Input {
    frame_bytes: usize,
    left: usize,
    /// What will be left of the frame at the end of the tag that is being read; 0 outside of tags.
    floor: usize,
    skip: usize,
    carry: [u8; CARRY_BYTES],
    carry_bytes: usize,
    varint: u32,
    varint_shift: u32,
}

impl Input {
    pub(super) fn new(frame_bytes: usize) -> Self {
        Self {
            frame_bytes,
            left: frame_bytes,
            floor: 0,
            skip: 0,
            carry: [0; CARRY_BYTES],
            carry_bytes: 0,
            varint: 0,
            varint_shift: 0,
        }
    }

    /// Bytes of the frame that were not taken.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Bytes that an element may have here.
    pub(super) fn available(&self) -> usize {
        self.left - self.floor
    }

    pub(super) fn error(&self, why: Malformed) -> DecodeError {
        DecodeError { what: WHAT, at: self.frame_bytes - self.left, why }
    }

    /// An element of `N` bytes.
    pub(super) fn fixed<const N: usize>(&mut self, rest: &mut &[u8]) -> Result<Option<[u8; N]>, DecodeError> {
        const { assert!(N <= CARRY_BYTES, "a fixed element fits the carry") };
        let need = N - self.carry_bytes;
        self.require(need)?;
        let mut value = [0; N];
        if need == N && rest.len() >= N {
            value.copy_from_slice(self.take(rest, N));
            return Ok(Some(value));
        }
        let bytes = self.take(rest, need);
        self.carry[self.carry_bytes..self.carry_bytes + bytes.len()].copy_from_slice(bytes);
        self.carry_bytes += bytes.len();
        if self.carry_bytes < N {
            return Ok(None);
        }
        self.carry_bytes = 0;
        value.copy_from_slice(&self.carry[..N]);
        Ok(Some(value))
    }

    /// An unsigned varint of at most 32 bits.
    pub(super) fn uvarint(&mut self, rest: &mut &[u8]) -> Result<Option<u32>, DecodeError> {
        loop {
            self.require(1)?;
            let &[byte] = self.take(rest, 1) else {
                return Ok(None);
            };
            if self.varint_shift == VARINT_SHIFT_MAX && byte > 0x0f {
                return Err(self.error(Malformed::VarintTooLong));
            }
            self.varint |= u32::from(byte & 0x7f) << self.varint_shift;
            self.varint_shift += 7;
            if byte & 0x80 == 0 {
                let value = self.varint;
                (self.varint, self.varint_shift) = (0, 0);
                return Ok(Some(value));
            }
        }
    }

    /// A length or count, -1 for null: a varint less one, or 32 bits.
    pub(super) fn length(&mut self, rest: &mut &[u8], flexible: bool) -> Result<Option<i64>, DecodeError> {
        if flexible {
            return Ok(self.uvarint(rest)?.map(|value| i64::from(value) - 1));
        }
        match self.fixed(rest)?.map(i32::from_be_bytes) {
            Some(value) if value < -1 => Err(self.out_of_bounds(value.into(), self.available())),
            value => Ok(value.map(i64::from)),
        }
    }

    /// `count` elements of at least `bytes_min` each, if the frame can hold them; null when there may be none.
    pub(super) fn count(&self, count: i64, bytes_min: usize) -> Result<Option<u32>, DecodeError> {
        let max = self.available() / bytes_min;
        match u32::try_from(count) {
            Ok(found) if found as usize <= max => Ok(Some(found)),
            Ok(_too_many) => Err(self.out_of_bounds(count, max)),
            Err(_null) => Ok(None),
        }
    }

    /// `length` bytes, if the frame can hold them; null when there may be none.
    pub(super) fn bytes(&self, length: i64) -> Result<Option<usize>, DecodeError> {
        Ok(self.count(length, 1)?.map(|length| length as usize))
    }

    /// Copies a text of `len` bytes; true once it is whole. `filled` counts what is there.
    pub(super) fn text(&mut self, rest: &mut &[u8], out: &mut [u8], filled: &mut usize) -> Result<bool, DecodeError> {
        let need = out.len() - *filled;
        self.require(need)?;
        let bytes = self.take(rest, need);
        out[*filled..*filled + bytes.len()].copy_from_slice(bytes);
        *filled += bytes.len();
        Ok(*filled == out.len())
    }

    /// The next bytes of a region of which `need` are missing; empty when the piece is.
    pub(super) fn region<'p>(&mut self, rest: &mut &'p [u8], need: usize) -> Result<&'p [u8], DecodeError> {
        self.require(need)?;
        Ok(self.take(rest, need))
    }

    /// Passes over the next `bytes`; [`Input::skip`] does it.
    pub(super) fn begin_skip(&mut self, bytes: usize) -> Result<(), DecodeError> {
        self.require(bytes)?;
        self.skip = bytes;
        Ok(())
    }

    /// Goes on with what is being passed over; true when nothing is.
    pub(super) fn skip(&mut self, rest: &mut &[u8]) -> bool {
        self.skip -= self.take(rest, self.skip).len();
        self.skip == 0
    }

    /// Bounds the elements that follow by the end of a tag of `bytes`.
    pub(super) fn enter_tag(&mut self, bytes: usize) -> Result<(), DecodeError> {
        self.require(bytes)?;
        self.floor = self.left - bytes;
        Ok(())
    }

    /// Passes over what the elements left of the tag.
    pub(super) fn leave_tag(&mut self) {
        self.skip = self.available();
        self.floor = 0;
    }

    pub(super) fn out_of_bounds(&self, found: i64, max: usize) -> DecodeError {
        self.error(Malformed::OutOfBounds { found, max: i64::try_from(max).unwrap_or(i64::MAX) })
    }

    pub(super) fn require(&self, bytes: usize) -> Result<(), DecodeError> {
        match bytes.checked_sub(self.available()) {
            None | Some(0) => Ok(()),
            Some(missing) => Err(self.error(Malformed::Truncated { missing })),
        }
    }

    fn take<'p>(&mut self, rest: &mut &'p [u8], want: usize) -> &'p [u8] {
        let (taken, left) = rest.split_at(want.min(rest.len()));
        *rest = left;
        self.left -= taken.len();
        taken
    }
}
