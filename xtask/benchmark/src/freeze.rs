//! Truthfulness: what tools report of a server that freezes, against what its schedule makes true.
//!
//! The server's processes are stopped and continued by signal. Operations are to start at a rate, whatever the server
//! does; so each that should have started during a freeze has waited to its end, and its queue's. From the moments at
//! which the server was stopped and continued follows what every one of them must have taken.

use crate::closed::shown;
use crate::process::{family, signal};
use crate::ratio::median;
use crate::report::{Report, brief};
use crate::servers::Kind;
use crate::sql::exact_times;
use crate::tool::{Ask, FLOOR, Job, Outcome, TARE, Times, Tool};
use crate::workshop::Workshop;
use anyhow::{Result, ensure};
use std::thread;
use std::time::{Duration, Instant};

/// A rate of a server's operations.
struct Case {
    name: &'static str,
    server: Kind,
    ask: Ask,
    connections: u32,
    rate: f64,
}

const CASES: &[Case] = &[
    Case { name: "Redis", server: Kind::Redis, ask: Ask::Redis { set: 1, get: 0 }, connections: 50, rate: 1000.0 },
    Case { name: "HTTP", server: Kind::Nginx, ask: Ask::Http, connections: 50, rate: 1000.0 },
    Case { name: "PostgreSQL", server: Kind::Postgres, ask: Ask::Sql, connections: 10, rate: 500.0 },
    Case { name: "MariaDB", server: Kind::MariaDb, ask: Ask::MySql, connections: 10, rate: 500.0 },
];

/// Longer times than this are of a freeze, us.
const FROZEN_US: f64 = 10e3;

/// A freeze: when it begins after the start, and how long it is, s.
type Freeze = (f64, f64);

/// Both kinds of freezes, every server.
pub(crate) fn run(shop: &mut Workshop, report: &mut Report) -> Result<()> {
    report.head("A server that freezes");
    report.say(
        "The server's processes are stopped with SIGSTOP and continued with SIGCONT: for 200 ms every 2 \
         s, or for 50 to 350 ms at random moments. Each tool is given a rate (1000/s over 50 connections; \
         PostgreSQL and MariaDB 500/s over 10) and reports its response times. The truth is computed from \
         the moments at which the signals were sent, and from how many operations per second the server \
         answers when many are waiting. The error of each reported value is in brackets. *Bare prober* is \
         one connection that sends at planned moments and waits for each reply; it shows how long an \
         undisturbed operation takes (p50), and is itself late after a freeze. pgbench draws its starts \
         at random, so with so few freezes the truth for evenly spaced starts is only approximately its \
         truth.",
    );
    for (title, random) in [("200 ms every 2 s", false), ("50 to 350 ms at random", true)] {
        for case in CASES.iter().filter(|case| shop.wants(case.name)).collect::<Vec<_>>() {
            report.say(&format!("### {}: {title}", case.name));
            let mut failed = Vec::new();
            match measure(shop, case, random, &mut failed) {
                Ok(rows) => {
                    report.table(&["tool", "of the rate", "p50 ms", "p95 ms", "p99 ms", "p99.9 ms", "max ms"], &rows);
                }
                Err(error) => failed.push(brief(&error)),
            }
            failed.iter().for_each(|failure| report.say(failure));
        }
    }
    Ok(())
}

fn measure(shop: &mut Workshop, case: &Case, random: bool, failed: &mut Vec<String>) -> Result<Vec<Vec<String>>> {
    let server = shop.server(case.server)?;
    let seconds = if shop.quick { 8.0 } else { 16.0 };
    let job = Job::new(case.ask, server.port, case.connections, seconds, case.rate);
    let job = shop.prepared(Job { rate: Some(case.rate), ..job })?;
    let tools = shop.tools.able(&job);
    let work_s = work_s(shop, &job)?;
    let mut results: Vec<Vec<(Outcome, Times)>> = tools.iter().map(|_| Vec::new()).collect();
    let mut rows = Vec::new();
    let order: Vec<usize> = (0..tools.len()).collect();
    for _ in 0..shop.rounds(1, 3) {
        for at in shop.shuffled(&order) {
            let freezes = schedule(shop, job.seconds, random);
            match frozen_run(shop, tools[at], &job, server.processes()[0], freezes, work_s) {
                Ok(result) => results[at].push(result),
                Err(error) => failed.push(format!("{} on {}: {}", tools[at].name, case.name, brief(&error))),
            }
        }
    }
    if let Some((_, truth)) = results.iter().flatten().next().filter(|_| !random) {
        let times = [truth.p50, truth.p95, truth.p99, truth.p999, truth.max];
        rows.push(row("truth", &[1.0], times, [f64::NAN; 5]));
    }
    for (tool, results) in tools.iter().zip(&results).filter(|(_, results)| !results.is_empty()) {
        let rates: Vec<f64> = results.iter().map(|(outcome, _)| outcome.throughput() / case.rate).collect();
        let of = |pick: fn(&Times) -> f64| median(&results.iter().map(|(o, _)| pick(&o.times)).collect::<Vec<_>>());
        let off = |pick: fn(&Times) -> f64| {
            // A quantile that no freeze reached is not in the schedule.
            let frozen = results.iter().filter(|(_, truth)| pick(truth) > FROZEN_US);
            let errors = frozen.map(|(outcome, truth)| pick(&outcome.times) / pick(truth) - 1.0);
            median(&errors.collect::<Vec<_>>())
        };
        let picks: [fn(&Times) -> f64; 5] = [|t| t.p50, |t| t.p95, |t| t.p99, |t| t.p999, |t| t.max];
        rows.push(row(tool.name, &rates, picks.map(of), picks.map(off)));
    }
    Ok(rows)
}

