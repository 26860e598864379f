//! The protocols of services. Each is a folder here and an item of [`PROTOCOLS`].
//!
//! Each implements [`LoadProtocol`]. Most pass a [`Protocol`](crate::operation::Protocol) to the engine; `exec` and
//! `null` carry out plans themselves.

mod exec;
mod http;
mod load_protocol;
mod mysql;
mod null;
mod postgres;
mod redis;
mod sql;
mod tcp;
mod tls;

#[cfg(any(test, fuzzing))]
pub(crate) mod chew;
#[cfg(any(test, fuzzing))]
mod pieces;

pub use exec::known_tools;
pub use load_protocol::{ErasedProtocol, LoadProtocol, erased, protocol_named};

/// Replies longer than this end the connection: 64 MiB.
pub(crate) const REPLY_MAX: u64 = 64 << 20;

/// The protocols of this crate.
pub const PROTOCOLS: &[&dyn ErasedProtocol] = &[
    redis::PROTOCOL,
    http::PROTOCOL,
    postgres::PROTOCOL,
    mysql::PROTOCOL,
    tcp::PROTOCOL,
    exec::PROTOCOL,
    null::PROTOCOL,
];

/// Options read from a workload's text, written and read back, or the mistakes in the text; for the tests of protocols.
#[cfg(test)]
fn read_text<T: serde::Serialize + serde::de::DeserializeOwned>(
    read: fn(&tare_core::config::Node, &mut tare_core::config::Problems) -> Option<T>,
    text: &str,
) -> Result<T, Vec<String>> {
    let mut problems = tare_core::config::Problems::new("workload.yaml", text).with_files(|name| match name {
        "picture.jpg" => Ok(b"\xff\xd8".to_vec()),
        _ => Err(format!("there is no file {name}")),
    });
    let node = tare_core::config::parse(text, &mut problems).unwrap();
    match read(&node, &mut problems).filter(|_| problems.is_empty()) {
        Some(options) => Ok(serde_json::from_value(serde_json::to_value(options).unwrap()).unwrap()),
        None => Err(problems.into_vec().iter().map(ToString::to_string).collect()),
    }
}
