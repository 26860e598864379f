//! Whether a CPU quota is named as the cause of what it costs: the first finding of each of many runs.

use crate::busy::Busy;
use crate::precision::report_of;
use crate::workshop::release;
use anyhow::Result;
use clap::Args;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// How often, and beside whom.
#[derive(Args)]
pub(crate) struct Options {
    /// Number of runs.
    #[arg(long, default_value_t = 20)]
    runs: u32,
    /// Run beside a busy loop on each CPU that comes and goes this many times per second.
    #[arg(long)]
    busy: Option<f64>,
}

/// The quotas, CPUs. The server has one thread, which takes a whole CPU where it may.
const QUOTAS: [f64; 3] = [0.3, 0.6, 0.9];
/// The rule that is to come first.
const RULE: &str = "cpu-quota";
/// Longer than any run takes.
const AT_MOST: &str = "15m";

/// Carries out what was asked for and prints a table.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let tare = release(root, &["--package", "tare", "--bin", "tare"])?;
    let folder = std::env::temp_dir().join(format!("tare-quotas-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let _beside = options.busy.map(Busy::begin);
    // By quota: how often each rule came first, "nothing" where none did.
    let mut first: Vec<BTreeMap<String, u32>> = QUOTAS.iter().map(|_| BTreeMap::new()).collect();
    let mut weigh = || -> Result<()> {
        for number in 0..options.runs {
            let report = report_of((root, &tare), &folder.join(number.to_string()), &study(), AT_MOST)?;
            for (quota, seen) in QUOTAS.iter().zip(&mut first) {
                let first = first_of(&report, &name(*quota));
                if first != RULE {
                    let kept = root.join(format!("target/quotas-{number}-{}.json", name(*quota)));
                    std::fs::write(&kept, report.to_string())?;
                    eprintln!("{} is first at {}: {}", first, name(*quota), kept.display());
                }
                *seen.entry(first).or_default() += 1;
            }
            eprintln!("{} of {}: {first:?}", number + 1, options.runs);
        }
        Ok(())
    };
    let done = weigh();
    std::fs::remove_dir_all(&folder)?;
    println!("| quota | runs | first is {RULE} | first is another |");
    println!("|---|---|---|---|");
    for (quota, seen) in QUOTAS.iter().zip(&first) {
        let others = seen.iter().filter(|(rule, _)| *rule != RULE).map(|(rule, times)| format!("{rule} {times}"));
        let others = others.collect::<Vec<_>>().join(", ");
        println!("| {quota} | {} | {} | {others} |", seen.values().sum::<u32>(), seen.get(RULE).copied().unwrap_or(0));
    }
    done
}

fn name(quota: f64) -> String {
    format!("quota-{:.0}", quota * 100.0)
}

fn study() -> String {
    let form = |quota: f64| {
        format!("  {}: {{layers: [container: {{network: host}}], resources: {{cpu_quota: {quota}}}}}\n", name(quota))
    };
    "study: quotas\nworkload: redis\nrepeat: 3\ndesign: blocks\ntime: {settle: 500ms, measure: 3s}\n\
     load: {closed: {connections: 50, pipeline: 1}}\nforms:\n  native: []\n"
        .to_owned()
        + &QUOTAS.map(form).concat()
}

/// The rule of the first finding of a form against the baseline.
fn first_of(report: &Value, form: &str) -> String {
    let all = report["analysis"]["explanations"].as_array().into_iter().flatten();
    let rules = all.filter(|explanation| explanation["form"] == form);
    let mut first = rules.filter_map(|explanation| explanation["findings"][0]["rule"].as_str());
    first.next().unwrap_or("nothing").to_owned()
}
