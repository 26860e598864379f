//! How often the scale is right about what is known: equals, and a planted weight, on this machine, alone and beside
//! work that comes and goes.

use crate::busy::Busy;
use crate::precision::report_of;
use crate::ratio::median;
use crate::workshop::release;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use std::path::Path;
use std::time::Instant;

/// What is weighed, and how often.
#[derive(Args)]
pub(crate) struct Options {
    /// Number of runs of each kind, one kind after the other in each round.
    #[arg(long, default_value_t = 10)]
    runs: u32,
    /// Longest time of each run, seconds.
    #[arg(long, default_value_t = 120)]
    seconds: u32,
    /// Also run beside a busy loop on each CPU that comes and goes this many times per second; may be repeated.
    #[arg(long = "busy")]
    busy: Vec<f64>,
    /// Run only beside busy loops.
    #[arg(long)]
    not_alone: bool,
    /// The workload that comes along to weigh.
    #[arg(long, default_value = "redis")]
    workload: String,
    /// Connections of the closed loop.
    #[arg(long, default_value_t = 50)]
    connections: u32,
}

/// The weight that is planted: operations beside each that counts.
const WEIGHT: f64 = 0.01;
/// The metrics that are looked at.
const METRICS: [&str; 3] = ["throughput", "p50_us", "cpu_busy_us_per_op"];
/// The metrics of which it is known what the weight makes of them, by their places above, and what that is.
const KNOWN: [(usize, f64); 2] = [(0, 1.0 / (1.0 + WEIGHT)), (2, 1.0 + WEIGHT)];

/// A ratio of a run.
#[derive(Clone, Copy)]
struct Weighed {
    low: f64,
    high: f64,
    /// Whether the run calls it better or worse.
    judged: bool,
}

impl Weighed {
    fn holds(self, truth: f64) -> bool {
        (self.low..=self.high).contains(&truth)
    }
}

/// What a run made of the equal form and of the weight, by metric; none where it gave no interval.
struct Found {
    seconds: f64,
    equal: [Option<Weighed>; 3],
    weight: [Option<Weighed>; 3],
}

/// Carries out what was asked for and prints a table.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    ensure!(options.busy.iter().all(|hertz| *hertz > 0.0), "--busy needs a rate per second above 0");
    let alone = (!options.not_alone).then_some(None);
    let kinds: Vec<Option<f64>> = alone.into_iter().chain(options.busy.iter().copied().map(Some)).collect();
    ensure!(!kinds.is_empty(), "--not-alone needs --busy");
    let tare = release(root, &["--package", "tare", "--bin", "tare"])?;
    let folder = std::env::temp_dir().join(format!("tare-known-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut found: Vec<Vec<Found>> = kinds.iter().map(|_| Vec::new()).collect();
    let mut weigh = || -> Result<()> {
        for round in 0..options.runs {
            for (at, busy) in kinds.iter().enumerate() {
                let beside = busy.map(Busy::begin);
                found[at].push(one((root, &tare), &folder.join(format!("{at}-{round}")), options)?);
                drop(beside);
                eprintln!("{}", row(*busy, &found[at]));
            }
        }
        Ok(())
    };
    let done = weigh();
    std::fs::remove_dir_all(&folder)?;
    println!(
        "| beside | runs | took | half-widths: throughput, p50, CPU | an equal's intervals hold 1 | an equal is judged | \
         a weight of 1 % is found: throughput, CPU | its intervals hold it |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    kinds
        .iter()
        .zip(&found)
        .filter(|(_, runs)| !runs.is_empty())
        .for_each(|(busy, runs)| println!("{}", row(*busy, runs)));
    done
}

fn one((root, tare): (&Path, &Path), record: &Path, options: &Options) -> Result<Found> {
    let Options { workload, connections, seconds, .. } = options;
    let text = format!(
        "study: known\nworkload: {workload}\nrepeat: 1000\nruler: {} %\ntime: {{settle: 500ms, measure: 4s}}\n\
         load: {{closed: {{connections: {connections}, pipeline: 1}}}}\nforms:\n  native: []\n  equal: []\n",
        WEIGHT * 100.0
    );
    let began = Instant::now();
    let report = report_of((root, tare), record, &text, &format!("{seconds}s"))?;
    let analysis = &report["analysis"];
    let arms = analysis["arms"].as_array().context("the report has no arms")?;
    let ruler = arms.iter().find(|arm| arm["weight"].is_number()).context("the report has no ruler")?;
    let of = |arm: &Value| METRICS.map(|metric| weighed(analysis, metric, arm.as_str()?));
    let (equal, weight) = (of(&"equal".into()), of(&ruler["name"]));
    for (at, metric) in METRICS.iter().enumerate() {
        ensure!(equal[at].is_some() && weight[at].is_some(), "the report compares no {metric}");
    }
    Ok(Found { seconds: began.elapsed().as_secs_f64(), equal, weight })
}

fn weighed(analysis: &Value, metric: &str, arm: &str) -> Option<Weighed> {
    let metric = analysis["metrics"].as_array()?.iter().find(|found| found["name"] == metric)?;
    let ratio = metric["ratios"].as_array()?.iter().find(|ratio| ratio["arm"] == arm)?;
    let (low, high) = (ratio["interval"]["low"].as_f64()?, ratio["interval"]["high"].as_f64()?);
    Some(Weighed { low, high, judged: ratio["verdict"] == "better" || ratio["verdict"] == "worse" })
}

fn row(busy: Option<f64>, runs: &[Found]) -> String {
    let beside = busy.map_or_else(|| "nobody".to_owned(), |hertz| format!("a busy loop, {hertz} Hz"));
    let of = |metric: usize, pick: &dyn Fn(&Found) -> [Option<Weighed>; 3]| -> Vec<Weighed> {
        runs.iter().filter_map(|run| pick(run)[metric]).collect()
    };
    let share = |all: &[Weighed], holds: &dyn Fn(Weighed) -> bool| {
        format!("{} of {}", all.iter().filter(|weighed| holds(**weighed)).count(), all.len())
    };
    let (equal, weight) = (|run: &Found| run.equal, |run: &Found| run.weight);
    let widths = [0, 1, 2].map(|metric| {
        let all: Vec<f64> = of(metric, &equal).iter().map(|found| 50.0 * (found.high / found.low).ln()).collect();
        if all.is_empty() { "-".to_owned() } else { format!("{:.1}", median(&all)) }
    });
    let equals = |holds: &dyn Fn(Weighed) -> bool| [0, 1, 2].map(|metric| share(&of(metric, &equal), holds)).join(", ");
    let found = KNOWN.map(|(metric, _)| share(&of(metric, &weight), &|found| !found.holds(1.0)));
    let known = KNOWN.map(|(metric, truth)| share(&of(metric, &weight), &|found| found.holds(truth)));
    let seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
    format!(
        "| {beside} | {} | {:.0} s | {} % | {} | {} | {} | {} |",
        runs.len(),
        median(&seconds),
        widths.join(", "),
        equals(&|found| found.holds(1.0)),
        equals(&|found| found.judged),
        found.join(", "),
        known.join(", "),
    )
}
