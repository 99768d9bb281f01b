//! `Authority` and `Identity`: certificates for TLS servers and clients.

use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The certificate files in a server's folder.
const AUTHORITY: &str = "authority.pem";
const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server.key";

/// The environment variable that names the file with the system's trusted roots.
const ROOTS: &str = "SSL_CERT_FILE";
/// Set in the environment of a test that runs itself again, in the inner process.
const TRUSTING: &str = "TOLLGATE_TESTKIT_TRUSTING";

/// A certificate authority for tests; trusted only where its certificate is added explicitly.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Returns an authority with a new key.
    #[expect(clippy::new_without_default, reason = "no two are alike")]
    pub fn new() -> Self {
        let mut parameters = named("tollgate-testkit authority", &[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        Self {
            pem: certificate.pem(),
            issuer: Issuer::new(parameters, key),
        }
    }

    /// Returns an authority that the test `test` sees as trusted by the system.
    ///
    /// A running process cannot change its trusted roots safely. So the first call runs the test
    /// again in another process, with `SSL_CERT_FILE` set to a new file, and returns `None` if the
    /// test passes there. In that process, this writes the file and returns the authority.
    #[track_caller]
    pub fn of_the_system(test: &str) -> Option<Self> {
        if env::var_os(TRUSTING).is_some_and(|name| name == test) {
            let authority = Self::new();
            let file = env::var_os(ROOTS).expect("a file for the roots");
            fs::write(file, authority.pem()).expect("the roots of the system");
            return Some(authority);
        }
        let folder = tempfile::tempdir().expect("a folder for the roots");
        let again = Command::new(env::current_exe().expect("the path of this program"))
            .args([test, "--exact", "--nocapture"])
            .env(TRUSTING, test)
            .env(ROOTS, folder.path().join(AUTHORITY))
            .output()
            .expect("this program once more");
        let said = String::from_utf8_lossy(&again.stdout);
        let passed = again.status.success() && said.contains("test result: ok. 1 passed");
        let complaints = String::from_utf8_lossy(&again.stderr);
        assert!(passed, "{test} in another process:\n{said}\n{complaints}");
        None
    }

    /// Returns the authority's own certificate as PEM, with which a client trusts all that it
    /// certifies.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Creates a server and client certificate for 127.0.0.1 and localhost.
    pub fn certify(&self) -> Identity {
        self.certify_as(&["127.0.0.1", "localhost"])
    }

    /// Creates a server and client certificate for these names and addresses.
    pub fn certify_as(&self, names: &[&str]) -> Identity {
        let mut parameters = named("tollgate-testkit", names);
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            // Each node of a cluster is also a client of the others.
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &self.issuer);
        Identity {
            certificate: certificate.expect("a certificate").pem(),
            key: key.serialize_pem(),
        }
    }
}

/// Leaves the key out.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// A certificate from an [`Authority`], with its key.
#[derive(Clone)]
pub struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    /// Returns the certificate, as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the certificate's key, as PEM.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// Leaves the key out.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

fn named(common_name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut parameters = CertificateParams::new(names).expect("names");
    let name = &mut parameters.distinguished_name;
    name.push(DnType::CommonName, common_name);
    parameters
}

/// The TLS settings of a server.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    authority: String,
    identity: Identity,
    asks_clients: bool,
}

impl Tls {
    pub(crate) fn new(authority: &Authority, identity: Identity) -> Self {
        Self {
            authority: authority.pem().to_owned(),
            identity,
            asks_clients: false,
        }
    }

    /// Makes the server refuse clients without a certificate of the authority.
    pub(crate) fn asking_clients(mut self) -> Self {
        self.asks_clients = true;
        self
    }

    /// Writes the certificate files into a server's `folder`.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join(AUTHORITY), &self.authority)?;
        fs::write(folder.join(CERTIFICATE), &self.identity.certificate)?;
        fs::write(folder.join(KEY), &self.identity.key)
    }

    /// Returns the arguments for a server that accepts only TLS, on `port`, and also connects to
    /// others by TLS.
    pub(crate) fn arguments<'a>(&self, port: &'a str) -> [&'a str; 18] {
        [
            "--port",
            "0",
            "--tls-port",
            port,
            "--tls-cert-file",
            CERTIFICATE,
            "--tls-key-file",
            KEY,
            "--tls-ca-cert-file",
            AUTHORITY,
            "--tls-auth-clients",
            if self.asks_clients { "yes" } else { "no" },
            "--tls-replication",
            "yes",
            "--tls-cluster",
            "yes",
            "--unixsocket",
            SOCKET,
        ]
    }
}

/// The Unix socket in a server's folder through which this kit connects if the port accepts only
/// TLS.
pub(crate) const SOCKET: &str = "server.sock";
