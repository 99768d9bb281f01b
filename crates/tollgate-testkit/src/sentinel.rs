//! `SentinelGroup`: a primary with replicas, and the sentinels that monitor them.

use std::time::Duration;

use crate::cluster::until;
use crate::connection::{Connection, Reply};
use crate::flavor::Flavor;
use crate::server::{Server, ServerOptions};
use crate::server::{field, tail};
use crate::tls::Authority;

/// The sentinels' name for the primary.
const NAME: &str = "tollgate";
/// The number of sentinels; two must agree.
const SENTINELS: usize = 3;

/// How long sentinels may take to agree: on Redis 6.2, they need twenty seconds to accept a former
/// primary as a replica.
const PATIENCE: Duration = Duration::from_secs(40);

/// The command that sets how often a sentinel asks and announces, in milliseconds.
///
/// The defaults are one, two and ten seconds: a server found half a second ago would count as down
/// before its first ping. Redis before 7.0 does not have this command.
const PERIODS: [&str; 10] = [
    "SENTINEL",
    "DEBUG",
    "ASK-PERIOD",
    "100",
    "INFO-PERIOD",
    "200",
    // A replica is not promoted if its information is older than five ping periods. Once the
    // primary is down, sentinels ask for it every second.
    "PING-PERIOD",
    "300",
    // The other sentinels demote a promoted replica unless the leader publishes it within four of
    // these. The leader checks every second.
    "PUBLISH-PERIOD",
    "500",
];

/// Options to start a [`SentinelGroup`].
#[derive(Clone, Debug)]
pub struct SentinelOptions<'a> {
    flavor: Flavor,
    replicas: usize,
    down_after: Duration,
    arguments: Vec<String>,
    authority: Option<&'a Authority>,
    password: Option<String>,
    sentinel_password: Option<String>,
}

impl<'a> SentinelOptions<'a> {
    /// Sets the number of replicas.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Sets how long the primary must be silent before two of the sentinels consider it down; the
    /// third takes twice as long.
    #[must_use]
    pub fn down_after(mut self, time: Duration) -> Self {
        self.down_after = time;
        self
    }

    /// Adds arguments for the primary and all replicas, such as `["--maxmemory", "1mb"]`.
    #[must_use]
    pub fn args<T: Into<String>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        let arguments = arguments.into_iter().map(Into::into);
        self.arguments.extend(arguments);
        self
    }

    /// Makes the servers and sentinels accept only TLS, also from each other; see
    /// [`ServerOptions::tls`].
    #[must_use]
    pub fn tls(mut self, authority: &'a Authority) -> Self {
        self.authority = Some(authority);
        self
    }

    /// Makes the servers, but not the sentinels, require `password`; see
    /// [`ServerOptions::password`].
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Makes the sentinels, but not the servers, require `password`, also from each other.
    #[must_use]
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.sentinel_password = Some(password.into());
        self
    }

    /// Starts the servers and three sentinels.
    ///
    /// Waits until the replicas follow the primary, and each sentinel knows the other sentinels and
    /// the replicas.
    #[track_caller]
    pub fn start(self) -> SentinelGroup {
        // By default a primary waits five seconds for more replicas before it synchronizes them.
        let mut options = Server::options(self.flavor)
            .args(["--repl-diskless-sync-delay", "0"])
            .args(self.arguments);
        if let Some(authority) = self.authority {
            options = options.tls(authority);
        }
        if let Some(password) = &self.password {
            options = options.password(password);
        }
        let primary = options.clone().start();
        let port = primary.port().to_string();
        let replica = options.args(["--replicaof", "127.0.0.1", &port]);
        let replicas = (0..self.replicas).map(|_| replica.clone().start());
        let servers: Vec<Server> = std::iter::once(primary).chain(replicas).collect();
        let quorum = SENTINELS / 2 + 1;
        let sentinels = (0..SENTINELS).map(|index| {
            // The last sentinel reacts later than the others. If all three voted for themselves,
            // none would be elected, and they would only try again after six seconds.
            let is_last = index + 1 == SENTINELS;
            let down_after = self.down_after * if is_last { 2 } else { 1 };
            let mut configuration = format!(
                "sentinel monitor {NAME} 127.0.0.1 {port} {quorum}\n\
                 sentinel down-after-milliseconds {NAME} {}\n\
                 sentinel failover-timeout {NAME} 3000\n",
                down_after.as_millis(),
            );
            if let Some(password) = &self.password {
                configuration += &format!("sentinel auth-pass {NAME} {password}\n");
            }
            let password = self.sentinel_password.clone();
            if let Some(password) = &password {
                configuration +=
                    &format!("requirepass {password}\nsentinel sentinel-pass {password}\n");
            }
            let options = ServerOptions::sentinel(self.flavor, configuration, password, &PERIODS);
            match self.authority {
                Some(authority) => options.tls(authority).start(),
                None => options.start(),
            }
        });
        let sentinels = sentinels.collect();
        let group = SentinelGroup { servers, sentinels };
        group.wait();
        group
    }
}

