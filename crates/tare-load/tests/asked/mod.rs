//! What a workload asks of a protocol, read as the binary reads it.

use tare_core::config::{Problems, parse};
use tare_load::PROTOCOLS;

/// The options of a protocol, with its defaults filled in.
pub(crate) fn options(protocol: &str, text: &str) -> serde_json::Value {
    let mut problems = Problems::new("test", text);
    let node = parse(text, &mut problems).unwrap();
    let known = PROTOCOLS.iter().find(|known| known.name() == protocol).unwrap();
    known.read(&node, &mut problems).unwrap_or_else(|| panic!("{:?}", problems.into_vec()))
}
