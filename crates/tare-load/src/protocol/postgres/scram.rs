//! Proves a password: SCRAM-SHA-256 (RFC 5802, RFC 7677) and the older MD5 method.
//!
//! Passwords are printable ASCII (checked when options are read), which SASLprep leaves unchanged. The salted password
//! costs thousands of hashes and is the same for every connection with the same salt, so it is kept.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha2::{Digest, Sha256};
use std::sync::{Mutex, PoisonError};

/// The most rounds: more are an attack on the client rather than a password check; servers ask for 4096.
const ROUNDS_MAX: u32 = 1_000_000;
const BLOCK: usize = 64;

type Hash = [u8; 32];

fn sha256(parts: &[&[u8]]) -> Hash {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

/// HMAC (RFC 2104) over SHA-256.
struct Hmac {
    inner: Sha256,
    outer: Sha256,
}

impl Hmac {
    fn new(key: &[u8]) -> Self {
        let hashed = sha256(&[key]);
        let key = if key.len() > BLOCK { &hashed } else { key };
        let pad = |with: u8| {
            let mut block = [with; BLOCK];
            block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
            Sha256::new().chain_update(block)
        };
        Hmac { inner: pad(0x36), outer: pad(0x5c) }
    }

    fn of(&self, parts: &[&[u8]]) -> Hash {
        let mut inner = self.inner.clone();
        parts.iter().for_each(|part| inner.update(part));
        self.outer.clone().chain_update(inner.finalize()).finalize().into()
    }
}

/// PBKDF2 (RFC 8018) with HMAC-SHA-256, one block of output.
fn salted(password: &[u8], salt: &[u8], rounds: u32) -> Hash {
    let hmac = Hmac::new(password);
    let mut last = hmac.of(&[salt, &1_u32.to_be_bytes()]);
    let mut sum = last;
    for _ in 1..rounds {
        last = hmac.of(&[&last]);
        sum.iter_mut().zip(last).for_each(|(sum, last)| *sum ^= last);
    }
    sum
}

/// The last salted password, with its salt and its rounds.
#[derive(Debug, Default)]
pub(super) struct Salted(Mutex<Option<(Vec<u8>, u32, Hash)>>);

impl Salted {
    fn get(&self, password: &[u8], salt: &[u8], rounds: u32) -> Hash {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((known, times, hash)) if known == salt && *times == rounds => *hash,
            _ => {
                let hash = salted(password, salt, rounds);
                *kept = Some((salt.to_vec(), rounds, hash));
                hash
            }
        }
    }
}

/// An exchange in progress.
#[derive(Debug)]
pub(super) struct Scram {
    nonce: String,
    expected: Option<Hash>,
}

/// Without channel binding.
const HEADER: &str = "n,,";

impl Scram {
    /// Begins with a nonce of ours: any text without a comma.
    pub(super) fn new(nonce: String) -> Self {
        Scram { nonce, expected: None }
    }

    /// The first message. The server knows the user's name already.
    pub(super) fn first(&self) -> String {
        format!("{HEADER}n=,r={}", self.nonce)
    }

    /// The answer to the server's first message; none if that is invalid.
    pub(super) fn answer(&mut self, server_first: &str, password: &str, kept: &Salted) -> Option<String> {
        let field = |name: &str| server_first.split(',').find_map(|field| field.strip_prefix(name));
        let nonce = field("r=").filter(|nonce| nonce.starts_with(&self.nonce) && nonce.len() > self.nonce.len())?;
        let salt = STANDARD.decode(field("s=")?).ok()?;
        let rounds = field("i=")?.parse().ok().filter(|rounds| (1..=ROUNDS_MAX).contains(rounds))?;
        let salted = Hmac::new(&kept.get(password.as_bytes(), &salt, rounds));
        let client_key = salted.of(&[b"Client Key"]);
        let bare = format!("c={},r={nonce}", STANDARD.encode(HEADER));
        let message = [format!("n=,r={}", self.nonce), server_first.to_owned(), bare.clone()].join(",");
        let signature = Hmac::new(&sha256(&[&client_key])).of(&[message.as_bytes()]);
        let mut proof = client_key;
        proof.iter_mut().zip(signature).for_each(|(proof, signature)| *proof ^= signature);
        self.expected = Some(Hmac::new(&salted.of(&[b"Server Key"])).of(&[message.as_bytes()]));
        Some(format!("{bare},p={}", STANDARD.encode(proof)))
    }

    /// Whether the server's last message proves that it knows the password too.
    pub(super) fn proves(&self, server_last: &str) -> bool {
        let proof = server_last.strip_prefix("v=").and_then(|text| STANDARD.decode(text).ok());
        self.expected.is_some_and(|expected| proof.is_some_and(|proof| proof == expected))
    }
}

/// Takes the lines of a text as a server's two messages.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(text: &str) {
    let (first, last) = text.split_once('\n').unwrap_or((text, ""));
    // More rounds only take longer: a minute of them tests no more than a few.
    let few =
        |field: &str| field.strip_prefix("i=").is_none_or(|rounds| rounds.parse().is_ok_and(|many: u32| many < 99));
    if !first.split(',').all(few) {
        return;
    }
    let mut scram = Scram::new("abc".into());
    assert!(!scram.proves(last), "nothing was asked yet");
    let Some(answer) = scram.answer(first, "secret", &Salted::default()) else { return };
    assert!(answer.starts_with("c=biws,r=abc") && !answer.contains('\n'), "{answer}");
    scram.proves(last);
    let proof = STANDARD.encode(scram.expected.expect("it has answered"));
    assert!(scram.proves(&format!("v={proof}")));
}

/// The answer to a request for an MD5 digest.
pub(super) fn md5_answer(user: &str, password: &str, salt: &[u8]) -> String {
    let hex = |hash: Md5| hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let inner = hex(Md5::new().chain_update(password).chain_update(user));
    format!("md5{}", hex(Md5::new().chain_update(inner).chain_update(salt)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard_is_reproduced() {
        // RFC 7677, section 3. The client of that example names the user, so only the server's proof is checked.
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let salted = Hmac::new(&salted(b"pencil", &salt, 4096));
        let message = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                       s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let server = Hmac::new(&salted.of(&[b"Server Key"])).of(&[message.as_bytes()]);
        assert_eq!(STANDARD.encode(server), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn only_a_server_that_goes_on_from_our_nonce_is_answered() {
        let mut scram = Scram::new("abc".into());
        let kept = Salted::default();
        assert_eq!(scram.first(), "n,,n=,r=abc");
        let wrong =
            ["r=abc,s=AAAA,i=1", "r=xyzabc,s=AAAA,i=1", "r=abcd,i=1", "r=abcd,s=AAAA,i=0", "", "r=abcd,s=?,i=1"];
        for first in wrong {
            assert_eq!(scram.answer(first, "x", &kept), None, "{first}");
        }
        assert!(scram.answer("r=abcd,s=AAAA,i=2", "x", &kept).unwrap().starts_with("c=biws,r=abcd,p="));
        assert!(!scram.proves("v=AAAA") && !scram.proves("e=other-error"));
        let expected = STANDARD.encode(scram.expected.unwrap());
        assert!(scram.proves(&format!("v={expected}")));
    }

    #[test]
    fn md5_digests_are_postgres_own() {
        // SELECT 'md5' || md5(md5('secretfred') || 'salt')
        assert_eq!(md5_answer("fred", "secret", b"salt"), "md5".to_owned() + &hex_of_test());
    }

    fn hex_of_test() -> String {
        let hex = |text: &str| Md5::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        hex(&(hex("secretfred") + "salt"))
    }
}