/// A primary with replicas, and three sentinels that promote a replica when the primary is down.
///
/// Kill a server with [`Server::kill`] and restart it with [`Server::restart`]. All of them are
/// killed when this is dropped.
#[derive(Debug)]
pub struct SentinelGroup {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl SentinelGroup {
    /// Starts a primary of `flavor`, one replica, and three sentinels.
    #[track_caller]
    pub fn start(flavor: Flavor) -> Self {
        Self::options(flavor).start()
    }

    /// Returns options for a primary of `flavor` with one replica.
    ///
    /// The primary counts as down after half a second; on Redis 6.2, whose sentinels are slower,
    /// after one and a half.
    pub fn options<'a>(flavor: Flavor) -> SentinelOptions<'a> {
        let down_after = match flavor {
            Flavor::Redis62 => 1_500,
            _ => 500,
        };
        SentinelOptions {
            flavor,
            replicas: 1,
            down_after: Duration::from_millis(down_after),
            arguments: Vec::new(),
            authority: None,
            password: None,
            sentinel_password: None,
        }
    }

    /// Returns the sentinels' name for the primary, whichever server it is.
    pub fn primary_name(&self) -> &'static str {
        NAME
    }

    /// Returns the servers: first the original primary, then the original replicas.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the sentinels.
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// Returns the sentinels' addresses, such as `127.0.0.1:11000`.
    pub fn sentinel_addresses(&self) -> Vec<String> {
        self.sentinels.iter().map(Server::address).collect()
    }

