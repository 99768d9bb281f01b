//! Prints the server's time for the costliest calls of each kind, at the largest documented sizes.
//!
//! A server does nothing else while it runs a script, so these are the longest pauses that a call
//! can cause.

mod leases;
mod limits;
mod schedules;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tokio::runtime::Builder;
use tollgate_benches::Problem;
use tollgate_redis::RedisStore as AnyRedisStore;
use tollgate_testkit::{Flavor, Reply, Server};

/// The store that makes the calls.
type RedisStore = Arc<AnyRedisStore>;

/// Prints the server's time for the costliest calls of each kind.
#[derive(Debug, Parser)]
struct Arguments {
    /// Selects the rows that contain all of these words, such as `schedule list`.
    words: Vec<String>,
    /// Makes each call so often, and prints the fastest.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
}

fn main() -> Result<(), Problem> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(all(Arguments::parse()))
}

async fn all(arguments: Arguments) -> Result<(), Problem> {
    let server = Server::start(Flavor::System);
    let store = Arc::new(AnyRedisStore::connect(server.url()).await?);
    let table = Table {
        arguments,
        server,
        store,
    };
    writeln!(io::stdout(), "| call | server's time in ms |\n|---|---:|")?;
    schedules::measure(&table).await?;
    limits::measure(&table).await?;
    leases::measure(&table).await
}

/// What measures calls, and prints a row for each.
struct Table {
    arguments: Arguments,
    server: Server,
    store: RedisStore,
}

impl Table {
    /// Returns whether the row called `name` is wanted.
    fn has(&self, name: &str) -> bool {
        let words = &self.arguments.words;
        words.iter().all(|word| name.contains(&**word))
    }

    /// Prints the time of the fastest of several rounds: each begins with the keys that `prepare`
    /// leaves, and measures the longest script that `call` runs.
    async fn row(
        &self,
        name: &str,
        prepare: impl AsyncFn(&RedisStore) -> Result<(), Problem>,
        call: impl AsyncFn(&RedisStore) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        if !self.has(name) {
            return Ok(());
        }
        self.server.command(&["FLUSHALL"]);
        prepare(&self.store).await?;
        self.copy_keys(0, 1);
        let mut fastest = Duration::MAX;
        for _ in 0..self.arguments.rounds {
            self.server.command(&["FLUSHDB"]);
            self.copy_keys(1, 0);
            self.server.command(&["SLOWLOG", "RESET"]);
            self.server
                .command(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
            call(&self.store).await?;
            let slowest = longest(&self.server.command(&["SLOWLOG", "GET", "64"]));
            self.server
                .command(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);
            fastest = fastest.min(slowest);
        }
        let millis = fastest.as_secs_f64() * 1e3;
        writeln!(io::stdout(), "| {name} | {millis:.2} |")?;
        Ok(())
    }

    /// Copies all keys from one database of the server to another.
    fn copy_keys(&self, from: u8, to: u8) {
        let script = format!(
            "redis.call('SELECT', {from})
             for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', {to}) end"
        );
        self.server.command(&["EVAL", &script, "0"]);
    }
}

/// Returns the time of the slowest script in a reply to `SLOWLOG GET`.
fn longest(log: &Reply) -> Duration {
    let entries = log.items().iter();
    let micros = entries.filter_map(|entry| match entry.items() {
        [_, _, micros, command, ..] => {
            let name = command.items().first()?.text()?;
            let is_script = name.eq_ignore_ascii_case("EVALSHA") || name == "UNLINK";
            is_script.then(|| micros.integer()).flatten()
        }
        _ => None,
    });
    let micros = micros.max().unwrap_or(0);
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
