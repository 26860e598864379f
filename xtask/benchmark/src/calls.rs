//! System calls by operation, counted by strace. Slow, but no noise is in it.

use crate::process::{CLIENT_CPU, pinned, run};
use crate::ratio::figure;
use crate::report::{Report, brief};
use crate::servers::Kind;
use crate::tool::{Ask, Job, Tool};
use crate::workshop::Workshop;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

/// Waiting is left out: how many replies one wait brings depends on the server's speed.
const WAITS: &[&str] = &["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"];
/// Fewer calls by operation than this are not listed: they belong to the start and the end.
const LISTED: f64 = 0.05;

/// Redis, HTTP and PostgreSQL.
pub(crate) fn count(shop: &mut Workshop, report: &mut Report) -> Result<()> {
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    let set = Ask::Redis { set: 1, get: 0 };
    for (name, kind, ask) in
        [("Redis", Kind::Redis, set), ("HTTP", Kind::Nginx, Ask::Http), ("PostgreSQL", Kind::Postgres, Ask::Sql)]
    {
        let server = shop.server(kind)?;
        let (port, seconds) = (server.port, if shop.quick { 1.0 } else { 3.0 });
        let job = shop.prepared(Job::new(ask, port, 10, seconds, 3e3))?;
        for tool in shop.tools.able(&job) {
            match counted(shop, tool, &job) {
                Ok((count, list)) => rows.push(vec![name.to_owned(), tool.name.to_owned(), figure(count), list]),
                Err(error) => failed.push(format!("{} on {name}: {}", tool.name, brief(&error))),
            }
        }
    }
    report.head("System calls by operation");
    report.say(
        "Counted by `strace -f -c` with 10 connections and pipeline 1. System calls that wait for events \
         are left out.",
    );
    report.table(&["server", "tool", "calls", "which"], &rows);
    failed.iter().for_each(|failure| report.say(failure));
    Ok(())
}

/// How many calls an operation took, and which.
fn counted(shop: &Workshop, tool: &Tool, job: &Job) -> Result<(f64, String)> {
    let program = shop.tools.program(tool).context("it is not here")?;
    let typed = (tool.ask)(job).context("it cannot do this")?;
    let counts = shop.file("strace");
    let mut arguments = vec!["-f".to_owned(), "-c".to_owned(), "-o".to_owned(), counts.display().to_string()];
    arguments.push(program.display().to_string());
    arguments.extend(typed.arguments);
    let mut command = pinned(CLIENT_CPU, Path::new("strace"), &arguments);
    let finished = run(&mut command, &typed.input, Duration::from_secs(120))?;
    let operations = (tool.read)(&finished, job)?.operations;
    let mut calls = read_counts(&std::fs::read_to_string(&counts)?);
    calls.iter_mut().for_each(|(_, count)| *count /= operations);
    calls.retain(|(name, count)| *count >= LISTED && !WAITS.contains(&name.as_str()));
    calls.sort_by(|a, b| b.1.total_cmp(&a.1));
    let list: Vec<String> = calls.iter().map(|(name, count)| format!("{name} {}", figure(*count))).collect();
    Ok((calls.iter().map(|(_, count)| count).sum(), list.join(", ")))
}

/// `% time, seconds, usecs/call, calls, [errors,] syscall`.
fn read_counts(text: &str) -> Vec<(String, f64)> {
    let lines = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (count, name) = (fields.get(3)?.parse().ok()?, *fields.last()?);
        (name != "total").then(|| (name.to_owned(), count))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_with_and_without_errors() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    \x2060.00    0.500000          10     50000           sendto\n\
                    \x2040.00    0.300000          10     50010        10 recvfrom\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.800000           8    100010        10 total\n";
        assert_eq!(read_counts(text), [("sendto".to_owned(), 50_000.0), ("recvfrom".to_owned(), 50_010.0)]);
    }
}
