//! `tare history`: the runs of this machine.

use crate::EXIT_OK;
use crate::cli::HistoryArgs;
use crate::cmd::print;
use crate::history::{self, FormRatio};
use anyhow::Result;

pub(crate) fn history(args: &HistoryArgs) -> Result<u8> {
    if let Some(path) = &args.add {
        history::add(&tare_runner::read_record(path)?, path)?;
    }
    let entries = history::list(args.study.as_deref())?;
    if args.json {
        print(&serde_json::to_string_pretty(&entries)?);
        return Ok(EXIT_OK);
    }
    if entries.is_empty() {
        print("no runs yet; `tare run` makes one, `tare history --add RECORD` takes one in");
        return Ok(EXIT_OK);
    }
    for entry in &entries {
        let day = entry.started.get(..16).unwrap_or(&entry.started).replace('T', " ");
        let trials = entry.trials;
        print(&format!(
            "{day}  {:<12} {:<10} {trials} trials, {}  [{}]",
            entry.study, entry.workload, entry.ended, entry.run
        ));
        let ratios: Vec<String> = entry
            .forms
            .iter()
            .filter_map(|FormRatio { form, ratio, low, high }| match (ratio, low, high) {
                (Some(ratio), Some(low), Some(high)) => Some(format!("{form} {ratio:.3} [{low:.3}, {high:.3}]")),
                (Some(ratio), ..) => Some(format!("{form} {ratio:.3}")),
                _ => None,
            })
            .collect();
        if !ratios.is_empty() {
            print(&format!("    throughput: {}", ratios.join(", ")));
        }
        print(&format!("    {}", entry.path));
    }
    Ok(EXIT_OK)
}
