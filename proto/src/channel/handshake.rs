//! pure: the words of the handshake on `STATE/channel.sock`, as both ends of it (`attach`) send them.
//!
//! ```text
//! client -> data plane   1 byte: 'C' control plane, 'O' observer; or 17 bytes: 'D' a control plane that found the region damaged,
//!                        its generation 8, what was damaged 8
//! data plane -> client   56 bytes: magic 8 | layout version 8 | generation 8 | status 4 | cores 4 | regions made anew 4 |
//!                        standing 4 | last damage 8 | its time 8, machine byte order
//! ```

use super::damage::Damage;
use super::layout::MAGIC;

/// What a client wants to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hello {
    /// The control plane: one at a time.
    Control,
    /// One who looks.
    Observer,
    /// The control plane, which saw damage in the region with this generation and asks for another one.
    Damaged {
        /// Of the damaged region.
        generation: u64,
        /// What was damaged.
        damage: Damage,
    },
}

/// Bytes of the longest [`Hello`].
pub const HELLO_BYTES_MAX: usize = 17;

impl Hello {
    /// The bytes to send.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Control => vec![b'C'],
            Self::Observer => vec![b'O'],
            Self::Damaged { generation, damage } => {
                [&[b'D'][..], &generation.to_ne_bytes(), &damage.to_word().to_ne_bytes()].concat()
            }
        }
    }

    /// Reads received bytes; `None` when no client sends them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [b'C'] => Some(Self::Control),
            [b'O'] => Some(Self::Observer),
            [b'D', words @ ..] if words.len() == HELLO_BYTES_MAX - 1 => {
                Some(Self::Damaged { generation: long(words, 0)?, damage: Damage::from_word(long(words, 8)?)? })
            }
            _ => None,
        }
    }

    /// Whether the client wants to be the control plane.
    #[must_use]
    pub fn is_control(self) -> bool {
        self != Self::Observer
    }
}

/// How the data plane answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Welcome; descriptors follow.
    Welcome = 0,
    /// The first bytes were no role.
    NoSuchRole = 1,
    /// Too many clients already.
    TooManyClients = 2,
    /// The data plane could not get the descriptors ready.
    Internal = 3,
}

/// How the region that is handed out stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Standing {
    /// No damage is known.
    #[default]
    Sound = 0,
    /// It is damaged, and is made anew within a minute.
    Waiting = 1,
    /// It was damaged each time that it was made anew, and is left as it is for long.
    GivenUp = 2,
}

/// What the data plane tells of the region's past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// How often the region was made anew since the data plane started.
    pub renewed: u32,
    /// How it stands now.
    pub standing: Standing,
    /// What was damaged last; `None`: nothing since the data plane started.
    pub damage: Option<Damage>,
    /// When, in milliseconds since 1970; 0: never.
    pub damaged_at_ms: i64,
}

/// The fixed part of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Layout version of the data plane.
    pub layout_version: u64,
    /// Generation of its region.
    pub generation: u64,
    /// Whether the client is in.
    pub status: Status,
    /// Cores of the data plane.
    pub cores: u32,
    /// The region's past.
    pub memory: Memory,
}

/// Bytes of a [`Reply`].
pub const REPLY_BYTES: usize = 56;

impl Reply {
    /// The bytes to send.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REPLY_BYTES] {
        let memory = &self.memory;
        let mut bytes = [0; REPLY_BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.layout_version.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_ne_bytes());
        bytes[24..28].copy_from_slice(&(self.status as u32).to_ne_bytes());
        bytes[28..32].copy_from_slice(&self.cores.to_ne_bytes());
        bytes[32..36].copy_from_slice(&memory.renewed.to_ne_bytes());
        bytes[36..40].copy_from_slice(&(memory.standing as u32).to_ne_bytes());
        bytes[40..48].copy_from_slice(&memory.damage.map_or(0, Damage::to_word).to_ne_bytes());
        bytes[48..].copy_from_slice(&memory.damaged_at_ms.to_ne_bytes());
        bytes
    }

    /// Reads received bytes; `None` when no data plane of this version sends them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; REPLY_BYTES]) -> Option<Self> {
        let layout_version = version_of(bytes)?;
        let (status, standing) = (short(bytes, 24)?, short(bytes, 36)?);
        let all = [Status::Welcome, Status::NoSuchRole, Status::TooManyClients, Status::Internal];
        let status = all.into_iter().find(|known| *known as u32 == status)?;
        let all = [Standing::Sound, Standing::Waiting, Standing::GivenUp];
        let standing = all.into_iter().find(|known| *known as u32 == standing)?;
        let damage = match long(bytes, 40)? {
            0 => None,
            word => Some(Damage::from_word(word)?),
        };
        let damaged_at_ms = long(bytes, 48)?.cast_signed();
        let memory = Memory { renewed: short(bytes, 32)?, standing, damage, damaged_at_ms };
        Some(Self { layout_version, generation: long(bytes, 16)?, status, cores: short(bytes, 28)?, memory })
    }
}

/// The layout version in an answer of any version; `None` when no data plane sends it.
#[must_use]
pub fn version_of(bytes: &[u8]) -> Option<u64> {
    (long(bytes, 0)? == MAGIC).then(|| long(bytes, 8))?
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::damage::Part;
    use super::super::layout::LAYOUT_VERSION;
    use super::*;

    #[test]
    fn what_is_sent_is_what_is_received_and_anything_else_is_refused() {
        let damage = Damage::of(Part::EventRing, 3);
        for hello in [Hello::Control, Hello::Observer, Hello::Damaged { generation: 9, damage }] {
            assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello));
        }
        for wrong in [&b""[..], b"X", b"CC", b"D", &[b'D'; HELLO_BYTES_MAX]] {
            assert_eq!(Hello::from_bytes(wrong), None, "{wrong:?}");
        }
        let memory = Memory { renewed: 2, standing: Standing::GivenUp, damage: Some(damage), damaged_at_ms: -5 };
        let reply =
            Reply { layout_version: LAYOUT_VERSION, generation: 7, status: Status::Welcome, cores: 120, memory };
        let bytes = reply.to_bytes();
        assert_eq!(Reply::from_bytes(&bytes), Some(reply));
        for at in [0, 24, 36, 44] {
            let mut wrong = bytes;
            wrong[at] ^= 0x40;
            assert_eq!(Reply::from_bytes(&wrong), None, "byte {at}");
        }
        assert_eq!(version_of(&bytes[..32]), Some(LAYOUT_VERSION), "also of an answer that is shorter");
    }
}