    /// Returns the sentinels' URLs, such as `redis://127.0.0.1:11000`.
    pub fn sentinel_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Server::url).collect()
    }

    /// Returns the current primary, according to the first running sentinel.
    #[track_caller]
    pub fn primary(&self) -> &Server {
        let mut named = self
            .running()
            .filter_map(|sentinel| self.named_by(sentinel));
        named.next().expect("a sentinel that runs")
    }

    /// Waits until every running sentinel names a primary other than `old`, and that server accepts
    /// writes. Returns that server.
    #[track_caller]
    pub fn wait_for_failover(&self, old: &Server) -> &Server {
        self.eventually("the sentinels keep the primary", || {
            let mut named = self.running().map(|sentinel| self.named_by(sentinel));
            let is_new = |server: &Server| server.port() != old.port() && is_primary(server);
            named.all(|server| server.is_some_and(is_new)) && self.running().next().is_some()
        });
        self.primary()
    }

    /// Waits until every running server is the primary or follows it, and every running sentinel
    /// knows this and the other sentinels.
    #[track_caller]
    fn wait(&self) {
        self.eventually("the sentinels do not come to know each other", || {
            let primary = self.primary();
            let mut servers = self.servers.iter().filter(|server| server.is_running());
            let follows = |server: &Server| match server.port() == primary.port() {
                true => is_primary(server),
                false => is_replica(server, primary),
            };
            let knows = |sentinel: &Server| {
                let named = self.named_by(sentinel).map(Server::port);
                named == Some(primary.port()) && self.knows(sentinel, primary)
            };
            servers.all(follows) && self.running().all(knows)
        });
    }

    /// Waits until `condition` holds; if it takes too long, panics with the ends of the sentinels'
    /// logs.
    #[track_caller]
    fn eventually(&self, problem: &str, condition: impl Fn() -> bool) {
        if let Err(error) = until(problem, PATIENCE, condition) {
            let logs = self.sentinels.iter().map(|sentinel| tail(&sentinel.log()));
            let logs: Vec<String> = logs.collect();
            panic!("{error}; the sentinels say:\n{}", logs.join("\n\n"));
        }
    }

    fn running(&self) -> impl Iterator<Item = &Server> {
        let sentinels = self.sentinels.iter();
        sentinels.filter(|sentinel| sentinel.is_running())
    }

    /// Returns the server that `sentinel` names as the primary.
    fn named_by(&self, sentinel: &Server) -> Option<&Server> {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
        let reply = ask(sentinel, &words)?;
        let port: u16 = reply.items().get(1)?.text()?.parse().ok()?;
        self.servers.iter().find(|server| server.port() == port)
    }

    /// Returns whether `sentinel` knows the other sentinels, and that all replicas follow
    /// `primary`.
    fn knows(&self, sentinel: &Server, primary: &Server) -> bool {
        let others = ask(sentinel, &["SENTINEL", "SENTINELS", NAME]);
        let replicas = ask(sentinel, &["SENTINEL", "REPLICAS", NAME]);
        let (Some(others), Some(replicas)) = (others, replicas) else {
            return false;
        };
        // A sentinel that has not answered yet does not vote.
        let is_known = |other: &&Reply| is_up(other, "sentinel");
        // If the sentinel still takes a replica for a primary, it demotes it later, perhaps after
        // it has become the primary again.
        let port = primary.port().to_string();
        let is_in_order = |replica: &&Reply| {
            is_up(replica, "slave")
                && value(replica, "role-reported") == Some("slave")
                && value(replica, "master-link-status") == Some("ok")
                && value(replica, "master-port") == Some(&port)
        };
        let running = self.servers.iter().filter(|server| server.is_running());
        let known = others.items().iter().filter(is_known).count();
        let in_order = replicas.items().iter().filter(is_in_order).count();
        known + 1 == self.running().count() && in_order + 1 == running.count()
    }
}

/// Sends a command to `server`; returns `None` if it does not answer.
fn ask(server: &Server, words: &[&str]) -> Option<Reply> {
    let mut connection = Connection::open(&server.door()).ok()?;
    connection.command(words).ok()
}

/// Returns whether a sentinel considers `other` a `kind` that is not down.
fn is_up(other: &Reply, kind: &str) -> bool {
    // The flags may also include what `other` last said about the primary.
    let mut flags = value(other, "flags").unwrap_or_default().split(',');
    let down = ["disconnected", "o_down", "s_down"];
    flags.clone().any(|flag| flag == kind) && !flags.any(|flag| down.contains(&flag))
}

/// Returns the value after `name` in a list of names and values.
fn value<'a>(list: &'a Reply, name: &str) -> Option<&'a str> {
    let mut pairs = list.items().chunks_exact(2);
    pairs.find(|pair| pair[0].text() == Some(name))?[1].text()
}

fn is_primary(server: &Server) -> bool {
    let role = ask(server, &["ROLE"]);
    role.is_some_and(|role| role.items().first().and_then(Reply::text) == Some("master"))
}

/// Returns whether `server` follows `primary` and has caught up.
fn is_replica(server: &Server, primary: &Server) -> bool {
    let reply = ask(server, &["INFO", "replication"]);
    let text = reply.as_ref().and_then(Reply::text).unwrap_or_default();
    let port = primary.port().to_string();
    field(text, "master_link_status") == Some("up") && field(text, "master_port") == Some(&port)
}
