//! TLS against a server in this process.

use super::*;
use crate::operation::Greeting;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};
use std::io::{Read as _, Write as _};
use std::sync::Arc;

/// A server with a fresh certificate for shop.test, and the authority's certificate in a file.
struct Shop {
    config: Arc<ServerConfig>,
    authority: tempfile::NamedTempFile,
}

impl Shop {
    fn new(versions: &[&'static SupportedProtocolVersion]) -> Shop {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec!["shop.test".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        Shop::of(versions, leaf.der().clone(), &key, &issuer.pem())
    }

    fn of(
        versions: &[&'static SupportedProtocolVersion],
        certificate: CertificateDer<'static>,
        key: &KeyPair,
        trusted: &str,
    ) -> Shop {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(trusted.as_bytes()).unwrap();
        Shop { config: Arc::new(config), authority: file }
    }

    fn http(&self, tls: &str) -> Http {
        let tls = tls.replace("FILE", &self.authority.path().display().to_string());
        http(&format!("tls: {tls}\nrequests: [{{path: /, contains: needle}}]"))
    }
}

/// Both sides and the wire between them.
struct Wire {
    server: ServerConnection,
    session: Session,
    piece: usize,
}

impl Wire {
    /// Passes the client's bytes to the server and returns its answer.
    fn serve(&mut self, mut sent: &[u8]) -> Vec<u8> {
        while !sent.is_empty() {
            self.server.read_tls(&mut sent).unwrap();
            // A refusal is answered with an alert.
            let _ = self.server.process_new_packets();
        }
        let mut out = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut out).unwrap();
        }
        out
    }

    fn shake(shop: &Shop, http: &Http, piece: usize) -> Result<Wire, Failure> {
        let mut server = ServerConnection::new(Arc::clone(&shop.config)).unwrap();
        server.set_buffer_limit(None);
        let mut wire = Wire { server, session: http.session(), piece };
        let mut out = Vec::new();
        assert_eq!(http.greet(&mut wire.session, &mut out), Greeting::Wait);
        loop {
            let back = wire.serve(&std::mem::take(&mut out));
            assert!(!back.is_empty(), "both wait");
            let mut greeting = Greeting::Wait;
            for bytes in back.chunks(piece) {
                if greeting == Greeting::Ready {
                    http.idle(&mut wire.session, bytes, &mut out)?;
                    continue;
                }
                greeting = http.shake(&mut wire.session, bytes, &mut out)?;
            }
            if greeting == Greeting::Ready {
                let tickets = wire.serve(&std::mem::take(&mut out));
                if !tickets.is_empty() {
                    http.idle(&mut wire.session, &tickets, &mut out)?;
                }
                return Ok(wire);
            }
        }
    }

    fn operate(&mut self, http: &Http, answer: &[u8]) -> Step {
        let (mut user, mut draw, mut out) = (http.user(0), Draw::new(1, 0), Vec::new());
        http.begin(&mut self.session, &mut user, 0, &mut draw, &mut out);
        self.serve(&out);
        let mut request = [0; 4096];
        let received = self.server.reader().read(&mut request).unwrap();
        assert!(request[..received].starts_with(b"GET / HTTP/1.1\r\n"));
        self.server.writer().write_all(answer).unwrap();
        let back = self.serve(b"");
        for bytes in back.chunks(self.piece) {
            out.clear();
            match http.feed(&mut self.session, &mut user, &Flight::default(), bytes, &mut draw, &mut out) {
                Step::More => {}
                step => return step,
            }
        }
        Step::More
    }
}

#[test]
fn both_versions_are_spoken_in_any_pieces() {
    for (version, name) in [(&TLS12, "TLSv1_2"), (&TLS13, "TLSv1_3")] {
        let shop = Shop::new(&[version]);
        for piece in [1, 7, 100_000] {
            let http = shop.http("{verify: FILE, name: shop.test}");
            let mut wire = Wire::shake(&shop, &http, piece).unwrap();
            let long = reply(200, "", &format!("{}needle", "hay ".repeat(30_000)));
            for answer in [reply(200, "", "a needle"), long] {
                let step = wire.operate(&http, &answer);
                assert!(matches!(step, Step::Done { reply: Reply::Right, last: false, .. }), "{piece}: {step:?}");
            }
            assert_eq!(wire.server.server_name(), Some("shop.test"));
            let ends = &http.facts()["tls handshakes"];
            assert!(ends.starts_with(name) && ends.ends_with(": 1"), "{ends}");
        }
    }
}

