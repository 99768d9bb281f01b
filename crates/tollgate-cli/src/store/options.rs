//! Which server, which key, and whose clock: options that several commands have.

use std::fmt;
use std::io::{self, IsTerminal, Read};
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use serde::Serialize;
use tollgate_core::Key;
use tollgate_http::inbound::{ClientIp, KeyBy};
use tollgate_wire::Options;
use tollgate_wire::inside::is_hash;
use tollgate_wire::operate::{FoundState, Search};

use super::hashing::hashing;
use super::remote::PATIENCE;
use super::server::{Server, is_address};
use crate::failure::Failure;
use crate::input::{IPV6_PREFIX, typed_address};
use crate::text::readable;

/// The options for a live server and the output format.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerOptions {
    /// The server: redis://HOST:PORT/DB or redis-cluster://HOST:PORT,HOST:PORT; use fred in place
    /// of redis for the fred client, and rediss or freds for TLS; with the feature `sql` also
    /// postgres://USER@HOST/DATABASE or sqlite:FILE, to check and change single keys
    #[arg(
        long,
        env = "TOLLGATE_STORE",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) store: String,

    /// A PEM file with the certificate authorities to trust for TLS, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// The prefix of the service's keys
    #[arg(long, default_value = "tollgate")]
    pub(crate) prefix: String,

    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// A key of the service, and how the service decides and stores it.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("whom").required(true)))]
pub(crate) struct KeyOptions {
    /// The key's partition: whom the service counts for
    #[arg(value_name = "KEY", group = "whom")]
    word: Option<String>,

    /// The same as KEY, also if it begins with a dash
    #[arg(
        long = "key",
        value_name = "KEY",
        group = "whom",
        allow_hyphen_values = true
    )]
    named: Option<String>,

    /// Instead of KEY, a client's address, as tollgate-http counts it: IPv6 by its network
    #[arg(long, value_name = "ADDRESS", group = "whom", value_parser = typed_address)]
    address: Option<(IpAddr, Option<u8>)>,

    /// With --address: how many bits of an IPv6 address the service counts by, 64 unless the address is a
    /// network such as 2001:db8:1:2::/56
    #[arg(long, value_name = "BITS", requires = "address", value_parser = clap::value_parser!(u8).range(1..=128))]
    ipv6_prefix: Option<u8>,

    /// Instead of KEY, an API key on standard input, as tollgate-http counts it: by its hash; of a header
    /// like Authorization the whole value, such as Bearer abc
    #[arg(long, group = "whom")]
    api_key: bool,

    /// The rest of the key, if the service uses one
    #[arg(long)]
    pub(crate) rest: Option<String>,

    /// The clock that the service uses
    #[arg(long, value_enum, default_value_t = TimeSource::Server)]
    pub(crate) time_source: TimeSource,

    /// With TOLLGATE_KEY_SECRET: the service hashes only key parts longer than 64 bytes
    #[arg(long)]
    pub(crate) hashed_long_keys: bool,
}

/// The one key that a command decides by.
#[derive(Args, Clone, Debug)]
pub(crate) struct OneKeyOptions {
    #[command(flatten)]
    pub(crate) key: KeyOptions,

    /// If the service counts by one thing `or` else another: which of them was found, 1 or 2
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["word", "named", "rest"],
        value_parser = clap::value_parser!(u8).range(1..=2)
    )]
    or: Option<u8>,
}

/// Whom a command is about: a key.
pub(crate) struct Whom {
    pub(crate) partition: String,
    pub(crate) rest: String,
    client: Client,
    /// Their rest, without the mark of `--or`.
    plain_rest: String,
}

/// What else is of the same client.
enum Client {
    /// The key is any service's: everything in its partition.
    Unknown,
    /// Everything in the partition, in which the layer of `tollgate-http` counts them alone.
    Alone,
    /// What is within their rest: the layer counts them by an IPv6 address, in the partition of a
    /// network with others. These are the rests of all other networks in it that hold the address.
    InNetwork(Vec<String>),
}

/// What the layer writes before the rest of an alternative, of up to three that are nested in any way.
const ALTERNATIVES: [&str; 7] = ["", "1|", "2|", "1|1|", "1|2|", "2|1|", "2|2|"];

