//! What a workload asks of a protocol, read as the binary reads it.

use tare_core::config::{Problems, parse};
use tare_load::PROTOCOLS;

/// The options of a protocol, with its defaults filled in.
pub(crate) fn options(protocol: &str, text: &str) -> serde_json::Value {
    let mut problems = Problems::new("test", text);
    let node = parse(text, &mut problems).unwrap();
    let row = PROTOCOLS.iter().find(|row| row.name == protocol).unwrap();
    (row.options)(&node, &mut problems).unwrap_or_else(|| panic!("{:?}", problems.into_vec()))
}
