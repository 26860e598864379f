//! What somebody sees who holds two servers against each other by hand: a tool that runs at one, then at the other, for
//! a few seconds each, again and again.

use crate::ratio::{Ratio, median, paired};
use crate::redis::REDIS_BENCHMARK;
use crate::servers::{Kind, Server};
use crate::tool::{Ask, Job};
use crate::toolbox::Toolbox;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// As it is called in the table, and on the command line.
pub(crate) const NAME: &str = "by-hand";

/// How long the tool runs at a server, s.
const TURN_S: f64 = 4.0;

/// Two equal servers that were held against each other.
pub(crate) struct ByHand {
    /// How long it took, s.
    pub(crate) seconds: f64,
    /// How often each of the two was measured.
    pub(crate) turns: usize,
    /// Half the width of the 95 % interval of their ratio, of throughput and of the median response time, as a share.
    pub(crate) half_widths: [f64; 2],
    /// How far the ratio of throughput is from 1, as a share.
    pub(crate) off: f64,
}

/// Holds two Redis servers against each other by redis-benchmark, in turns, for about this long.
///
/// # Errors
/// When one of the programs is not installed, or fails.
pub(crate) fn measure(folder: &Path, time: Duration, connections: u32) -> Result<ByHand> {
    let tools = Toolbox::open(BTreeMap::new());
    let servers =
        [Server::start(Kind::Redis, &folder.join("one"))?, Server::start(Kind::Redis, &folder.join("other"))?];
    let began = Instant::now();
    let of = |server: &Server, seconds: f64, expected: f64| -> Result<(f64, f64)> {
        let job = Job::new(Ask::Redis { set: 1, get: 0 }, server.port, connections, seconds, expected);
        let outcome = tools.run(&REDIS_BENCHMARK, &job)?;
        Ok((outcome.throughput(), outcome.times.p50))
    };
    // It counts operations instead of seconds.
    let (expected, _) = of(&servers[0], 1.0, 20_000.0)?;
    let mut measured = [Vec::new(), Vec::new()];
    while began.elapsed() + Duration::from_secs_f64(2.0 * TURN_S) <= time || measured[0].len() < 3 {
        // In turns as to who is first.
        let first = measured[0].len() % 2;
        for server in [first, 1 - first] {
            measured[server].push(of(&servers[server], TURN_S, expected)?);
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let ratio = |which: fn(&(f64, f64)) -> f64| {
        let [one, other] = measured.each_ref().map(|turns| turns.iter().map(which).collect::<Vec<_>>());
        paired(&one, &other).context("nothing was measured")
    };
    let (throughput, p50) = (ratio(|turn| turn.0)?, ratio(|turn| turn.1)?);
    let half_widths = [throughput, p50].map(half_width);
    Ok(ByHand { seconds, turns: measured[0].len(), half_widths, off: throughput.value.ln().abs() })
}

fn half_width(ratio: Ratio) -> f64 {
    ratio.interval.map_or(f64::NAN, |(low, high)| 0.5 * (high / low).ln())
}

/// The row of the table of precision.
pub(crate) fn row(minutes: u32, runs: &[ByHand]) -> String {
    let middle = |pick: &dyn Fn(&ByHand) -> f64| median(&runs.iter().map(pick).collect::<Vec<_>>());
    let percent = |pick: &dyn Fn(&ByHand) -> f64| format!("{:.1}", 100.0 * middle(pick));
    format!(
        "| redis-benchmark by hand, two equal servers | {minutes} min | {:.0} s | {:.0} | - | - | {} % | {} % | - | {} % |",
        middle(&|run| run.seconds),
        middle(&|run| run.turns as f64),
        percent(&|run| run.half_widths[0]),
        percent(&|run| run.half_widths[1]),
        percent(&|run| run.off + run.half_widths[0]),
    )
}
