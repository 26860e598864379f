//! A tool that is compared: how it is asked to do a job, and what is read from its answer.

use crate::process::Finished;
use anyhow::Result;
use serde_json::Value;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
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
pub(crate) const KEYS: u32 = 10_000;

/// Accounts in pgbench's tables.
pub(crate) const ACCOUNTS: u32 = 100_000;

/// A job that several tools are given.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) ask: Ask,
    pub(crate) port: u16,
    pub(crate) connections: u32,
    pub(crate) pipeline: u32,
    pub(crate) seconds: f64,
    /// Operations a second to be started; none is as many as it can.
    pub(crate) rate: Option<f64>,
    /// Operations a second that may be expected, for tools that count operations instead of seconds.
    pub(crate) expected: f64,
    /// The same for Tare: its protocol's options, as they are written down once read.
    pub(crate) options: Value,
}

impl Job {
    /// As fast as it goes, or at a rate; without Tare's options.
    pub(crate) fn new(ask: Ask, port: u16, connections: u32, seconds: f64, expected: f64) -> Job {
        Job { ask, port, connections, pipeline: 1, seconds, rate: None, expected, options: Value::Null }
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// What a tool reports about times, us. What it does not report is not a number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Times {
    /// Nothing reported.
    pub(crate) const NONE: Times =
        Times { mean: f64::NAN, p50: f64::NAN, p95: f64::NAN, p99: f64::NAN, p999: f64::NAN, max: f64::NAN };
}

/// What a run of a tool came to.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) operations: f64,
    /// By the tool's own clock.
    pub(crate) seconds: f64,
    /// CPU time, user and system, of the whole program; of a bare client only of its loop.
    pub(crate) cpu_s: f64,
    pub(crate) times: Times,
    /// Besides, for the reader.
    pub(crate) remark: Option<String>,
    /// The program itself.
    pub(crate) finished: Finished,
}

impl Outcome {
    /// Operations a second.
    pub(crate) fn throughput(&self) -> f64 {
        self.operations / self.seconds
    }

    /// CPU time for each operation, us.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu_s * 1e6 / self.operations
    }
}

/// What a tool's own output says.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) operations: f64,
    pub(crate) seconds: f64,
    pub(crate) times: Times,
    /// CPU time, s, if only a part of the program's is meant.
    pub(crate) cpu_s: Option<f64>,
    pub(crate) remark: Option<String>,
}

/// What is typed, and what is written to its standard input.
#[derive(Debug, Clone, Default)]
pub(crate) struct Typed {
    pub(crate) arguments: Vec<String>,
    pub(crate) input: String,
}

impl Typed {
    /// Arguments between blanks.
    pub(crate) fn line(line: &str) -> Typed {
        Typed { arguments: line.split_whitespace().map(str::to_owned).collect(), input: String::new() }
    }
}

/// A row of the table of tools.
pub(crate) struct Tool {
    /// As it is shown.
    pub(crate) name: &'static str,
    /// As it is called.
    pub(crate) program: &'static str,
    /// Which Debian package has it; none when none has.
    pub(crate) package: Option<&'static str>,
    /// How it is asked to do a job; none when it cannot.
    pub(crate) ask: fn(&Job) -> Option<Typed>,
    /// Reads what it says.
    pub(crate) read: fn(&Finished, &Job) -> Result<Said>,
}

/// Names of the tools that others are held against.
pub(crate) const FLOOR: &str = "floor";
/// See [`FLOOR`].
pub(crate) const TARE: &str = "Tare";

/// The number behind `label` in `text`, which may have a unit at its end that is left out.
pub(crate) fn number_after(text: &str, label: &str) -> Option<f64> {
    let at = text.find(label)? + label.len();
    let rest = text[at..].trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// A time as tools print it, such as `1.25ms`, in us.
pub(crate) fn time_us(text: &str) -> Option<f64> {
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
}
