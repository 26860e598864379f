//! What a workload asks of a protocol, read as the binary reads it, and what its load says.

use std::io::{Cursor, Read};
use tare_core::config;
use tare_core::fault::Fault;
use tare_core::load::{LoadLine, LoadPlan, LoadSummary};
use tare_load::{PROTOCOLS, protocol_named};
use tare_testkit::load;

/// The options of a protocol, with its defaults filled in.
pub(crate) fn options(protocol: &str, text: &str) -> serde_json::Value {
    let known = protocol_named(PROTOCOLS, protocol).unwrap();
    config::read("test", text, |node, problems| known.read(node, problems)).unwrap()
}

/// How a load ends that is carried out by this plan.
pub(crate) fn driven(plan: &LoadPlan) -> Result<LoadSummary, Fault> {
    served(Cursor::new(serde_json::to_vec(plan).unwrap())).1
}

/// What a load process says that is told this, and how it ends.
pub(crate) fn served(input: impl Read + Send + 'static) -> (Vec<LoadLine>, Result<LoadSummary, Fault>) {
    let mut printed = Vec::new();
    // Whether it succeeded is told by the last line as well.
    let _ = tare_load::serve(PROTOCOLS, input, &mut printed);
    load::lines(&printed)
}
