//! `Server`: the Redis server that is measured, which is connected to when it is first needed.

use std::cell::OnceCell;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, process, thread};

use redis::Cmd;
use tokio::runtime::{Builder, Runtime};
use tollgate_fred::FredStore;
use tollgate_redis::RedisStore;

/// Long enough for a busy machine: a call that failed would end the benchmark.
const DEADLINE: Duration = Duration::from_secs(10);

/// A Redis server: that of `TOLLGATE_BENCH_URL`, or one that is started and stopped.
///
/// All keys begin with a prefix of their own, and are deleted at the end.
#[derive(Debug)]
pub struct Server {
    given: Option<String>,
    prefix: String,
    runtime: Runtime,
    started: OnceCell<Started>,
}

#[derive(Debug)]
struct Started {
    url: String,
    process: Option<Child>,
}

impl Server {
    /// Returns the server at this URL, or one of its own, without connecting to it.
    ///
    /// # Panics
    ///
    /// If the system starts no thread.
    #[must_use]
    pub fn new(given: Option<String>) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        Self {
            given,
            prefix: format!("tollgate-bench-{}", process::id()),
            runtime: runtime.expect("a runtime starts"),
            started: OnceCell::new(),
        }
    }

    pub(crate) fn from_environment() -> Self {
        Self::new(env::var("TOLLGATE_BENCH_URL").ok())
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn redis(&self) -> RedisStore {
        let builder = RedisStore::builder().deadline(DEADLINE);
        let builder = builder.prefix(&self.prefix);
        let connected = self.runtime.block_on(builder.connect(self.url()));
        connected.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn fred(&self) -> FredStore {
        let builder = FredStore::builder().deadline(DEADLINE);
        let builder = builder.prefix(&self.prefix);
        let connected = self.runtime.block_on(builder.connect(self.url()));
        connected.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the URL, and starts the server if that is not done yet.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn url(&self) -> &str {
        let started = self.started.get_or_init(|| match &self.given {
            Some(url) => Started {
                url: url.clone(),
                process: None,
            },
            None => start(),
        });
        &started.url
    }

    fn delete_keys(&self) -> redis::RedisResult<()> {
        let mut connection = redis::Client::open(self.url())?.get_connection()?;
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor)
                .arg("MATCH")
                .arg(format!("{}*", self.prefix));
            let (next, keys): (u64, Vec<Vec<u8>>) =
                scan.arg("COUNT").arg(1_000).query(&mut connection)?;
            if !keys.is_empty() {
                Cmd::unlink(keys).exec(&mut connection)?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.started.get().is_none() {
            return;
        }
        if let Some(process) = self.started.get_mut().and_then(|of| of.process.as_mut()) {
            let _ = process.kill();
            let _ = process.wait();
        } else if let Err(error) = self.delete_keys()
            && !thread::panicking()
        {
            panic!("keys `{}*` were not deleted: {error}", self.prefix);
        }
    }
}

/// Starts a server that keeps nothing, at a port that is free.
fn start() -> Started {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    drop(listener);
    // As everywhere in the project.
    let program = env::var_os("TOLLGATE_REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
    let mut command = Command::new(program);
    command.args(["--port", &address.port().to_string(), "--save", ""]);
    let process = command.args(["--bind", "127.0.0.1"]).stdout(Stdio::null());
    let process = process.spawn().expect(
        "`redis-server` must be installed, or TOLLGATE_BENCH_URL be the URL of a server; \
         `cargo bench memory` needs none",
    );
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(begun.elapsed() < DEADLINE, "redis-server does not answer");
        thread::sleep(Duration::from_millis(5));
    }
    Started {
        url: format!("redis://{address}"),
        process: Some(process),
    }
}
