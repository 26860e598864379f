//! How a run ended, and who asked it to end.

use serde::{Deserialize, Serialize};
use std::fmt;

/// `end.json`: written when the run is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// When, RFC 3339.
    pub ended: String,
    /// `complete`, `fitted`, `precise enough`, `decided`, `on request`, `interrupted` or `budget spent`.
    pub how: String,
    /// Who asked the run to end after the block that was being measured, if anybody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<Asker>,
}

impl End {
    /// Whether the run ended between two blocks before its plan was carried out: no trial that it began is missing.
    pub fn is_early(&self) -> bool {
        [FITTED, PRECISE_ENOUGH, DECIDED, ON_REQUEST].contains(&self.how.as_str())
    }

    /// Whether there is nothing left to run.
    pub fn is_whole(&self) -> bool {
        self.how == COMPLETE || self.is_early()
    }
}

/// [`End::how`] of a run that carried out its whole plan.
pub const COMPLETE: &str = "complete";

/// [`End::how`] of a run that carried out as many whole rounds of its plan as fitted into the given time.
pub const FITTED: &str = "fitted";

/// [`End::how`] of a run that ended because its intervals were as narrow as the study wanted them.
pub const PRECISE_ENOUGH: &str = "precise enough";

/// [`End::how`] of a run that ended because one form was better than every other beyond chance.
pub const DECIDED: &str = "decided";

/// [`End::how`] of a run that a user asked to end after the block that was being measured.
pub const ON_REQUEST: &str = "on request";

/// [`End::how`] of a run that its user ended.
pub const INTERRUPTED: &str = "interrupted";

/// [`End::how`] of a run that ended because another block would have exceeded the given time, before it had found what
/// it was looking for.
pub const BUDGET_SPENT: &str = "budget spent";

/// What a user may ask of a run in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndRequest {
    /// To end after the block that is being measured.
    AfterBlock,
    /// To take the current trial down and end, as after Ctrl-C.
    AtOnce,
}

/// Who asked a run to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    /// The number of the user.
    pub user: u32,
    /// The name of the program that asked, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl fmt::Display for Asker {
    /// `root (bash)`, `user 1000`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.user {
            0 => formatter.write_str("root")?,
            user => write!(formatter, "user {user}")?,
        }
        self.program.as_ref().map_or(Ok(()), |program| write!(formatter, " ({program})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asked_is_said_and_kept_only_if_somebody_did() {
        let asker = |user, program: Option<&str>| Asker { user, program: program.map(str::to_owned) };
        assert_eq!(asker(0, Some("bash")).to_string(), "root (bash)");
        assert_eq!(asker(1000, None).to_string(), "user 1000");
        let end = |how: &str, asked_by| End { ended: "2026".to_owned(), how: how.to_owned(), asked_by };
        let by_itself = serde_json::to_string(&end(COMPLETE, None)).unwrap();
        assert_eq!(by_itself, r#"{"ended":"2026","how":"complete"}"#);
        let asked = end(ON_REQUEST, Some(asker(0, Some("bash"))));
        let read: End = serde_json::from_str(&serde_json::to_string(&asked).unwrap()).unwrap();
        assert_eq!(read, asked);
        assert!(asked.is_early() && asked.is_whole() && !end(INTERRUPTED, None).is_whole());
    }
}
