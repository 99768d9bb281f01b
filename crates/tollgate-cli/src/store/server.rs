//! `Server`: where limits are counted, unless in memory.

use std::path::Path;

use tokio::time::timeout;
use tollgate_core::{ErrorKind, StoreError};
use tollgate_wire::Options;

use super::clients::{self, Authorities};
use super::remote::{Client, PATIENCE, Remote};
use crate::failure::Failure;
use crate::text::printable;

/// A server and its client library.
pub(crate) struct Server {
    client: Client,
    is_tls: bool,
    /// `None` for the system's authorities.
    authorities: Option<Authorities>,
    /// The address without passwords, for display.
    shown: String,
}

/// Parses the address of a server; `places` names the alternatives for the error message.
fn server(url: &str, places: &'static str) -> Result<Server, Failure> {
    let shown = printable(without_credentials(url).as_bytes());
    let wrong = |reason| Failure::StoreUrl {
        store: shown.clone(),
        reason,
        places,
    };
    let database = matches!(
        url.split(':').next(),
        Some("postgres" | "postgresql" | "sqlite")
    );
    let Some((scheme, address)) = url
        .split_once("://")
        .or_else(|| database.then_some(("", url)))
    else {
        return Err(wrong("that is not the address of a server"));
    };
    if address.is_empty() {
        return Err(wrong("the host is missing"));
    }
    let (client, is_cluster) = match scheme.strip_suffix("-cluster") {
        Some(client) => (client, true),
        None => (scheme, false),
    };
    let is_tls = matches!(client, "freds" | "rediss");
    let redis = if is_tls { "rediss" } else { "redis" };
    let client = match (client, is_cluster) {
        _ if database => Client::Sql(url.to_owned()),
        ("fred" | "freds", false) => Client::Fred(format!("{redis}://{address}")),
        ("fred" | "freds", true) => Client::Fred(fred_cluster(redis, address)),
        ("redis" | "rediss", false) => Client::Redis(url.to_owned()),
        ("redis" | "rediss", true) => Client::RedisCluster(
            nodes(address)
                .map(|(credentials, node)| format!("{redis}://{credentials}{node}"))
                .collect(),
        ),
        _ => return Err(wrong("that scheme is not known")),
    };
    Ok(Server {
        client,
        is_tls,
        authorities: None,
        shown,
    })
}

/// Returns whether `text` is the address of a server, whose password nobody should see.
pub(super) fn is_address(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    let client = scheme.map(|scheme| scheme.split(['-', '+']).next().unwrap_or(scheme));
    matches!(
        client,
        Some("fred" | "freds" | "postgres" | "postgresql" | "redis" | "rediss")
    )
}

/// Splits `USER:PASSWORD@HOST:PORT,HOST:PORT` into its nodes, each with the credentials before it.
fn nodes(address: &str) -> impl Iterator<Item = (&str, &str)> {
    let start = address.rfind('@').map_or(0, |at| at + 1);
    let (credentials, nodes) = address.split_at(start);
    nodes.split(',').map(move |node| (credentials, node))
}

fn fred_cluster(scheme: &str, address: &str) -> String {
    let mut url = format!("{scheme}-cluster://");
    for (index, (credentials, node)) in nodes(address).enumerate() {
        url += &match index {
            0 => format!("{credentials}{node}"),
            1 => format!("?node={node}"),
            _ => format!("&node={node}"),
        };
    }
    url
}

/// Replaces credentials and query of `url` by dots.
fn without_credentials(url: &str) -> String {
    let (scheme, address) = match url.split_once("://") {
        Some((scheme, address)) => (format!("{scheme}://"), address),
        None => (String::new(), url),
    };
    let query = address.find('?').unwrap_or(address.len());
    let host = address.rfind('@').map_or(0, |at| at + 1);
    let before = if host > 0 { "...@" } else { "" };
    let after = if query < address.len() { "?..." } else { "" };
    // If `@` comes after `?`, either part may contain a password.
    match address.get(host..query) {
        Some(shown) => format!("{scheme}{before}{shown}{after}"),
        None => format!("{scheme}..."),
    }
}

