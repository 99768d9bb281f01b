//! How these tests connect.

use std::sync::Arc;

use async_trait::async_trait;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tollgate_fred::fred::types::config::TlsConnector;
use tollgate_fred::{FredStoreBuilder, StoreError};
use tollgate_scenarios::{Client, Connected};
use tollgate_testkit::{Authority, Identity};
use tollgate_wire::Options;

/// Connects as the builder of a store does.
pub(crate) struct Fred {
    pub(crate) batched: bool,
}

#[async_trait]
impl Client for Fred {
    fn name(&self) -> &'static str {
        "fred"
    }

    fn is_batched(&self) -> bool {
        self.batched
    }

    async fn server(&self, url: &str, options: Options) -> Result<Connected, StoreError> {
        let builder = FredStoreBuilder::from(options);
        Ok(Arc::new(builder.connect(url).await?))
    }

    /// Connects with custom certificates, as the documentation shows.
    async fn trusting(
        &self,
        url: &str,
        authority: &Authority,
        identity: Option<&Identity>,
        options: Options,
    ) -> Result<Connected, StoreError> {
        let mut roots = RootCertStore::empty();
        let pem = CertificateDer::from_pem_slice(authority.pem().as_bytes());
        roots.add(pem.unwrap()).unwrap();
        let tls = ClientConfig::builder().with_root_certificates(roots);
        let tls = match identity {
            None => tls.with_no_client_auth(),
            Some(identity) => {
                let own = CertificateDer::from_pem_slice(identity.certificate().as_bytes());
                let key = PrivateKeyDer::from_pem_slice(identity.key().as_bytes());
                let own = tls.with_client_auth_cert(vec![own.unwrap()], key.unwrap());
                own.unwrap()
            }
        };
        let mut builder = FredStoreBuilder::from(options.clone())
            .client_builder(url)
            .unwrap();
        builder.with_config(|config| config.tls = Some(TlsConnector::from(tls).into()));
        let store = FredStoreBuilder::from(options);
        Ok(Arc::new(store.connect_with(&builder).await?))
    }

    async fn cluster(&self, urls: &[String], options: Options) -> Result<Connected, StoreError> {
        self.server(&together(urls, "cluster", &[]), options).await
    }

    async fn sentinels(
        &self,
        urls: &[String],
        name: &str,
        options: Options,
    ) -> Result<Connected, StoreError> {
        let name = format!("sentinelServiceName={name}");
        let url = together(urls, "sentinel", &[name]);
        self.server(&url, options).await
    }
}

/// Returns the one URL that fred has for all nodes, with these parameters before them.
fn together(urls: &[String], kind: &str, parameters: &[String]) -> String {
    let (scheme, first) = urls[0].split_once("://").unwrap();
    let address = |url: &String| url.rsplit(['@', '/']).next().unwrap().to_owned();
    let nodes = urls[1..].iter().map(|url| format!("node={}", address(url)));
    let parameters: Vec<_> = parameters.iter().cloned().chain(nodes).collect();
    format!("{scheme}-{kind}://{first}?{}", parameters.join("&"))
}
