//! What is spoken to the service. A protocol is a folder here and a row of [`PROTOCOLS`].
//!
//! Most are a [`Protocol`], which the engine speaks; a row says who carries out its plans.

mod exec;
mod http;
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

use crate::engine::Emit;
use crate::operation::Protocol;
use serde::de::DeserializeOwned;
use tare_core::config::{Node, Problems};
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadSummary, OwnMetric};

/// Replies longer than this end the connection: 64 MiB.
pub(crate) const REPLY_MAX: u64 = 64 << 20;

/// A row of the table of protocols.
pub struct ProtocolRow {
    /// The protocol's name in workload files.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// Checks a user's options and writes them down with every default filled in. `None` adds problems.
    pub options: fn(&Node, &mut Problems) -> Option<serde_json::Value>,
    /// The names of the values that operations capture, set or draw with these options, as [`ProtocolRow::options`]
    /// wrote them down; by them may hang which operation a user asks for next.
    pub variables: fn(&serde_json::Value) -> Vec<String>,
    /// The names of the operations with these options, as [`ProtocolRow::options`] wrote them down; none when they
    /// are not this protocol's.
    pub operations: fn(&serde_json::Value) -> Vec<String>,
    /// The metrics that it has with these options, as [`ProtocolRow::options`] wrote them down, beside those of every
    /// trial.
    pub metrics: fn(&serde_json::Value) -> Vec<OwnMetric>,
    /// Whether single seconds are told while it runs. A tool of others says what it did when it has ended.
    pub tells_seconds: bool,
    /// Whether with these options, as [`ProtocolRow::options`] wrote them down, a tool runs inside the form.
    pub runs_inside: fn(&serde_json::Value) -> bool,
    /// The services, besides the one that is loaded, that it speaks to with these options, as [`ProtocolRow::options`]
    /// wrote them down: such as those behind a proxy.
    pub speaks_to: fn(&serde_json::Value) -> Vec<String>,
    /// Carries out a plan.
    pub(crate) drive: fn(&LoadPlan, &mut Emit<'_>) -> Result<LoadSummary, Fault>,
}

/// Every protocol.
pub const PROTOCOLS: &[ProtocolRow] =
    &[redis::ROW, http::ROW, postgres::ROW, mysql::ROW, tcp::ROW, exec::ROW, null::ROW];

/// Whether this machine has what a protocol needs.
type CheckNeeds = fn(&serde_json::Value) -> Result<(), Fault>;

/// What protocols need of this machine; most need nothing.
const NEEDS: &[(&str, CheckNeeds)] = &[(exec::ROW.name, exec::check_programs)];

/// Whether this machine has what a protocol needs with these options, to be asked before anything is deployed.
///
/// # Errors
/// What is missing, and how to get it.
pub fn check_needs(protocol: &str, options: &serde_json::Value) -> Result<(), Fault> {
    NEEDS.iter().filter(|(name, _)| *name == protocol).try_for_each(|(_, check)| check(options))
}

/// A plan's options as the protocol wrote them down.
///
/// # Errors
/// When they are not this protocol's.
pub(crate) fn options_of<T: DeserializeOwned>(plan: &LoadPlan) -> Result<T, Fault> {
    T::deserialize(&plan.options).map_err(|error| {
        Fault::new(format!("the plan's options are not those of protocol '{}': {error}", plan.protocol))
            .remedy("read the workload again with this version of tare")
    })
}

/// The names of a protocol's operations, for its row.
pub(crate) fn names<P: Protocol>(protocol: &P) -> Vec<String> {
    protocol.operations().into_iter().map(|operation| operation.name).collect()
}

/// Options as a workload's text gives them, or the mistakes in it, for the tests of the protocols.
#[cfg(test)]
fn read_text<T: serde::de::DeserializeOwned>(
    read: fn(&Node, &mut Problems) -> Option<serde_json::Value>,
    text: &str,
) -> Result<T, Vec<String>> {
    let mut problems = Problems::new("workload.yaml", text).with_files(|name| match name {
        "picture.jpg" => Ok(b"\xff\xd8".to_vec()),
        _ => Err(format!("there is no file {name}")),
    });
    let node = tare_core::config::parse(text, &mut problems).unwrap();
    match read(&node, &mut problems) {
        Some(options) => Ok(serde_json::from_value(options).unwrap()),
        None => Err(problems.into_vec().iter().map(ToString::to_string).collect()),
    }
}
