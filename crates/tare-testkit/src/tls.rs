//! What a server needs to speak TLS.

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::{Arc, OnceLock};

/// A server's configuration with a self-signed certificate for `localhost`, made once.
pub fn config() -> Arc<ServerConfig> {
    static CONFIG: OnceLock<Arc<ServerConfig>> = OnceLock::new();
    let make = || {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("it can be signed");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider knows them")
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key);
        Arc::new(config.expect("the key is the certificate's"))
    };
    Arc::clone(CONFIG.get_or_init(make))
}
