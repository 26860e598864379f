//! How fine the scale is: half-widths of intervals by design, slice length and time, measured on this machine, and what
//! a load tool sees that is used by hand.

use crate::by_hand::{self, ByHand};
use crate::ratio::median;
use crate::workshop::release;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What is measured.
#[derive(Args)]
pub(crate) struct Options {
    /// Longest time of each run, minutes; may be repeated.
    #[arg(long = "minutes", default_values_t = [2])]
    minutes: Vec<u32>,
    /// Run only this design, such as blocks, chop-10ms or by-hand; may be repeated.
    #[arg(long = "design")]
    designs: Vec<String>,
    /// Number of runs of each, one round after the other: figures are medians.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// The workload that comes along to weigh.
    #[arg(long, default_value = "redis")]
    workload: String,
    /// Connections of the closed loop.
    #[arg(long, default_value_t = 50)]
    connections: u32,
}

/// A design: its name here, as a study says it, and what a block is measured for.
const DESIGNS: &[(&str, &str, &str)] = &[
    ("blocks", "blocks", "{settle: 1s, measure: 8s}"),
    ("alternate-1s", "{alternate: {slice: 2s, settle: 1s}}", "{settle: 1s, measure: 8s}"),
    ("chop-1s", "{chop: {slice: 1s}}", "{settle: 500ms, measure: 4s}"),
    ("chop-200ms", "{chop: {slice: 200ms}}", "{settle: 500ms, measure: 4s}"),
    ("chop-50ms", "{chop: {slice: 50ms}}", "{settle: 500ms, measure: 4s}"),
    ("chop-20ms", "{chop: {slice: 20ms}}", "{settle: 500ms, measure: 4s}"),
    ("chop-10ms", "{chop: {slice: 10ms}}", "{settle: 500ms, measure: 4s}"),
    ("chop-5ms", "{chop: {slice: 5ms}}", "{settle: 500ms, measure: 4s}"),
];

/// The metrics whose half-widths are told.
const METRICS: [&str; 3] = ["throughput", "p50_us", "p99_us"];

/// A run's figures.
struct Found {
    seconds: f64,
    blocks: usize,
    /// The ratio of throughput of each form.
    ratios: [f64; 2],
    /// By form, then by metric: half the width of the 95 % interval, as a share.
    half_widths: [[f64; 3]; 2],
    /// By metric.
    floors: [f64; 3],
}

