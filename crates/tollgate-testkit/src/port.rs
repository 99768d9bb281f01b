//! Ports that no other test has.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use rustix::fs::{FlockOperation, flock};

use crate::folder;

/// Ports begin here; those of cluster buses are [`BUS`] higher.
///
/// Both ranges end before the ports that systems give to the near ends of connections. In there, a
/// client that keeps on trying to reach a server that is down can be given the server's own port,
/// and then talks to itself.
const FIRST: u16 = 11_000;
/// How many ports there are to choose from.
const COUNT: u16 = 10_000;
/// How much higher than a port the port of the cluster bus is.
const BUS: u16 = 10_000;
/// How many ports are tried before there seem to be none.
const ATTEMPTS: usize = 1_000;

/// A port of the loopback interface that is this process's until it is dropped.
///
/// A lock on a file says so, since nothing else does between two lives of a server.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Returns a port that is free, as is the port of its cluster bus.
    #[track_caller]
    pub(crate) fn choose() -> Self {
        let folder = folder::target().join("testkit/ports");
        fs::create_dir_all(&folder).expect("a folder for the locks of ports");
        for _ in 0..ATTEMPTS {
            // What a hash of nothing is differs from one to the next.
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

/// Returns whether nobody outside of this kit listens on `number` either.
fn is_free(number: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_port_is_given_once() {
        let ports: Vec<Port> = (0..100).map(|_| Port::choose()).collect();
        let numbers: HashSet<u16> = ports.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), ports.len());
        for number in numbers {
            assert!(is_free(number));
        }
    }

    #[test]
    fn ports_are_below_those_of_clients() {
        // The lowest of Linux; other systems begin higher.
        const { assert!(FIRST + COUNT + BUS < 32_768) };
    }
}