#[test]
fn a_version_may_be_asked_for() {
    let shop = Shop::new(&[&TLS12, &TLS13]);
    for (version, name) in [("'1.2'", "TLSv1_2"), ("'1.3'", "TLSv1_3")] {
        let http = shop.http(&format!("{{verify: FILE, name: shop.test, version: {version}}}"));
        Wire::shake(&shop, &http, 1000).unwrap();
        assert!(http.facts()["tls handshakes"].starts_with(name));
    }
    let old = Shop::new(&[&TLS12]);
    let http = old.http("{verify: false, version: '1.3'}");
    assert_eq!(Wire::shake(&old, &http, 1000).err(), Some(Failure::Tls));
}

#[test]
fn certificates_are_verified_unless_told_otherwise() {
    let (shop, other) = (Shop::new(&[&TLS13]), Shop::new(&[&TLS13]));
    let shake = |tls: &str, trusted: &Shop| Wire::shake(&shop, &trusted.http(tls), 1000).err();
    assert_eq!(shake("{verify: FILE, name: shop.test}", &shop), None);
    assert_eq!(shake("{verify: FILE, name: shop.test}", &other), Some(Failure::Certificate));
    assert_eq!(shake("{verify: FILE, name: other.test}", &shop), Some(Failure::Certificate));
    assert_eq!(shake("{verify: FILE}", &shop), Some(Failure::Certificate));
    assert_eq!(shake("{verify: false, name: other.test}", &other), None);
    // A self-signed server, as labs have: it is trusted if its certificate is named.
    let mut own = CertificateParams::new(vec!["shop.test".to_owned()]).unwrap();
    own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own = CertifiedIssuer::self_signed(own, KeyPair::generate().unwrap()).unwrap();
    let alone = Shop::of(&[&TLS13], own.der().clone(), own.key(), &own.pem());
    let http = alone.http("{verify: FILE, name: shop.test}");
    assert_eq!(Wire::shake(&alone, &http, 1000).err(), None);
    assert_eq!(Wire::shake(&alone, &shop.http("{verify: FILE}"), 1000).err(), Some(Failure::Certificate));
}

#[test]
fn what_is_not_tls_is_named() {
    let http = http("tls: {verify: false}\nrequests: [{path: /}]");
    let (mut session, mut out) = (http.session(), Vec::new());
    http.greet(&mut session, &mut out);
    assert_eq!(http.shake(&mut session, b"HTTP/1.1 400 Bad Request\r\n\r\n", &mut out), Err(Failure::Tls));
    assert!(http.facts()["tls handshakes"].contains("corrupt message"), "{:?}", http.facts());
}

#[test]
fn the_end_of_a_reply_without_length_must_be_said() {
    let shop = Shop::new(&[&TLS13]);
    let http = shop.http("{verify: false}");
    let endless = b"HTTP/1.1 200 OK\r\n\r\na needle";
    let (mut user, flight) = (http.user(0), Flight::default());
    let mut cut = Wire::shake(&shop, &http, 1000).unwrap();
    assert_eq!(cut.operate(&http, endless), Step::More);
    assert_eq!(http.closed(&mut cut.session, &mut user, &flight), None, "it may have been cut off");
    let mut wire = Wire::shake(&shop, &http, 1000).unwrap();
    assert_eq!(wire.operate(&http, endless), Step::More);
    wire.server.send_close_notify();
    let end = wire.serve(b"");
    let step = http.feed(&mut wire.session, &mut user, &flight, &end, &mut Draw::new(0, 0), &mut Vec::new());
    assert_eq!(step, Step::More);
    assert_eq!(http.closed(&mut wire.session, &mut user, &flight), Some(Reply::Right));
}

#[test]
fn tampering_breaks_the_connection() {
    let shop = Shop::new(&[&TLS13]);
    let http = shop.http("{verify: false}");
    let mut wire = Wire::shake(&shop, &http, 1000).unwrap();
    let (mut user, mut draw, mut out) = (http.user(0), Draw::new(1, 0), Vec::new());
    http.begin(&mut wire.session, &mut user, 0, &mut draw, &mut out);
    wire.serve(&out);
    wire.server.writer().write_all(&reply(200, "", "a needle")).unwrap();
    let mut back = wire.serve(b"");
    *back.last_mut().unwrap() ^= 1;
    let step = http.feed(&mut wire.session, &mut user, &Flight::default(), &back, &mut draw, &mut out);
    assert_eq!(step, Step::Broken(Failure::Tls));
}