/// Carries out what was asked for and prints a table.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let known = DESIGNS.iter().map(|(name, ..)| *name).chain([by_hand::NAME]).collect::<Vec<_>>();
    if let Some(unknown) = options.designs.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no design '{unknown}' here; known: {}", known.join(", "));
    }
    let tare = release(root, &["--package", "tare", "--bin", "tare"])?;
    let folder = std::env::temp_dir().join(format!("tare-precision-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let done = measure((root, &tare), &folder, options);
    std::fs::remove_dir_all(&folder)?;
    done
}

fn measure(from: (&Path, &Path), folder: &Path, options: &Options) -> Result<()> {
    let wanted = |name: &str| options.designs.is_empty() || options.designs.iter().any(|design| design == name);
    let designs: Vec<_> = DESIGNS.iter().filter(|(name, ..)| wanted(name)).collect();
    println!(
        "| design | asked for | took | blocks | container | host network | half-width of throughput | p50 | p99 | A/A floor |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for minutes in &options.minutes {
        let mut hands: Vec<ByHand> = Vec::new();
        let mut found: Vec<Vec<Found>> = designs.iter().map(|_| Vec::new()).collect();
        for round in 0..options.rounds {
            for (at, (name, design, time)) in designs.iter().enumerate() {
                let record = folder.join(format!("{name}-{minutes}-{round}"));
                found[at].push(one(from, &record, (design, time), *minutes, options)?);
            }
            if wanted(by_hand::NAME) {
                let time = Duration::from_secs(60 * u64::from(*minutes));
                hands.push(by_hand::measure(&folder.join(by_hand::NAME), time, options.connections)?);
            }
        }
        for ((name, ..), runs) in designs.iter().zip(&found) {
            println!("{}", row(name, *minutes, runs));
        }
        if !hands.is_empty() {
            println!("{}", by_hand::row(*minutes, &hands));
        }
    }
    Ok(())
}

fn one(
    (root, tare): (&Path, &Path),
    record: &Path,
    (design, time): (&str, &str),
    minutes: u32,
    options: &Options,
) -> Result<Found> {
    let Options { workload, connections, .. } = options;
    let text = format!(
        "study: precision\nworkload: {workload}\nrepeat: 1000\ndesign: {design}\ntime: {time}\n\
         load: {{closed: {{connections: {connections}, pipeline: 1}}}}\nforms:\n  native: []\n  \
         container: [container: {{network: published}}]\n  hostnet: [container: {{network: host}}]\n"
    );
    let began = Instant::now();
    let report = report_of((root, tare), record, &text, &format!("{minutes}m"))?;
    found(&report, began.elapsed().as_secs_f64()).context("the report lacks a figure")
}

/// The report of one run of a study, which is kept beside the record: as JSON.
pub(crate) fn report_of((root, tare): (&Path, &Path), record: &Path, study: &str, at_most: &str) -> Result<Value> {
    let place = record.with_extension("yaml");
    std::fs::write(&place, study)?;
    let output = Command::new(tare)
        .arg("run")
        .arg(&place)
        .args(["--json", "--at-most", at_most, "--workloads"])
        .arg(root.join("workloads"))
        .arg("--out")
        .arg(record)
        .current_dir(root)
        .output()
        .context("could not run tare")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "tare run failed of\n{study}\n{said}");
    serde_json::from_slice(&output.stdout).context("tare's report is no JSON")
}

fn found(report: &Value, seconds: f64) -> Option<Found> {
    let analysis = &report["analysis"];
    let metric = |name: &str| analysis["metrics"].as_array()?.iter().find(|metric| metric["name"] == name);
    let ratio = |name: &str, arm: &str| metric(name)?["ratios"].as_array()?.iter().find(|ratio| ratio["arm"] == arm);
    let mut all = Found {
        seconds,
        blocks: ratio("throughput", "container")?["blocks"].as_array()?.len(),
        ratios: [0.0; 2],
        half_widths: [[f64::NAN; 3]; 2],
        floors: [f64::NAN; 3],
    };
    for (at, arm) in ["container", "hostnet"].iter().enumerate() {
        all.ratios[at] = ratio("throughput", arm)?["ratio"].as_f64()?;
        for (which, name) in METRICS.iter().enumerate() {
            let interval = &ratio(name, arm)?["interval"];
            if let (Some(low), Some(high)) = (interval["low"].as_f64(), interval["high"].as_f64()) {
                all.half_widths[at][which] = 0.5 * (high / low).ln();
            }
            all.floors[which] = metric(name)?["noise_floor"].as_f64().unwrap_or(f64::NAN);
        }
    }
    Some(all)
}

fn row(name: &str, minutes: u32, runs: &[Found]) -> String {
    let middle = |pick: &dyn Fn(&Found) -> f64| median(&runs.iter().map(pick).collect::<Vec<_>>());
    let percent = |pick: &dyn Fn(&Found) -> f64| format!("{:.1}", 100.0 * middle(pick));
    let both = |which: usize| {
        format!("{}, {} %", percent(&|run| run.half_widths[0][which]), percent(&|run| run.half_widths[1][which]))
    };
    format!(
        "| {name} | {minutes} min | {:.0} s | {:.0} | {:.3} | {:.3} | {} | {} | {} | {} % |",
        middle(&|run| run.seconds),
        middle(&|run| run.blocks as f64),
        middle(&|run| run.ratios[0]),
        middle(&|run| run.ratios[1]),
        both(0),
        both(1),
        both(2),
        percent(&|run| run.floors[0]),
    )
}
