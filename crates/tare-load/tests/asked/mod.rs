//! Options as a workload states them, read as the binary reads them, and the output of a load.

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

/// The result of a load that carries out this plan.
pub(crate) fn driven(plan: &LoadPlan) -> Result<LoadSummary, Fault> {
    served(Cursor::new(serde_json::to_vec(plan).unwrap())).1
}

/// The output of a load process with this input, and its result.
pub(crate) fn served(input: impl Read + Send + 'static) -> (Vec<LoadLine>, Result<LoadSummary, Fault>) {
    let mut printed = Vec::new();
    // The last line also shows whether it succeeded.
    let _ = tare_load::serve(PROTOCOLS, input, &mut printed);
    load::lines(&printed)
}
