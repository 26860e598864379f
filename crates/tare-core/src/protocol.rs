//! A protocol as the readers of workloads and studies see it: a name, options, and what follows from them.

use crate::config::{Node, Problems};
use crate::load::OwnMetric;
use serde_json::Value;

/// What follows from a protocol's options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtocolFacts {
    /// The names of the operations.
    pub operations: Vec<String>,
    /// The names of the values that operations capture, set or draw. A user may choose its next operation by them.
    pub variables: Vec<String>,
    /// The metrics that the load itself defines, in addition to those of every trial.
    pub metrics: Vec<OwnMetric>,
    /// The other services that the load talks to, such as those behind a proxy, by name.
    pub speaks_to: Vec<String>,
    /// Whether the load is a tool that runs inside the form, next to the service.
    pub runs_inside: bool,
}

/// A protocol without the type of its options, which are JSON here. The crate of the load makes these from its typed
/// protocols; the binary hands them to the readers through [`Catalog`](crate::catalog::Catalog).
pub trait ProtocolInfo: Sync {
    /// Its name in workload files.
    fn name(&self) -> &'static str;

    /// Checks a user's options and returns them with every default filled in. Returns `None` if it has added problems.
    fn read(&self, node: &Node, problems: &mut Problems) -> Option<Value>;

    /// What follows from options as [`ProtocolInfo::read`] returned them; nothing from any others.
    fn facts(&self, _options: &Value) -> ProtocolFacts {
        ProtocolFacts::default()
    }

    /// Whether it reports every second what was done in it, and counts operations itself. An external tool reports
    /// once, at its end.
    fn tells_seconds(&self) -> bool {
        true
    }
}
