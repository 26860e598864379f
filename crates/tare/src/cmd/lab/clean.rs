//! `tare lab clean`: what dead runs left on the machines of a lab, removed by `tare clean` on each.

use serde::Serialize;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::lab::Machine;
use tare_layers::agent::VerbEnd;
use tare_layers::lab::{Program, reach};

/// Options of `tare clean`, for all machines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    pub(super) dry_run: bool,
    pub(super) all: bool,
    pub(super) json: bool,
}

/// What came of it on a machine.
#[derive(Debug, Serialize)]
pub(super) struct Cleaned {
    pub(super) machine: String,
    /// The exit code of `tare clean` there.
    pub(super) code: Option<i32>,
    /// What it printed as JSON, where that was asked for.
    pub(super) found: Option<serde_json::Value>,
    /// What it said.
    pub(super) said: String,
    /// What was in the way.
    pub(super) fault: Option<Fault>,
}

impl Cleaned {
    /// Whether all was removed that was to be.
    pub(super) fn is_done(&self) -> bool {
        self.fault.is_none() && self.code == Some(0)
    }
}

/// Reaches a machine, within this time, and has it clean up.
pub(super) fn clean(machine: &Machine, program: &Program, within: Duration, options: Options) -> Cleaned {
    let began = Instant::now();
    let mut cleaned =
        Cleaned { machine: machine.name.clone(), code: None, found: None, said: String::new(), fault: None };
    let done = reach(machine, program, within).map_err(|unreached| unreached.fault).and_then(|mut reached| {
        let left = within.saturating_sub(began.elapsed());
        let end = reached.agent.carry_out(&options.arguments(), left);
        reached.leave();
        cleaned.note(end?, options)
    });
    cleaned.fault = done.err();
    cleaned
}

impl Options {
    fn arguments(self) -> Vec<&'static str> {
        let given = [("--dry-run", self.dry_run), ("--all", self.all), ("--json", self.json)];
        let given = given.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option);
        std::iter::once("clean").chain(given).collect()
    }
}

impl Cleaned {
    fn note(&mut self, end: VerbEnd, options: Options) -> Result<(), Fault> {
        self.code = end.code;
        if options.json {
            self.said = end.stderr;
            let found = serde_json::from_str(&end.stdout).doing("understand what `tare clean` says there");
            self.found = Some(found.map_err(|fault| fault.with_log(self.said.trim_end()))?);
        } else {
            self.said = end.stdout + &end.stderr;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_handed_on_and_what_was_said_is_kept() {
        let options = Options { dry_run: true, all: false, json: true };
        assert_eq!(options.arguments(), ["clean", "--dry-run", "--json"]);
        let mut cleaned = Cleaned { machine: "a".into(), code: None, found: None, said: String::new(), fault: None };
        let end =
            |stdout: &str| VerbEnd { code: Some(0), stdout: stdout.to_owned(), stderr: "all is well\n".to_owned() };
        cleaned.note(end("[{\"run\": \"x\"}]"), options).unwrap();
        assert_eq!(cleaned.found.as_ref().unwrap()[0]["run"], "x");
        assert!(cleaned.is_done() && cleaned.said == "all is well\n");
        let fault = cleaned.note(end("no JSON"), options).unwrap_err();
        assert!(fault.message.contains("understand what `tare clean` says") && fault.log == "all is well", "{fault:?}");
        cleaned.note(end("nothing to remove\n"), Options { json: false, ..options }).unwrap();
        assert_eq!(cleaned.said, "nothing to remove\nall is well\n");
        assert!(!Cleaned { code: Some(1), ..cleaned }.is_done());
    }
}
