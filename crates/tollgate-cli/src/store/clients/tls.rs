//! TLS settings: the crypto provider and the trusted authorities.

use std::fs;
use std::io;
use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tollgate_redis::redis::TlsCertificates;

use crate::failure::Failure;

/// The authorities of a PEM file, trusted instead of the system's.
pub(crate) struct Authorities {
    pem: Vec<u8>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Authorities {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let failure = |source| Failure::Authorities {
            path: path.to_owned(),
            source,
        };
        let pem = fs::read(path).map_err(failure)?;
        let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.map_err(|error| failure(io::Error::other(error)))?;
        let authorities = Self { pem, certificates };
        // Parse the certificates as a client will, so that errors name this file.
        let roots = authorities.roots().map_err(io::Error::other);
        match roots {
            Ok(roots) if roots.is_empty() => {
                Err(failure(io::Error::other("there is no certificate in it")))
            }
            Ok(_) => Ok(authorities),
            Err(error) => Err(failure(error)),
        }
    }

    /// Returns the certificates for redis-rs.
    pub(crate) fn certificates(&self) -> TlsCertificates {
        TlsCertificates {
            client_tls: None,
            root_cert: Some(self.pem.clone()),
        }
    }

    /// Returns the TLS configuration for fred.
    pub(crate) fn config(&self) -> Result<ClientConfig, rustls::Error> {
        let config = ClientConfig::builder().with_root_certificates(self.roots()?);
        Ok(config.with_no_client_auth())
    }

    fn roots(&self) -> Result<RootCertStore, rustls::Error> {
        let mut roots = RootCertStore::empty();
        for certificate in &self.certificates {
            roots.add(certificate.clone())?;
        }
        Ok(roots)
    }
}

/// Installs the crypto provider; call it before the first connection.
pub(crate) fn choose() {
    // Fails only if a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
