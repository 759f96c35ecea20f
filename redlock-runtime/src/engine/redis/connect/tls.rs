//! TLS: trusted authorities, the client certificate, and encrypted connections.
//!
//! The crypto provider is ring, even where the process has installed another. The authorities are
//! read once, at the start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, RootCertStore, SignatureScheme};

use super::server_address::Place;
use crate::engine::redis::wire::dns::Addresses;
use crate::engine::redis::wire::failure::Failure;
use crate::engine::redis::wire::stream::ConnectError;
use crate::engine::redis::wire::stream::Stream;
use crate::engine::redis::wire::stream::tcp_stream;

/// A manager's settings for TLS, in PEM form. Not `Debug`: one holds a private key.
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    /// The authorities to trust, instead of those of the system.
    pub(crate) ca: Option<Vec<u8>>,
    /// The client's certificate with its intermediate ones, and its private key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

impl TlsSettings {
    pub(crate) fn is_set(&self) -> bool {
        self.ca.is_some() || self.client.is_some()
    }
}

/// The settings of an encrypted connection.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    shows_certificate: bool,
}

impl Tls {
    /// The error names the setting that cannot be used, and why.
    pub(crate) fn new(settings: &TlsSettings) -> Result<Self, String> {
        let roots = match &settings.ca {
            Some(pem) => own_authorities(pem)?,
            None => authorities_of_the_system()?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be used: {error}"))?
            .with_root_certificates(roots);
        let config = match &settings.client {
            Some((certificate, key)) => {
                let (chain, key) = identity(certificate, key)?;
                config.with_client_auth_cert(chain, key).map_err(|error| format!("`tls_client`: {error}"))?
            }
            None => config.with_no_client_auth(),
        };
        Ok(Self { config: Arc::new(config), shows_certificate: settings.client.is_some() })
    }

    pub(crate) async fn open(&self, place: &Place, addresses: &Addresses) -> Result<Encrypted, ConnectError> {
        let Place::Tcp(host, port) = place else {
            return Err(ConnectError::Refused("TLS is for TCP".to_owned()));
        };
        let name = ServerName::try_from(host.clone()).map_err(|_| {
            ConnectError::Refused(format!("`{host}` is not a name that a certificate can have"))
        })?;
        let tcp = tcp_stream(host, *port, addresses).await.map_err(|error| broke(&error))?;
        let wants_certificate = Arc::new(AtomicBool::new(false));
        let stream = self.handshake(name, tcp, &wants_certificate).await?;
        Ok(Encrypted { stream: Stream::Encrypted(Box::new(stream)), wants_certificate })
    }

    async fn handshake(
        &self,
        name: ServerName<'static>,
        tcp: TcpStream,
        asked_for_certificate: &Arc<AtomicBool>,
    ) -> Result<TlsStream<TcpStream>, ConnectError> {
        let mut config = Arc::clone(&self.config);
        if !self.shows_certificate {
            let resolver = Arc::new(NoCertificate { asked: Arc::clone(asked_for_certificate) });
            Arc::make_mut(&mut config).client_auth_cert_resolver = resolver;
        }
        TlsConnector::from(config).connect(name, tcp).await.map_err(|error| explained(&error))
    }
}

/// An open stream.
pub(crate) struct Encrypted {
    pub(crate) stream: Stream,
    /// The server has asked for a certificate of ours, and there is none.
    pub(crate) wants_certificate: Arc<AtomicBool>,
}

/// A server that requires a client certificate hangs up later, without an error: this notes that it
/// asked for one.
#[derive(Debug)]
struct NoCertificate {
    asked: Arc<AtomicBool>,
}

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.asked.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

fn own_authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("`tls_ca` is not in PEM form: {error}"))?;
        roots.add(certificate).map_err(|error| format!("`tls_ca`: {error}"))?;
    }
    if roots.is_empty() {
        return Err("`tls_ca` holds no certificate in PEM form".to_owned());
    }
    Ok(roots)
}

fn authorities_of_the_system() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // A certificate that cannot be read is not trusted.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(format!(
            "this system trusts no certificate authority{why}: install some (Debian, Ubuntu: ca-certificates), or name \
             your own with `tls_ca`"
        ));
    }
    Ok(roots)
}

fn identity(
    certificate: &[u8],
    key: &[u8],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("the certificate of `tls_client` is not in PEM form: {error}"))?;
    if chain.is_empty() {
        return Err("`tls_client` holds no certificate in PEM form".to_owned());
    }
    // Without the parser's error, which may quote the key.
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| "the key of `tls_client` is not a private key in PEM form".to_owned())?;
    Ok((chain, key))
}

fn broke(error: &std::io::Error) -> ConnectError {
    ConnectError::Failed(Failure::Broke(error.to_string().into()))
}

fn explained(error: &std::io::Error) -> ConnectError {
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        return broke(error);
    };
    ConnectError::Refused(match tls {
        // `BadSignature` when a trusted authority has the same name.
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "its certificate is from an authority that is not trusted here (`tls_ca` names your own)"
            .to_owned(),
        rustls::Error::InvalidMessage(_) => "it does not speak TLS on this port".to_owned(),
        other => format!("no TLS connection: {other}"),
    })
}
