//! What the host says about itself: read and parsed, without an opinion. An absent file is `None`, never a guess.

pub mod cpu;
pub mod kernel;
pub mod memory;
pub mod tcp;

use crate::root::Root;
use serde::Serialize;

/// Everything that the rules look at.
#[derive(Debug, Clone, Serialize)]
pub struct Facts {
    /// Processors.
    pub cpu: cpu::Cpu,
    /// Kernel and io_uring.
    pub kernel: kernel::Kernel,
    /// Huge pages, locked memory, mappings.
    pub memory: memory::Memory,
    /// Socket buffers and congestion control.
    pub tcp: tcp::Tcp,
}

impl Facts {
    /// Reads all facts below `root`.
    ///
    /// # Errors
    /// When a file is there and cannot be read or understood; the message names it.
    pub fn read(root: &Root) -> Result<Self, String> {
        Ok(Self {
            cpu: cpu::Cpu::read(root)?,
            kernel: kernel::Kernel::read(root)?,
            memory: memory::Memory::read(root)?,
            tcp: tcp::Tcp::read(root)?,
        })
    }
}
