//! Where limits are counted: in this process, or on a server.

use std::str::FromStr;
use std::time::Duration;

use tokio::time::timeout;
use tollgate_core::{ErrorKind, Store, StoreError};
use tollgate_fred::FredStore;
use tollgate_redis::{Options, RedisStore};

use crate::failure::Failure;

/// How long a server may take to answer, and to be connected to: nobody waits behind this program.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Where limits are counted.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Place {
    Memory,
    Server(Server),
}

/// A server, and the client that talks to it.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Server {
    client: Client,
    /// As people may see it: without a password.
    shown: String,
}

/// A client, with addresses as it takes them.
#[derive(Debug, Eq, PartialEq)]
enum Client {
    Fred(String),
    Redis(String),
    RedisCluster(Vec<String>),
}

impl FromStr for Place {
    type Err = Failure;

    fn from_str(url: &str) -> Result<Self, Failure> {
        match url {
            "memory" => Ok(Self::Memory),
            _ => server(url, "memory, ").map(Self::Server),
        }
    }
}

impl FromStr for Server {
    type Err = Failure;

    fn from_str(url: &str) -> Result<Self, Failure> {
        server(url, "")
    }
}

/// Reads the address of a server; `places` says what else might be given.
fn server(url: &str, places: &'static str) -> Result<Server, Failure> {
    let shown = without_credentials(url);
    let wrong = |reason| Failure::StoreUrl {
        store: shown.clone(),
        reason,
        places,
    };
    let Some((scheme, address)) = url.split_once("://") else {
        return Err(wrong("that is not the address of a server"));
    };
    if address.is_empty() {
        return Err(wrong("there is no host"));
    }
    let client = match scheme {
        "fred" => Client::Fred(format!("redis://{address}")),
        "fred-cluster" => Client::Fred(fred_cluster(address)),
        "redis" => Client::Redis(url.to_owned()),
        "redis-cluster" => Client::RedisCluster(
            nodes(address)
                .map(|(credentials, node)| format!("redis://{credentials}{node}"))
                .collect(),
        ),
        "fred-clusters" | "freds" | "redis-clusters" | "rediss" | "rediss-cluster" => {
            return Err(wrong(
                "this program has no TLS: go through a tunnel, such as stunnel",
            ));
        }
        _ => return Err(wrong("no store is reached like that")),
    };
    Ok(Server { client, shown })
}

/// Returns each node of `USER:PASSWORD@HOST:PORT,HOST:PORT`, after what comes before all of them.
fn nodes(address: &str) -> impl Iterator<Item = (&str, &str)> {
    let start = address.rfind('@').map_or(0, |at| at + 1);
    let (credentials, nodes) = address.split_at(start);
    nodes.split(',').map(move |node| (credentials, node))
}

/// Returns the address of a cluster as fred takes it.
fn fred_cluster(address: &str) -> String {
    let mut url = "redis-cluster://".to_owned();
    for (index, (credentials, node)) in nodes(address).enumerate() {
        url += &match index {
            0 => format!("{credentials}{node}"),
            1 => format!("?node={node}"),
            _ => format!("&node={node}"),
        };
    }
    url
}

/// Returns `url` with dots for whatever stands before the host.
fn without_credentials(url: &str) -> String {
    match (url.split_once("://"), url.rfind('@')) {
        (Some((scheme, _)), Some(at)) => format!("{scheme}://...{}", &url[at..]),
        (None, Some(at)) => format!("...{}", &url[at..]),
        (_, None) => url.to_owned(),
    }
}

impl Server {
    /// Connects to the server.
    pub(crate) async fn connect(&self, options: Options) -> Result<Box<dyn Store>, Failure> {
        let store = timeout(PATIENCE, self.open(options)).await;
        store
            .unwrap_or_else(|_| {
                Err(StoreError::new(
                    ErrorKind::Unavailable,
                    format!("no connection within {PATIENCE:?}"),
                ))
            })
            .map_err(|source| Failure::Connect {
                store: self.shown.clone(),
                source,
            })
    }

    async fn open(&self, options: Options) -> Result<Box<dyn Store>, StoreError> {
        Ok(match &self.client {
            Client::Fred(url) => Box::new(FredStore::connect(url, options).await?),
            Client::Redis(url) => Box::new(RedisStore::connect(url.as_str(), options).await?),
            Client::RedisCluster(urls) => {
                let urls = urls.iter().map(String::as_str);
                Box::new(RedisStore::connect_cluster(urls, options).await?)
            }
        })
    }
}

/// Does `work`, which waits for a server.
pub(crate) fn wait_for<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::Runtime)?;
    let done = runtime.block_on(work);
    // A name that is still being looked up would be waited for.
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(url: &str) -> Client {
        url.parse::<Server>().unwrap().client
    }

    #[test]
    fn addresses_are_as_clients_take_them() {
        assert_eq!("memory".parse::<Place>().unwrap(), Place::Memory);
        assert_eq!(
            client("redis://u:p@h:1/2"),
            Client::Redis("redis://u:p@h:1/2".into())
        );
        assert_eq!(client("fred://h:1/2"), Client::Fred("redis://h:1/2".into()));
        assert_eq!(
            client("redis-cluster://u:p@h:1,i:2"),
            Client::RedisCluster(vec!["redis://u:p@h:1".into(), "redis://u:p@i:2".into()])
        );
        assert_eq!(
            client("fred-cluster://u:p@h:1,i:2,j:3"),
            Client::Fred("redis-cluster://u:p@h:1?node=i:2&node=j:3".into())
        );
    }

    #[test]
    fn passwords_are_not_shown() {
        for url in [
            "redis://u:p@ss@h:1",
            "rediss://:p@ss@h:1",
            "redis-cluster://u:p@ss@h:1,i:2",
            "u:p@ss@h",
        ] {
            let failure = match url.parse::<Server>() {
                Ok(server) => server.shown,
                Err(failure) => failure.to_string(),
            };
            assert!(failure.contains("...@h"), "{failure}");
            assert!(!failure.contains("ss@"), "{failure}");
        }
    }
}
