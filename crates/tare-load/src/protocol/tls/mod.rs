//! TLS as a transformer of bytes: bytes from the socket go in, bytes for the socket come out.

mod options;
mod verifier;

pub(super) use options::{TlsOptions, Trust, read_tls};

use crate::operation::Failure;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Error};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tare_core::fault::{Doing, Fault};
use verifier::Verifier;

/// How many different outcomes of handshakes are remembered.
const REASONS_MAX: usize = 16;

/// The most that is kept of the buffer for data to be encrypted: 16 KiB.
const SCRATCH_MAX: usize = 16 * 1024;

/// How connections are secured.
#[derive(Debug)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    // How many handshakes had which outcome, for the record. Locked once per connection.
    ends: Mutex<BTreeMap<String, u64>>,
}

impl Tls {
    /// Reads the trusted certificates. `protocols` are offered to the server (ALPN).
    ///
    /// # Errors
    /// When the certificates to trust cannot be read.
    pub(super) fn new(options: &TlsOptions, endpoint: SocketAddr, protocols: &[&[u8]]) -> Result<Tls, Fault> {
        let provider = Arc::new(ring::default_provider());
        let versions: &[_] = match options.version.as_deref() {
            Some("1.2") => &[&rustls::version::TLS12],
            Some("1.3") => &[&rustls::version::TLS13],
            _ => &[&rustls::version::TLS13, &rustls::version::TLS12],
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .doing("set up TLS")?;
        let verifier = Arc::new(Verifier::new(&options.verify, provider)?);
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        if !options.resume {
            config.resumption = Resumption::disabled();
        }
        let name = match &options.name {
            Some(name) => ServerName::try_from(name.clone()).doing(format_args!("use '{name}' as a server's name"))?,
            None => ServerName::from(endpoint.ip()),
        };
        Ok(Tls { config: Arc::new(config), name, ends: Mutex::default() })
    }

    /// A channel for a new connection.
    pub(super) fn open(&self) -> Channel {
        let mut connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .expect("the configuration was accepted when it was made");
        // What is written is taken out at once.
        connection.set_buffer_limit(None);
        Channel { connection: Box::new(connection), scratch: Vec::new() }
    }

    /// The outcomes of handshakes and the number of each, for the record.
    pub(super) fn facts(&self) -> BTreeMap<String, String> {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.is_empty() {
            return BTreeMap::new();
        }
        let listed: Vec<_> = ends.iter().map(|(end, count)| format!("{end}: {count}")).collect();
        BTreeMap::from([("tls handshakes".to_owned(), listed.join("; "))])
    }

    #[cold]
    fn note(&self, end: String) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.len() < REASONS_MAX || ends.contains_key(&end) {
            *ends.entry(end).or_default() += 1;
        }
    }
}

/// One secured connection.
pub(super) struct Channel {
    connection: Box<ClientConnection>,
    scratch: Vec<u8>,
}

impl Channel {
    /// The first bytes to send.
    pub(super) fn greet(&mut self, out: &mut Vec<u8>) {
        self.flush(out);
    }

    /// Takes bytes of the handshake; returns whether it is over.
    ///
    /// # Errors
    /// When the handshake fails.
    pub(super) fn shake(&mut self, tls: &Tls, bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, Failure> {
        let result = self.take(bytes, |_| Err(Error::General("data before the handshake was over".into())));
        // After an error this is the alert that gives the reason.
        self.flush(out);
        match result {
            Err(error) => {
                let failure = failure_of(&error);
                tls.note(error.to_string());
                Err(failure)
            }
            Ok(_) if self.connection.is_handshaking() => Ok(false),
            Ok(_) => {
                let version = self.connection.protocol_version().and_then(|version| version.as_str()).unwrap_or("?");
                let suite = self.connection.negotiated_cipher_suite().map(|suite| suite.suite());
                let suite = suite.and_then(|suite| suite.as_str()).unwrap_or("?");
                let resumed = self.connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
                tls.note(format!("{version} {suite}{}", if resumed { " resumed" } else { "" }));
                Ok(true)
            }
        }
    }

    /// An empty buffer for data to be encrypted; must be given back.
    pub(super) fn scratch(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.scratch)
    }

    /// Takes the buffer back.
    pub(super) fn give_back(&mut self, mut scratch: Vec<u8>) {
        scratch.clear();
        scratch.shrink_to(SCRATCH_MAX);
        self.scratch = scratch;
    }

    /// Encrypts `plain` into `out`.
    pub(super) fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        self.connection.writer().write_all(plain).expect("there is no limit to run into");
        self.flush(out);
    }

    /// Decrypts what has come and passes it to `to`; returns whether the peer has announced the end of its data.
    ///
    /// # Errors
    /// When it was tampered with, or `to` fails.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        mut to: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        let mut refused = None;
        let result = self.take(bytes, |plain| {
            to(plain).map_err(|failure| {
                refused = Some(failure);
                Error::General(String::new())
            })
        });
        self.flush(out);
        result.map_err(|error| refused.unwrap_or_else(|| failure_of(&error)))
    }

    fn take(&mut self, mut bytes: &[u8], mut to: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<bool, Error> {
        let general = |error: std::io::Error| Error::General(error.to_string());
        let mut ended = false;
        while !bytes.is_empty() && !ended {
            self.connection.read_tls(&mut bytes).map_err(general)?;
            ended = self.connection.process_new_packets()?.peer_has_closed();
            loop {
                let mut reader = self.connection.reader();
                let taken = match reader.fill_buf() {
                    Ok([]) => break,
                    Ok(plain) => {
                        to(plain)?;
                        plain.len()
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(general(error)),
                };
                reader.consume(taken);
            }
        }
        Ok(ended)
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            self.connection.write_tls(out).expect("a vector takes everything");
        }
    }
}

fn failure_of(error: &Error) -> Failure {
    match error {
        Error::InvalidCertificate(_) | Error::NoCertificatesPresented => Failure::Certificate,
        _ => Failure::Tls,
    }
}