impl Whom {
    pub(crate) fn key(&self) -> Key<'_> {
        Key::new(&self.partition).with_rest(&self.rest)
    }

    /// Returns whether the layer counts them, which may add to their rest.
    pub(crate) fn is_client(&self) -> bool {
        !matches!(self.client, Client::Unknown)
    }

    /// Returns `rest`, and those of other networks that hold the address, each as every alternative.
    fn marked<'w>(&'w self, rest: &'w str) -> impl Iterator<Item = String> + 'w {
        let networks = match &self.client {
            Client::InNetwork(networks) => &networks[..],
            Client::Unknown | Client::Alone => &[],
        };
        let rests = [rest]
            .into_iter()
            .chain(networks.iter().map(String::as_str));
        rests.flat_map(|rest| ALTERNATIVES.map(|mark| format!("{mark}{rest}")))
    }

    /// Returns the other rests under which the layer may count them, or a network that holds the address.
    pub(crate) fn other_rests(&self) -> Vec<String> {
        let rests = self.marked(&self.plain_rest);
        let others = rests.filter(|rest| self.is_client() && *rest != self.rest);
        others.collect()
    }

    /// Returns whether the partition is a network, in which the layer counts each client by a rest, and
    /// none of them is named.
    pub(crate) fn is_whole_network(&self) -> bool {
        let is_network = self.partition.contains(':') && self.partition.ends_with("/48");
        !self.is_client() && is_network && self.rest.is_empty()
    }

    /// Returns why the text of a key without states may not be that of the service's key.
    pub(crate) fn spelled(&self) -> Option<String> {
        if self.is_client() {
            return None;
        }
        let why = |part: &String| {
            if is_hash(part.as_bytes()) {
                return Some("the server has no state of this hash");
            }
            if part.parse::<Ipv6Addr>().is_ok() {
                return Some(
                    "the layer of tollgate-http counts IPv6 addresses by their network: give the address by --address",
                );
            }
            // As `printable` writes what a terminal would not show.
            let is_escaped = part.contains("\\u{") || part.contains('\u{fffd}');
            (is_escaped || part.ends_with('…')).then_some(
                "the text has marks of what a table cannot show: take the key from `tollgate top --json`",
            )
        };
        let why = [&self.partition, &self.rest].into_iter().find_map(why);
        why.map(str::to_owned)
    }

    /// Returns a search for all states of the partition, which tells the rests of theirs, also if
    /// the service hashes its keys.
    pub(crate) fn search(&self) -> Search {
        let search = Search::new().with_key(self.key());
        self.marked(&self.rest).fold(search, Search::with_rest)
    }

    /// Returns whether `state`, of the same partition, is theirs.
    pub(crate) fn has(&self, state: &FoundState) -> bool {
        let is_alone = !matches!(self.client, Client::InNetwork(_));
        is_alone || state.is_exact || is_within(self.rest.as_bytes(), &state.rest)
    }

    /// Returns whether `state`, of the same partition, counts another network that holds the address.
    pub(crate) fn is_of_network(&self, state: &FoundState) -> bool {
        let Client::InNetwork(networks) = &self.client else {
            return false;
        };
        let holds = |network: &String| is_within(network.as_bytes(), &state.rest);
        !self.has(state) && networks.iter().any(holds)
    }

    /// Returns the key as `explain` heads its list with: the partition, with the rest of a client's.
    pub(crate) fn listed(&self) -> String {
        match self.client {
            Client::Unknown => readable(&self.partition, ""),
            Client::Alone | Client::InNetwork(_) => self.to_string(),
        }
    }
}

/// Returns whether the key with this `rest` is that of a client alone or with something else, by the
/// rules of `KeyBy`: `1|` or `2|`, or two lengths, may come before it.
fn is_within(client: &[u8], rest: &[u8]) -> bool {
    let Some(bar) = rest.iter().position(|&byte| byte == b'|') else {
        return rest == client;
    };
    let (number, after) = (&rest[..bar], &rest[bar + 1..]);
    if matches!(number, b"1" | b"2") && is_within(client, after) {
        return true;
    }
    let length = str::from_utf8(number)
        .ok()
        .and_then(|text| text.parse().ok());
    let second = after.iter().position(|&byte| byte == b'|');
    let both = second.map(|bar| &after[bar + 1..]);
    let first = both
        .zip(length)
        .and_then(|(both, length)| both.get(..length));
    rest == client || first.is_some_and(|first| is_within(client, first))
}

/// Writes the key for people.
impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&readable(&self.partition, &self.rest))
    }
}

/// Where a command does all of its work under keys of its own.
#[derive(Args, Debug)]
pub(crate) struct LocationOptions {
    /// Where to run: memory, or a server as redis://HOST:PORT/DB or
    /// redis-cluster://HOST:PORT,HOST:PORT; use fred in place of redis for the fred client, and
    /// rediss or freds for TLS
    ///
    /// The answer is the same everywhere. A server decides by the times in the file, under keys of
    /// this run only, which are deleted at the end: the service's own keys are neither read nor
    /// changed.
    #[arg(long, default_value = "memory", value_name = "URL")]
    pub(crate) store: String,

    /// A PEM file with the certificate authorities to trust for TLS, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// The prefix of the keys on a server, to which this command adds its own part
    #[arg(long, default_value = "tollgate")]
    pub(crate) prefix: String,
}

/// The clock by which a service decides.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TimeSource {
    /// The server's clock, which services use by default
    Server,
    /// Each caller's own clock; this command uses the clock of this machine
    Caller,
}

impl TimeSource {
    /// Returns what to add to a state of this clock, for a command that uses the clock `asked`.
    pub(crate) fn beside(self, asked: Self) -> &'static str {
        match (self, asked) {
            (Self::Caller, Self::Server) => ", by the clocks of callers (--time-source caller)",
            (Self::Server, Self::Caller) => ", by the server's clock (--time-source server)",
            _ => "",
        }
    }
}

