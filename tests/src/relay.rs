//! An address that moves from one broker to another, as a name or a virtual address does: clients that know it alone find the new broker by
//! it when the old one is gone.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The address.
#[derive(Debug)]
pub struct Relay {
    address: String,
    target: Arc<Mutex<String>>,
}

impl Relay {
    /// One that leads to `target`, for as long as the test runs.
    ///
    /// # Panics
    /// When the host has no free port.
    #[must_use]
    pub fn to(target: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on 127.0.0.1");
        let address = listener.local_addr().expect("a bound listener has an address").to_string();
        let target = Arc::new(Mutex::new(target.to_owned()));
        let led = Arc::clone(&target);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let to = led.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // Nobody is there: the client's connection is closed, as it would be refused.
                if let Ok(broker) = TcpStream::connect(&to) {
                    joined(client, broker).ok();
                }
            }
        });
        Self { address, target }
    }

    /// `HOST:PORT` for clients.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// New connections lead to `target`.
    pub fn moves_to(&self, target: &str) {
        target.clone_into(&mut self.target.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Carries bytes both ways until either side ends.
fn joined(client: TcpStream, broker: TcpStream) -> io::Result<()> {
    for (mut from, mut to) in [(client.try_clone()?, broker.try_clone()?), (broker, client)] {
        thread::spawn(move || {
            io::copy(&mut from, &mut to).ok();
            to.shutdown(Shutdown::Both).ok();
            from.shutdown(Shutdown::Both).ok();
        });
    }
    Ok(())
}
