//! Reads what is asked after a run.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use tare_core::config::{Fields, Node, Problems};

/// A question to a service of the workload, after the load and before its teardown: whether the results are consistent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Question {
    /// The service, or a port of one as `service.port`.
    pub service: String,
    /// The path. An answer of 200 means that all is well.
    pub path: String,
    /// How long it may take until that is the case.
    pub within: Duration,
}

/// Reads `verify:`, a list of questions.
pub(super) fn read_questions(node: &Node, problems: &mut Problems) -> Vec<Question> {
    let mut questions = Vec::new();
    for item in node.items(problems).unwrap_or_default() {
        let Some(mut fields) = Fields::of(item, "a question after the run", problems) else { continue };
        let service = fields.require_text("service", problems);
        let path = fields.require("get", problems);
        let within = fields.duration("within", problems).unwrap_or(Duration::from_secs(30));
        fields.finish(problems);
        let Some((place, path)) = path.and_then(|node| Some((node.place, node.text(problems)?))) else { continue };
        if !path.starts_with('/') || path.contains(char::is_whitespace) {
            problems.add(place, format!("'{path}' is no path"), "start it with '/', without blanks");
        }
        questions.extend(service.map(|service| Question { service, path, within }));
    }
    questions
}