impl From<tollgate_wire::TimeSource> for TimeSource {
    fn from(clock: tollgate_wire::TimeSource) -> Self {
        match clock {
            tollgate_wire::TimeSource::Caller => Self::Caller,
            _ => Self::Server,
        }
    }
}

impl From<TimeSource> for tollgate_wire::TimeSource {
    fn from(source: TimeSource) -> Self {
        match source {
            TimeSource::Server => Self::Server,
            TimeSource::Caller => Self::Caller,
        }
    }
}

impl KeyOptions {
    /// Returns the key, and reads an API key from standard input.
    pub(crate) fn whom(&self) -> Result<Whom, Failure> {
        if self.word.as_deref().is_some_and(is_address) {
            return Err(Failure::KeyIsAddress);
        }
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        let of_key = |key: Key<'_>, client| (text(&key.partition()), text(key.rest()), client);
        let (partition, rest, client) = if let Some((address, network)) = self.address {
            let of = |bits| ClientIp::peer().ipv6_prefix(bits).key_of(address);
            let prefix = self.ipv6_prefix.or(network).unwrap_or(IPV6_PREFIX);
            let key = of(prefix);
            let partition = key.as_key().partition().to_vec();
            // IPv4 addresses have no networks.
            let client = if partition.contains(&b':') {
                let networks = (1..=128).filter(|&bits| bits != prefix).map(of);
                let networks = networks.filter(|key| *key.as_key().partition() == *partition);
                let networks = networks.map(|key| text(key.as_key().rest()));
                Client::InNetwork(networks.collect())
            } else {
                Client::Alone
            };
            of_key(key.as_key(), client)
        } else if self.api_key {
            of_key(KeyBy::key_of_header(api_key()?).as_key(), Client::Alone)
        } else {
            let partition = self.word.as_ref().or(self.named.as_ref());
            let partition = partition.cloned().unwrap_or_default();
            (partition, String::new(), Client::Unknown)
        };
        let rest = self.rest.clone().unwrap_or(rest);
        Ok(Whom {
            partition,
            plain_rest: rest.clone(),
            rest,
            client,
        })
    }

    /// Returns the options of a service on `server` that has this key.
    pub(crate) fn settings(&self, server: &ServerOptions) -> Result<Options, Failure> {
        let settings = server.settings(self.time_source)?;
        hashing(settings.with_hashes_taken(), self.hashed_long_keys)
    }
}

impl OneKeyOptions {
    /// Returns the key, and reads an API key from standard input.
    pub(crate) fn whom(&self) -> Result<Whom, Failure> {
        let mut whom = self.key.whom()?;
        if let Some(found) = self.or {
            whom.rest = format!("{found}|{}", whom.rest);
        }
        Ok(whom)
    }
}

/// Reads an API key from standard input: from there, it gets into no shell history.
fn api_key() -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        return Err(Failure::ApiKeyTyped);
    }
    let mut line = String::new();
    let read = io::stdin().take(LONGEST_KEY + 1).read_to_string(&mut line);
    let _ = read.map_err(|source| Failure::Read {
        path: "-".into(),
        source,
    })?;
    // Some editors begin a file with this mark.
    let key = line.trim_matches([' ', '\t', '\r', '\n', '\u{feff}']);
    let is_cut = u64::try_from(line.len()).is_ok_and(|length| length > LONGEST_KEY);
    if key.is_empty() || key.contains('\n') || is_cut {
        return Err(Failure::ApiKeyMissing);
    }
    Ok(key.to_owned())
}

/// How many bytes of standard input may hold an API key.
const LONGEST_KEY: u64 = 64 * 1024;

impl ServerOptions {
    /// Parses the server's address, and reads its file of authorities.
    pub(crate) fn server(&self) -> Result<Server, Failure> {
        Server::new(&self.store, self.tls_ca.as_deref())
    }

    /// Returns the options for the service's key prefix and `source`.
    pub(crate) fn settings(&self, source: TimeSource) -> Result<Options, Failure> {
        let settings = Options::new().with_prefix(&self.prefix);
        let settings = settings.map_err(|error| Failure::wrong("--prefix", &self.prefix, error))?;
        Ok(settings
            .with_time_source(source.into())
            .with_deadline(PATIENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::is_within;

    #[test]
    fn a_client_is_found_beside_others_of_its_network() {
        let client = "2001:db8:1:2::/64";
        let is = |rest: &str| is_within(client.as_bytes(), rest.as_bytes());
        for rest in [
            "2001:db8:1:2::/64",
            "2|2001:db8:1:2::/64",
            "1|2|2001:db8:1:2::/64",
            "17|5|2001:db8:1:2::/64alice",
            "19|5|2|2001:db8:1:2::/64alice",
            "1|17|1|2001:db8:1:2::/64b",
        ] {
            assert!(is(rest), "{rest}");
        }
        for rest in [
            "",
            "2001:db8:1:3::/64",
            "3|2001:db8:1:2::/64",
            "17|5|2001:db8:1:3::/64alice",
            "5|17|alice2001:db8:1:2::/64",
            "17|2001:db8:1:2::/64",
            "99|5|2001:db8:1:2::/64alice",
            "|",
        ] {
            assert!(!is(rest), "{rest}");
        }
    }
}