impl Server {
    /// Does the same as [`new`](Self::new), and returns `None` for `memory`.
    pub(crate) fn unless_memory(
        url: &str,
        authorities: Option<&Path>,
    ) -> Result<Option<Self>, Failure> {
        match (url, authorities) {
            ("memory", None) => Ok(None),
            ("memory", Some(_)) => Err(Failure::AuthoritiesWithoutTls(url.to_owned())),
            _ => server(url, "memory, ")?.trusting(authorities).map(Some),
        }
    }

    /// Parses `url`, and reads the file of authorities, if there is one.
    pub(crate) fn new(url: &str, authorities: Option<&Path>) -> Result<Self, Failure> {
        server(url, "")?.trusting(authorities)
    }

    fn trusting(mut self, authorities: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = authorities else {
            return Ok(self);
        };
        if !self.is_tls {
            return Err(Failure::AuthoritiesWithoutTls(self.shown));
        }
        self.authorities = Some(Authorities::read(path)?);
        Ok(self)
    }

    /// Returns whether it is a database, where a command cannot have keys of its own.
    pub(crate) fn is_database(&self) -> bool {
        matches!(self.client, Client::Sql(_))
    }

    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    pub(crate) async fn connect(&self, options: Options) -> Result<Box<dyn Remote>, Failure> {
        if self.is_tls {
            clients::choose();
        }
        let store = clients::open(&self.client, self.authorities.as_ref(), options);
        let store = timeout(PATIENCE, store).await;
        store
            .unwrap_or_else(|_| {
                Err(StoreError::new(
                    ErrorKind::Unavailable,
                    format!("no connection within {PATIENCE:?}: check that the server runs"),
                ))
            })
            .map_err(|source| Failure::Connect {
                store: self.shown.clone(),
                is_tls: self.is_tls,
                source,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_like_the_clients_do() {
        assert!(Server::unless_memory("memory", None).unwrap().is_none());
        for case in "\
redis://u:p@h:1/2 => redis://u:p@h:1/2
fred://h:1/2 => fred redis://h:1/2
redis-cluster://u:p@h:1,i:2 => cluster redis://u:p@h:1 redis://u:p@i:2
fred-cluster://u:p@h:1,i:2,j:3 => fred redis-cluster://u:p@h:1?node=i:2&node=j:3
rediss://h:1 => rediss://h:1
freds://h:1 => fred rediss://h:1
rediss-cluster://:p@h:1,i:2 => cluster rediss://:p@h:1 rediss://:p@i:2
postgres://u:p@h/db => sql postgres://u:p@h/db
sqlite:limits.db => sql sqlite:limits.db
freds-cluster://:p@h:1,i:2 => fred rediss-cluster://:p@h:1?node=i:2"
            .lines()
        {
            let (url, expected) = case.split_once(" => ").unwrap();
            let found = match Server::new(url, None).unwrap().client {
                Client::Fred(url) => format!("fred {url}"),
                Client::Redis(url) => url,
                Client::RedisCluster(urls) => format!("cluster {}", urls.join(" ")),
                Client::Sql(url) => format!("sql {url}"),
            };
            assert_eq!(found, expected);
        }
        for url in [
            "redis-clusters://h",
            "fred-clusters://h",
            "memory-cluster://h",
        ] {
            assert!(Server::new(url, None).is_err(), "{url}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        for case in "\
redis://u:ses@me@h:1 => redis://...@h:1
rediss://:ses@me@h:1 => rediss://...@h:1
postgres://u:ses@me@h/db => postgres://...@h/db
redis-cluster://u:ses@me@h:1,i:2 => redis-cluster://...@h:1,i:2
u:ses@me@h => ...@h
redis-sentinel://u:sesame@h:1?p=sesame => redis-sentinel://...@h:1?...
redis+unix:///socket?pass=sesame => redis+unix:///socket?...
redis-sentinel://h:1?p=sesame@sesame => redis-sentinel://...
redis://u:sesame?sesame@h:1 => redis://..."
            .lines()
        {
            let (url, shown) = case.split_once(" => ").unwrap();
            let told = match Server::new(url, None) {
                Ok(server) => server.shown,
                Err(failure) => format!("{failure} {failure:?}"),
            };
            assert!(told.contains(shown) && !told.contains("ses"), "{told}");
        }
    }
}