/// How long the server takes for one operation when many wait, s: a freeze's queue is worked off like this. Of our own
/// clients the faster one, as fast as it can over the same connections, for it has less of its own in it.
fn work_s(shop: &Workshop, job: &Job) -> Result<f64> {
    let flat_out = Job { rate: None, seconds: 2.0, ..job.clone() };
    let ours = [FLOOR, TARE];
    let able = shop.tools.able(&flat_out).into_iter().filter(|tool| ours.contains(&tool.name));
    let rates: Result<Vec<f64>> = able.map(|tool| Ok(shop.tools.run(tool, &flat_out)?.throughput())).collect();
    let fastest = rates?.into_iter().fold(0.0, f64::max);
    ensure!(fastest > 0.0, "no client of ours can ask this server");
    Ok(1.0 / fastest)
}

fn row(tool: &str, rates: &[f64], times: [f64; 5], errors: [f64; 5]) -> Vec<String> {
    let mut row = vec![tool.to_owned(), format!("{:.1} %", 100.0 * median(rates))];
    for (time, error) in times.into_iter().zip(errors) {
        let time = shown(time / 1e3);
        row.push(if error.is_finite() { format!("{time} ({:+.1} %)", 100.0 * error) } else { time });
    }
    row
}

/// When the server is to be frozen within so many seconds: never near the start or the end, so that it does not matter
/// when exactly a tool begins.
fn schedule(shop: &mut Workshop, seconds: f64, random: bool) -> Vec<Freeze> {
    let mut freezes = Vec::new();
    let mut at = 1.0;
    while at < seconds - 0.7 {
        let length = if random { 0.05 + shop.below(300) as f64 / 1e3 } else { 0.2 };
        freezes.push((at, length));
        at += if random { length + 0.4 + shop.below(1400) as f64 / 1e3 } else { 2.0 };
    }
    freezes
}

/// One run of a tool while the server freezes, with the truth about it.
fn frozen_run(
    shop: &Workshop,
    tool: &Tool,
    job: &Job,
    server: u32,
    freezes: Vec<Freeze>,
    work_s: f64,
) -> Result<(Outcome, Times)> {
    let start = Instant::now();
    let freezer = thread::spawn(move || freeze(server, start, &freezes));
    let outcome = shop.tools.run(tool, job);
    let frozen = freezer.join().unwrap_or_default();
    let outcome = outcome?;
    ensure!(!frozen.is_empty(), "the server was never frozen");
    let begun = outcome.finished.span.map_or(0.0, |(begun, _)| (begun - start).as_secs_f64());
    let frozen: Vec<Freeze> = frozen.iter().map(|(at, length)| (at - begun, *length)).collect();
    Ok((outcome, truth(&frozen, job.rate.unwrap_or(1.0), job.seconds, work_s)?))
}

/// Freezes a process and its family as planned; when it really was frozen.
fn freeze(server: u32, start: Instant, freezes: &[Freeze]) -> Vec<Freeze> {
    let sleep_until = |at: f64| {
        thread::sleep((start + Duration::from_secs_f64(at)).saturating_duration_since(Instant::now()));
    };
    let mut frozen = Vec::new();
    for (at, length) in freezes {
        sleep_until(*at);
        let members = family(server);
        members.iter().for_each(|pid| signal(*pid, libc::SIGSTOP));
        let from = start.elapsed().as_secs_f64();
        sleep_until(at + length);
        // The parent last: children that wait for their parent would be late.
        members.iter().rev().for_each(|pid| signal(*pid, libc::SIGCONT));
        frozen.push((from, start.elapsed().as_secs_f64() - from));
    }
    frozen
}

/// What operations take that start evenly at `rate` for so many seconds, with a server that works on one at a time
/// for `work_s` and is frozen at these moments. Exact: one server, first come, first served.
fn truth(frozen: &[Freeze], rate: f64, seconds: f64, work_s: f64) -> Result<Times> {
    let mut free_at = 0.0_f64;
    let mut next = frozen.iter().peekable();
    let mut times = Vec::new();
    for number in 0..(rate * seconds) as u64 {
        let planned = number as f64 / rate;
        let mut begin = planned.max(free_at);
        while let Some((from, length)) = next.peek() {
            if begin + work_s <= *from {
                break;
            }
            // It was frozen before this one could be done. One freeze may be met by many.
            if begin < from + length {
                begin = from + length;
            }
            if planned > from + length {
                next.next();
            } else {
                break;
            }
        }
        free_at = begin + work_s;
        times.push((free_at - planned) * 1e6);
    }
    exact_times(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_of_even_freezes_is_known() {
        // A tenth of all starts meet a freeze, spread evenly over its 200 ms.
        let frozen: Vec<Freeze> = (0..8).map(|n| (1.0 + 2.0 * f64::from(n), 0.2)).collect();
        let truth = truth(&frozen, 1000.0, 16.0, 1e-9).unwrap();
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.011;
        assert!(near(truth.p95, 100e3) && near(truth.p99, 180e3) && near(truth.p999, 198e3), "{truth:?}");
        assert!(near(truth.max, 200e3) && truth.p50 < 1.0, "{truth:?}");
    }

    #[test]
    fn a_queue_is_worked_off() {
        // 200 wait when it thaws; the last of them came as it thawed and waits for all before it.
        let truth = truth(&[(1.0, 0.2)], 1000.0, 2.0, 100e-6).unwrap();
        assert!((truth.max / 200e3 - 1.0).abs() < 0.01, "{truth:?}");
        let undisturbed = super::truth(&[], 1000.0, 2.0, 100e-6).unwrap();
        assert!((undisturbed.max - 100.0).abs() < 1e-3, "{undisturbed:?}");
    }
}
