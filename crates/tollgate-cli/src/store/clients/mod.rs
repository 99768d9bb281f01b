//! Connects to servers through redis-rs or fred.

#[cfg(feature = "sql")]
mod sql;
mod tls;

use std::error::Error;

use tollgate_core::{ErrorKind, StoreError};
use tollgate_fred::FredStoreBuilder;
use tollgate_fred::fred::types::config::TlsConnector;
use tollgate_redis::RedisStoreBuilder;
use tollgate_wire::Options;

use crate::store::remote::{Client, Remote};
pub(crate) use tls::{Authorities, choose};

/// Connects with `client`, trusting `authorities` instead of the system's if they are given.
pub(crate) async fn open(
    client: &Client,
    authorities: Option<&Authorities>,
    options: Options,
) -> Result<Box<dyn Remote>, StoreError> {
    let unusable = |error: Box<dyn Error + Send + Sync>| {
        let message = "these settings are not valid";
        StoreError::new(ErrorKind::Misconfigured, message).with_source(error)
    };
    let redis = || {
        let builder = RedisStoreBuilder::from(options.clone());
        match authorities {
            Some(authorities) => builder.certificates(authorities.certificates()),
            None => builder,
        }
    };
    Ok(match client {
        Client::Fred(url) => {
            let store = FredStoreBuilder::from(options);
            let mut builder = store.client_builder(url)?;
            if let Some(authorities) = authorities {
                let tls = authorities.config();
                let tls = TlsConnector::from(tls.map_err(|error| unusable(error.into()))?);
                builder.with_config(|config| config.tls = Some(tls.into()));
            }
            Box::new(store.connect_with(&builder).await?)
        }
        Client::Redis(url) => Box::new(redis().connect(url.as_str()).await?),
        Client::RedisCluster(urls) => {
            let urls = urls.iter().map(String::as_str);
            Box::new(redis().connect_cluster(urls).await?)
        }
        #[cfg(feature = "sql")]
        Client::Sql(url) => Box::new(sql::Database::connect(url, &options).await?),
        #[cfg(not(feature = "sql"))]
        Client::Sql(_) => {
            let message =
                "this program has no clients for databases: build it with the feature `sql`";
            return Err(StoreError::new(ErrorKind::Unsupported, message));
        }
    })
}
