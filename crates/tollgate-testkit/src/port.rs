//! `Port`: reserves a port that no other test uses.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use rustix::fs::{FlockOperation, flock};

use crate::folder;

/// The first port; cluster bus ports are [`BUS`] higher.
///
/// Both ranges lie below the system's ephemeral ports. Within those, a client that keeps
/// reconnecting to a server that is down can be given the server's own port, and then talks to
/// itself.
const FIRST: u16 = 11_000;
/// The number of ports to choose from.
const COUNT: u16 = 10_000;
/// The offset from a node's port to its cluster bus port.
const BUS: u16 = 10_000;
// Linux's lowest ephemeral port; other systems start higher.
const _: () = assert!(FIRST + COUNT + BUS < 32_768);
/// How many ports to try before giving up.
const ATTEMPTS: usize = 1_000;

/// A loopback port that is reserved for this process until this is dropped.
///
/// A file lock reserves it, because nothing listens on the port while its server restarts.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Returns a port that is free, and whose cluster bus port is free too.
    #[track_caller]
    pub(crate) fn choose() -> Self {
        let folder = folder::target().join("testkit/ports");
        fs::create_dir_all(&folder).expect("a folder for the locks of ports");
        for _ in 0..ATTEMPTS {
            // Each `RandomState` has a random seed, so the hash is a random number.
            let random = RandomState::new().hash_one(()) % u64::from(COUNT);
            let number = FIRST + u16::try_from(random).unwrap_or(0);
            let lock = OpenOptions::new()
                .create(true)
                .append(true)
                .open(folder.join(number.to_string()))
                .expect("a file to lock a port by");
            let is_ours = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
            if is_ours && is_free(number) && is_free(number + BUS) {
                return Self {
                    number,
                    _lock: lock,
                };
            }
        }
        panic!("none of {ATTEMPTS} ports from {FIRST} on is free");
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// Returns whether no other program listens on `number`.
fn is_free(number: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok()
}
