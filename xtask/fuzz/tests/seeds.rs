//! Every target takes its seeds, and many bytes that are much like them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::Path;

use xtask_fuzz::TARGETS;

/// How many changed copies of each seed are tried: for all targets, that is some seconds.
const COPIES: usize = 200;

#[test]
fn targets_take_seeds_and_changed_seeds() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut folders: Vec<_> = fs::read_dir(&seeds)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    assert_eq!(folders, TARGETS.map(|(name, _)| name));
    for (name, target) in TARGETS {
        let mut random = Random(1);
        let files = fs::read_dir(seeds.join(name)).unwrap();
        let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let seed = fs::read(&file).unwrap();
            target(&seed);
            let mut copy = seed.clone();
            for _ in 0..COPIES {
                random.change(&mut copy, &seed);
                target(&copy);
            }
        }
    }
}

/// A generator of numbers (xorshift), always from the same start.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    /// Changes `bytes` a little, or starts again with `seed`.
    fn change(&mut self, bytes: &mut Vec<u8>, seed: &[u8]) {
        let at = self.below(bytes.len());
        let byte = u8::try_from(self.below(256)).unwrap();
        match self.below(8) {
            0 => seed.clone_into(bytes),
            1 => bytes.truncate(at),
            2 if !bytes.is_empty() => drop(bytes.remove(at)),
            3 if !bytes.is_empty() => bytes[at] = byte,
            4 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            5 => bytes.insert(at, byte),
            6 => bytes.insert(at, b"0123456789,;:=/\"\\@ -"[self.below(20)]),
            _ => {
                let (from, until) = (self.below(seed.len()), self.below(seed.len() + 1));
                let part = seed.get(from..until).unwrap_or_default();
                let part = &part[..part.len().min(64)];
                drop(bytes.splice(at..at, part.iter().copied()));
            }
        }
    }
}
