//! `Flavor`: the Redis and Valkey servers that tests run on.

use std::env;
use std::fmt;
use std::fs;
use std::path::{self, Path, PathBuf};

use crate::folder;

/// The environment variable with the path of the program for `Flavor::System`.
const VARIABLE: &str = "TOLLGATE_REDIS_SERVER";

/// The environment variable that runs tests on every server.
const EVERY: &str = "TOLLGATE_EVERY_SERVER";

/// Returns how often a test repeats a random or timed trial: `full` times if
/// [everything](Flavor::is_every) is tested, otherwise an eighth of that, but at least once.
#[track_caller]
pub fn rounds(full: u32) -> u32 {
    assert!(full > 0, "a test of no rounds tries nothing");
    if Flavor::is_every() {
        full
    } else {
        full.div_ceil(8)
    }
}

/// A server version to test against.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Flavor {
    /// The program in the environment variable `TOLLGATE_REDIS_SERVER`, or else `redis-server` on
    /// the search path.
    System,
    /// Redis 6.2, the oldest supported version, fetched by `cargo xtask servers`.
    Redis62,
    /// Valkey 9.1, fetched by `cargo xtask servers`.
    Valkey91,
}

impl Flavor {
    /// All servers.
    pub const ALL: [Self; 3] = [Self::System, Self::Redis62, Self::Valkey91];

    /// Returns the servers that a test should run on: all if [`is_every`](Self::is_every),
    /// otherwise only the system's.
    pub fn chosen() -> Vec<Self> {
        if Self::is_every() {
            Self::ALL.to_vec()
        } else {
            vec![Self::System]
        }
    }

    /// Returns the [chosen](Self::chosen) servers of version 7 or later, for tests of commands that
    /// Redis 6.2 does not know.
    pub fn chosen_since_7() -> Vec<Self> {
        let mut chosen = Self::chosen();
        chosen.retain(|flavor| *flavor != Self::Redis62);
        chosen
    }

    /// Returns whether tests should run on every server and on more histories.
    ///
    /// That is so if the environment variable `TOLLGATE_EVERY_SERVER` is set, as `cargo xtask test
    /// --every-server` does.
    pub fn is_every() -> bool {
        env::var_os(EVERY).is_some_and(|value| !value.is_empty())
    }

    /// Returns how many histories should check each promise of a store on this server.
    ///
    /// A store's code is the same on all servers, so only one of them gets the most, and that only if
    /// everything is to be tested; `TOLLGATE_CONFORMANCE_CASES` sets another number. Stores that
    /// differ from another one only in how a call reaches its server need less.
    pub fn histories(self) -> u32 {
        match self {
            Self::System if Self::is_every() => 12,
            Self::System => 4,
            _ => 8,
        }
    }

    /// Returns a name that can be part of a test's or file's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "redis_system",
            Self::Redis62 => "redis_6_2",
            Self::Valkey91 => "valkey_9_1",
        }
    }

    /// Returns the path of the server's program.
    #[track_caller]
    pub fn binary(self) -> PathBuf {
        let fetched = match self {
            Self::System => return system(),
            Self::Redis62 => "servers/redis-6.2/redis-server",
            Self::Valkey91 => "servers/valkey-9.1/valkey-server",
        };
        let path = folder::target().join(fetched);
        assert!(
            path.is_file(),
            "there is no {}: run `cargo xtask servers`",
            path.display()
        );
        path
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[track_caller]
fn system() -> PathBuf {
    let named = env::var_os(VARIABLE).filter(|name| !name.is_empty());
    let name = named.clone().unwrap_or_else(|| "redis-server".into());
    let name = Path::new(&name);
    if let Some(path) = find(name) {
        return path;
    }
    match named {
        Some(_) => panic!("{VARIABLE} names {}, which does not exist", name.display()),
        None => panic!(
            "there is no redis-server on the search path: run `cargo xtask test`, which installs \
             it, or `apt-get install redis-server`, or set {VARIABLE} to the path of one"
        ),
    }
}

/// Where Debian has the programs of servers, which is on the search path of root only.
const FOR_ROOT: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];
/// Where Debian has those of PostgreSQL, by its version.
const POSTGRES: &str = "/usr/lib/postgresql";

/// Returns the path of the program `name`; a bare name is looked up on the search path.
pub(crate) fn find(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        // Links stay: the program of Debian's Redis does what the name says that it is called by.
        return path::absolute(name).ok().filter(|path| path.is_file());
    }
    let versions = fs::read_dir(POSTGRES).into_iter().flatten().flatten();
    env::split_paths(&env::var_os("PATH")?)
        .chain(FOR_ROOT.map(PathBuf::from))
        .chain(versions.map(|version| version.path().join("bin")))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
