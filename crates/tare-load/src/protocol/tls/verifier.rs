//! Checks that the server is who it says it is.

use super::Trust;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::Path;
use std::sync::Arc;
use tare_core::fault::{Doing, Fault};

/// Where distributions keep the certificates that the machine trusts.
const SYSTEM_ROOTS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

type Certificates = Vec<CertificateDer<'static>>;

/// The trust policy. Signatures are always checked, so that a handshake costs what it costs elsewhere.
#[derive(Debug)]
pub(super) struct Verifier {
    whom: Whom,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
enum Whom {
    /// Any server, for a lab.
    Anybody,
    /// Those that the web's rules accept, and the very certificates that were named: a self-signed one is not issued by
    /// an authority.
    Chosen { web: Arc<WebPkiServerVerifier>, known: Certificates },
}

impl Verifier {
    /// Reads the trusted certificates.
    ///
    /// # Errors
    /// When the certificates to trust cannot be read.
    pub(super) fn new(trust: &Trust, provider: Arc<CryptoProvider>) -> Result<Self, Fault> {
        let algorithms = provider.signature_verification_algorithms;
        if matches!(trust, Trust::Nothing) {
            return Ok(Verifier { whom: Whom::Anybody, algorithms });
        }
        let (roots, known) = read_roots(trust)?;
        let web = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .doing("trust these certificates")?;
        Ok(Verifier { whom: Whom::Chosen { web, known }, algorithms })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.whom {
            Whom::Chosen { web, known } if !known.contains(end_entity) => {
                web.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The trusted roots, and the certificates that were named individually.
fn read_roots(trust: &Trust) -> Result<(RootCertStore, Certificates), Fault> {
    let (reading, certificates): (String, Vec<_>) = match trust {
        Trust::Pem(text) => {
            let certificates = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
            ("read the trusted certificates".to_owned(), certificates)
        }
        Trust::File(path) => read_file(path)?,
        Trust::System | Trust::Nothing => {
            let path = SYSTEM_ROOTS.iter().map(Path::new).find(|path| path.exists()).ok_or_else(|| {
                Fault::new("this machine has no file of trusted certificates")
                    .remedy("install ca-certificates, or name a PEM file under 'tls: {verify: ...}'")
            })?;
            read_file(path)?
        }
    };
    let certificates = certificates.into_iter().collect::<Result<Certificates, _>>().doing(&reading)?;
    let mut roots = RootCertStore::empty();
    let named = matches!(trust, Trust::Pem(_) | Trust::File(_));
    for certificate in &certificates {
        let added = roots.add(certificate.clone());
        // A machine's own file may contain a few unusable ones.
        if named {
            added.doing(&reading)?;
        }
    }
    if roots.is_empty() {
        return Err(Fault::new(format!("could not {reading}: there is none")).remedy("give a file in PEM form"));
    }
    Ok((roots, if named { certificates } else { Vec::new() }))
}

type Read = Result<CertificateDer<'static>, rustls::pki_types::pem::Error>;

fn read_file(path: &Path) -> Result<(String, Vec<Read>), Fault> {
    let reading = format!("read the trusted certificates in {}", path.display());
    let certificates = CertificateDer::pem_file_iter(path).doing(&reading)?.collect();
    Ok((reading, certificates))
}
