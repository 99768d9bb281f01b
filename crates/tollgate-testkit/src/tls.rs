//! Certificates for servers that speak TLS, and for their clients.

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

/// The files in a server's folder that it finds its certificates in.
const AUTHORITY: &str = "authority.pem";
const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server.key";

/// The variable that names the file with all that a program trusts, to those that ask the system.
const ROOTS: &str = "SSL_CERT_FILE";
/// Says to a test that runs itself that it is the inner one.
const TRUSTING: &str = "TOLLGATE_TESTKIT_TRUSTING";

/// An authority that certifies servers and clients, and that nobody trusts who is not told to.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Returns an authority with a key of its own.
    ///
    /// # Panics
    ///
    /// Panics if the system gives no random numbers.
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

    /// Returns an authority that the whole system trusts, as far as the test `test` can tell.
    ///
    /// Which roots a process has cannot be changed safely once it runs. So the first time this runs
    /// the test once more, in a process of its own whose variable `SSL_CERT_FILE` names a file, and
    /// returns nothing when that has passed; there it writes that file, and returns the authority.
    ///
    /// # Panics
    ///
    /// Panics if the test fails in the other process, or if that runs no test.
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

    /// Returns the authority's own certificate, as PEM: who is given it trusts all that the
    /// authority certifies.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Certifies someone who is called 127.0.0.1 and localhost, as a server and as a client.
    ///
    /// # Panics
    ///
    /// Panics if the system gives no random numbers.
    pub fn certify(&self) -> Identity {
        self.certify_as(&["127.0.0.1", "localhost"])
    }

    /// Certifies someone of these names and addresses, as a server and as a client.
    ///
    /// # Panics
    ///
    /// Panics if a name is none, or if the system gives no random numbers.
    pub fn certify_as(&self, names: &[&str]) -> Identity {
        let mut parameters = named("tollgate-testkit", names);
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            // A node of a cluster is also the client of the others.
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

/// What an [`Authority`] has certified.
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

    /// Returns its key, as PEM.
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

/// How a server speaks TLS.
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

    /// Has the server refuse clients that the authority has not certified.
    pub(crate) fn asking_clients(mut self) -> Self {
        self.asks_clients = true;
        self
    }

    /// Writes what a server in `folder` reads.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join(AUTHORITY), &self.authority)?;
        fs::write(folder.join(CERTIFICATE), &self.identity.certificate)?;
        fs::write(folder.join(KEY), &self.identity.key)
    }

    /// Returns what a server is started with that takes nothing but TLS at `port`, and so does as
    /// a client of others.
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

/// The file in a server's folder through which this kit speaks to it when its port takes only TLS.
pub(crate) const SOCKET: &str = "server.sock";
