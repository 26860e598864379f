//! What is compared: a table of tools, each with how it is asked to do a job and how its answer is read.

use super::process::{CLIENT_CPU, Finished, find, pinned, run};
use super::{http, ours, redis, sql};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// Redis commands with these weights, on [`KEYS`] keys of 3 bytes.
    Redis { set: u32, get: u32 },
    /// A file of 1 KiB over kept-alive connections.
    Http,
    /// One account by its number, with a prepared statement.
    Sql,
    /// One row by its number, of MariaDB, with a prepared statement.
    MySql,
    /// pgbench's own transaction, after TPC-B: three updates, a select and an insert, prepared.
    Transfer,
    /// sysbench's `oltp_read_write`: ten selects of a row, four of a hundred rows, two updates, a delete and an insert,
    /// in a transaction, prepared, rows drawn evenly.
    ReadWrite,
}

/// Keys that Redis commands choose from.
pub(super) const KEYS: u32 = 10_000;

/// A job that several tools are given.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) ask: Ask,
    pub(super) port: u16,
    pub(super) connections: u32,
    pub(super) pipeline: u32,
    pub(super) seconds: f64,
    /// Operations a second to be started; none is as many as it can.
    pub(super) rate: Option<f64>,
    /// Operations a second that may be expected, for tools that count operations instead of seconds.
    pub(super) expected: f64,
    /// The same for Tare: its protocol's options, as they are written down once read.
    pub(super) options: Value,
}

impl Job {
    /// As fast as it goes, or at a rate; without Tare's options.
    pub(super) fn new(ask: Ask, port: u16, connections: u32, seconds: f64, expected: f64) -> Job {
        Job { ask, port, connections, pipeline: 1, seconds, rate: None, expected, options: Value::Null }
    }

    /// `127.0.0.1:PORT`.
    pub(super) fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// What a tool reports about times, us. What it does not report is not a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

impl Times {
    /// Nothing reported.
    pub(super) const NONE: Times =
        Times { mean: f64::NAN, p50: f64::NAN, p95: f64::NAN, p99: f64::NAN, p999: f64::NAN, max: f64::NAN };
}

/// What a run of a tool came to.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) operations: f64,
    /// By the tool's own clock.
    pub(super) seconds: f64,
    /// CPU time, user and system, of the whole program; of a bare client only of its loop.
    pub(super) cpu_s: f64,
    pub(super) times: Times,
    /// Besides, for the reader.
    pub(super) remark: Option<String>,
    /// The program itself.
    pub(super) finished: Finished,
}

impl Outcome {
    /// Operations a second.
    pub(super) fn throughput(&self) -> f64 {
        self.operations / self.seconds
    }

    /// CPU time for each operation, us.
    pub(super) fn cpu_us(&self) -> f64 {
        self.cpu_s * 1e6 / self.operations
    }
}

/// What a tool's own output says.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) operations: f64,
    pub(super) seconds: f64,
    pub(super) times: Times,
    /// CPU time, s, if only a part of the program's is meant.
    pub(super) cpu_s: Option<f64>,
    pub(super) remark: Option<String>,
}

/// What is typed, and what is written to its standard input.
#[derive(Debug, Clone, Default)]
pub(super) struct Typed {
    pub(super) arguments: Vec<String>,
    pub(super) input: String,
}

impl Typed {
    /// Arguments between blanks.
    pub(super) fn line(line: &str) -> Typed {
        Typed { arguments: line.split_whitespace().map(str::to_owned).collect(), input: String::new() }
    }
}

/// A row of the table of tools.
pub(super) struct Tool {
    /// As it is shown.
    pub(super) name: &'static str,
    /// As it is called.
    pub(super) program: &'static str,
    /// Which Debian package has it; none when none has.
    pub(super) package: Option<&'static str>,
    /// How it is asked to do a job; none when it cannot.
    pub(super) ask: fn(&Job) -> Option<Typed>,
    /// Reads what it says.
    pub(super) read: fn(&Finished, &Job) -> Result<Said>,
}

/// Every tool. The first two are ours.
pub(super) const TOOLS: &[Tool] = &[
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
pub(super) const NOT_PACKAGED: &[&str] = &["memtier_benchmark", "wrk2", "oha", "vegeta", "k6"];

/// Names of the tools that others are held against.
pub(super) const FLOOR: &str = "floor";
/// See [`FLOOR`].
pub(super) const TARE: &str = "Tare";

/// The tools that are here, and where.
pub(super) struct Toolbox {
    programs: BTreeMap<&'static str, PathBuf>,
}

impl Toolbox {
    /// Looks for every tool; `ours` are the programs that are built here.
    pub(super) fn open(ours: BTreeMap<&'static str, PathBuf>) -> Toolbox {
        let mut programs = ours;
        for tool in TOOLS {
            if let (false, Some(path)) = (programs.contains_key(tool.program), find(tool.program)) {
                programs.insert(tool.program, path);
            }
        }
        Toolbox { programs }
    }

    /// Where a tool's program is, if it is here.
    pub(super) fn program(&self, tool: &Tool) -> Option<&Path> {
        self.programs.get(tool.program).map(PathBuf::as_path)
    }

    /// The tools that are here and can do a job, in the order of the table.
    pub(super) fn able(&self, job: &Job) -> Vec<&'static Tool> {
        TOOLS.iter().filter(|tool| self.program(tool).is_some() && (tool.ask)(job).is_some()).collect()
    }

    /// Has a tool do a job, on the clients' CPU.
    ///
    /// # Errors
    /// When it fails, or says nothing that can be read.
    pub(super) fn run(&self, tool: &Tool, job: &Job) -> Result<Outcome> {
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

/// The number behind `label` in `text`, which may have a unit at its end that is left out.
pub(super) fn number_after(text: &str, label: &str) -> Option<f64> {
    let at = text.find(label)? + label.len();
    let rest = text[at..].trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// A time as tools print it, such as `1.25ms`, in us.
pub(super) fn time_us(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let scale = match text[digits..].trim() {
        "ns" => 1e-3,
        "us" | "µs" => 1.0,
        "ms" => 1e3,
        "s" | "secs" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    Some(number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_found_in_what_tools_print() {
        assert_eq!(number_after("Requests:   12.50/s\n", "Requests:"), Some(12.5));
        assert_eq!(number_after("none", "Requests:"), None);
        assert_eq!(time_us("1.25ms"), Some(1250.0));
        assert_eq!(time_us(" 17us"), Some(17.0));
        assert_eq!(time_us("3 parsecs"), None);
    }

    #[test]
    fn names_are_used_once() {
        let names: std::collections::BTreeSet<_> = TOOLS.iter().map(|tool| tool.name).collect();
        assert_eq!(names.len(), TOOLS.len());
        assert!(names.contains(FLOOR) && names.contains(TARE));
    }
}
