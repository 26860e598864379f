//! Mistakes on the command line, or in the files that it names.

use std::fmt;
use tare_core::config::Problem;

/// The user's mistake: exit code 2, nothing was measured.
#[derive(Debug)]
pub(crate) enum Mistake {
    /// On the command line; the remedy is on a line of its own.
    Typed(String),
    /// In files, each with its place.
    InFiles(Vec<Problem>),
}

impl Mistake {
    /// A mistake on the command line.
    pub(crate) fn new(message: impl Into<String>) -> Mistake {
        Mistake::Typed(message.into())
    }

    /// Mistakes in files, each with its place.
    pub(crate) fn in_files(problems: Vec<Problem>) -> Mistake {
        Mistake::InFiles(problems)
    }
}

/// Without the prefix `error:`, so that it can be part of another message.
impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mistake::Typed(message) => f.write_str(message),
            Mistake::InFiles(problems) => {
                let hinted = |Problem { file, place, message, hint, .. }: &Problem| {
                    let hint = if hint.is_empty() { String::new() } else { format!(" ({hint})") };
                    format!("{file}:{}:{}: {message}{hint}", place.line, place.column)
                };
                let all: Vec<String> = problems.iter().map(hinted).collect();
                f.write_str(&all.join("; "))
            }
        }
    }
}

impl std::error::Error for Mistake {}
