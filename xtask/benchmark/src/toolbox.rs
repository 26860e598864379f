//! The table of tools, and those of them that are here.

use crate::process::{CLIENT_CPU, find, pinned, run};
use crate::tool::{Job, Outcome, Said, Tool};
use crate::{http, ours, redis, sql};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every tool. The first two are ours.
pub(crate) const TOOLS: &[Tool] = &[
    ours::FLOOR,
    ours::TARE,
    ours::TIMED_FLOOR,
    ours::PROBER,
    redis::REDIS_BENCHMARK,
    http::WRK,
    http::AB,
    http::HEY,
    http::H2LOAD,
    sql::PGBENCH,
    sql::SYSBENCH,
];

/// Tools that would be compared if a Debian package had them.
pub(crate) const NOT_PACKAGED: &[&str] = &["memtier_benchmark", "wrk2", "oha", "vegeta", "k6"];

/// The tools that are here, and where.
pub(crate) struct Toolbox {
    programs: BTreeMap<&'static str, PathBuf>,
}

impl Toolbox {
    /// Looks for every tool; `ours` are the programs that are built here.
    pub(crate) fn open(ours: BTreeMap<&'static str, PathBuf>) -> Toolbox {
        let mut programs = ours;
        for tool in TOOLS {
            if let (false, Some(path)) = (programs.contains_key(tool.program), find(tool.program)) {
                programs.insert(tool.program, path);
            }
        }
        Toolbox { programs }
    }

    /// Where a tool's program is, if it is here.
    pub(crate) fn program(&self, tool: &Tool) -> Option<&Path> {
        self.programs.get(tool.program).map(PathBuf::as_path)
    }

    /// The tools that are here and can do a job, in the order of the table.
    pub(crate) fn able(&self, job: &Job) -> Vec<&'static Tool> {
        TOOLS.iter().filter(|tool| self.program(tool).is_some() && (tool.ask)(job).is_some()).collect()
    }

    /// Has a tool do a job, on the clients' CPU.
    ///
    /// # Errors
    /// When it fails, or says nothing that can be read.
    pub(crate) fn run(&self, tool: &Tool, job: &Job) -> Result<Outcome> {
        let program = self.program(tool).with_context(|| format!("{} is not here", tool.name))?;
        let typed = (tool.ask)(job).with_context(|| format!("{} cannot do this", tool.name))?;
        let limit = Duration::from_secs_f64(60.0 + 5.0 * job.seconds);
        let finished = run(&mut pinned(CLIENT_CPU, program, &typed.arguments), &typed.input, limit)?;
        let said = (tool.read)(&finished, job).with_context(|| {
            let tail: Vec<&str> = finished.stdout.lines().rev().take(20).collect();
            format!("{} said:\n{}", tool.name, tail.into_iter().rev().collect::<Vec<_>>().join("\n"))
        })?;
        ensure!(said.operations > 0.0 && said.seconds > 0.0, "{} did nothing: {}", tool.name, finished.stdout);
        let Said { operations, seconds, times, cpu_s, remark } = said;
        Ok(Outcome { operations, seconds, cpu_s: cpu_s.unwrap_or(finished.cpu_s), times, remark, finished })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{FLOOR, TARE};

    #[test]
    fn names_are_used_once() {
        let names: std::collections::BTreeSet<_> = TOOLS.iter().map(|tool| tool.name).collect();
        assert_eq!(names.len(), TOOLS.len());
        assert!(names.contains(FLOOR) && names.contains(TARE));
    }
}
