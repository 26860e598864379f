//! Proves a password: `mysql_native_password` and `caching_sha2_password`.

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// A way to prove a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plugin {
    /// SHA-1 twice, mixed with the server's salt.
    Native,
    /// The same with SHA-256; a server that has not seen the password yet wants it in clear, over a private connection.
    CachingSha2,
}

impl Plugin {
    /// Every plugin, by its name on the wire.
    const NAMES: [(&'static str, Plugin); 2] =
        [("mysql_native_password", Plugin::Native), ("caching_sha2_password", Plugin::CachingSha2)];

    /// The plugin of this name.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        Plugin::NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, plugin)| *plugin)
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        Plugin::NAMES[self as usize].0
    }

    /// The proof; empty for an empty password. Only the first 20 bytes of the salt are used.
    pub(super) fn proof(self, password: &str, salt: &[u8]) -> Vec<u8> {
        let salt = salt.get(..20).unwrap_or(salt);
        match self {
            _ if password.is_empty() => Vec::new(),
            Plugin::Native => {
                let once = Sha1::digest(password);
                let twice = Sha1::digest(once);
                mix(&once, &Sha1::new().chain_update(salt).chain_update(twice).finalize())
            }
            Plugin::CachingSha2 => {
                let once = Sha256::digest(password);
                let twice = Sha256::digest(once);
                mix(&once, &Sha256::new().chain_update(twice).chain_update(salt).finalize())
            }
        }
    }
}

fn mix(one: &[u8], other: &[u8]) -> Vec<u8> {
    one.iter().zip(other).map(|(one, other)| one ^ other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a server does: it recovers the hash from the stored hash (of the hash) and the proof.
    #[test]
    fn a_server_that_knows_the_doubled_hash_is_convinced() {
        let salt = b"01234567890123456789";
        let stored = Sha1::digest(Sha1::digest("secret"));
        let mask = Sha1::new().chain_update(salt).chain_update(stored).finalize();
        let once = mix(&Plugin::Native.proof("secret", salt), &mask);
        assert_eq!(Sha1::digest(&once), stored);
        let stored = Sha256::digest(Sha256::digest("secret"));
        let mask = Sha256::new().chain_update(stored).chain_update(salt).finalize();
        let once = mix(&Plugin::CachingSha2.proof("secret", salt), &mask);
        assert_eq!(Sha256::digest(&once), stored);
        assert_eq!(Plugin::Native.proof("", salt), b"");
    }

    #[test]
    fn plugins_have_their_names() {
        for (name, plugin) in Plugin::NAMES {
            assert_eq!((Plugin::named(name.as_bytes()), plugin.name()), (Some(plugin), name));
        }
        assert_eq!(Plugin::named(b"client_ed25519"), None);
    }
}
