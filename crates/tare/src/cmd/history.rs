//! `tare history`: lists the runs on this machine, and follows a form's cost from run to run.

use crate::cli::HistoryArgs;
use crate::cmd::compared_metric;
use crate::history::{self, Entry, FormRatio};
use crate::mistake::Mistake;
use crate::terminal::{columns, complain, note, print, tell};
use crate::{EXIT_FAILED, EXIT_OK};
use anyhow::Result;
use serde_json::json;
use std::path::{Path, PathBuf};
use tare_core::fault::Fault;
use tare_core::record::PEAK_LOAD;
use tare_report::{paragraph, whole};
use tare_stats::{CHANGE_P, CHANGE_SHARE, CHANGE_VALUES_MIN, CHANGE_WINDOW, Series, Side};

/// The version of the series' JSON. Fields may be added within a version.
const HISTORY_SCHEMA: u32 = 1;

/// The metrics followed by default; a record has one of them.
const USUAL_METRICS: [&str; 2] = ["throughput", PEAK_LOAD];

pub(crate) fn history(args: &HistoryArgs) -> Result<u8> {
    let metric = args.metric.as_deref().map(compared_metric).transpose()?;
    let all_added = add(&args.add)?;
    let study = args.study.as_ref().or(args.study_flag.as_ref());
    if study.is_some() || args.form.is_some() || metric.is_some() {
        show_series(args, study.map(String::as_str), metric)?;
    } else {
        show_runs(args.json)?;
    }
    Ok(if all_added { EXIT_OK } else { EXIT_FAILED })
}

/// Adds records; returns whether all could be added. One that cannot be read is named, and the others in its folder are
/// added all the same.
///
/// # Errors
/// When a path names no record, no record can be read, or the history cannot be written.
fn add(paths: &[PathBuf]) -> Result<bool> {
    let mut records: Vec<PathBuf> = Vec::new();
    for path in paths {
        let found = records_in(path);
        if found.is_empty() {
            // Reading it says why it is no record. All arguments are checked before any record is added.
            tare_runner::read_record(path)?;
        }
        records.extend(found);
    }
    let mut unread: Vec<Fault> = Vec::new();
    for path in &records {
        match tare_runner::read_record(path) {
            Ok(record) => history::add(&record, path)?,
            Err(fault) => unread.push(fault),
        }
    }
    let count = unread.len();
    for (at, fault) in unread.into_iter().enumerate() {
        // Nothing was added, so the command fails with the last of them.
        if count == records.len() && at + 1 == count {
            return Err(fault.into());
        }
        complain(&fault.into());
    }
    if count > 0 {
        note(&format!("{count} of {} records were not added; the others were", records.len()));
    }
    Ok(count == 0)
}

fn show_runs(json: bool) -> Result<()> {
    let entries = history::list()?;
    if json {
        print(&serde_json::to_string_pretty(&entries)?);
        return Ok(());
    }
    if entries.is_empty() {
        tell("no runs yet; `tare run` makes one, `tare history --add RECORD` adds one");
        return Ok(());
    }
    let width = columns(std::io::stdout());
    for entry in &entries {
        print(&show(entry, width));
    }
    let changed = tare_report::series_summary(&usual_series()?, width);
    if !changed.is_empty() {
        print(&changed);
    }
    Ok(())
}

fn usual_series() -> Result<Vec<Series>> {
    let each = USUAL_METRICS.iter().map(|metric| history::series(metric)).collect::<Result<Vec<_>>>()?;
    Ok(each.into_iter().flatten().collect())
}

/// The record at `path`, or all records in that folder.
fn records_in(path: &Path) -> Vec<PathBuf> {
    let is_record = |path: &Path| path.join("record.json").is_file();
    let inside = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut records: Vec<PathBuf> = inside.filter(|path| is_record(path)).collect();
    records.sort();
    if is_record(path) { vec![path.to_owned()] } else { records }
}

fn show_series(args: &HistoryArgs, study: Option<&str>, metric: Option<&str>) -> Result<()> {
    let all = match metric {
        Some(metric) => history::series(metric)?,
        None => usual_series()?,
    };
    let known = |of: fn(&Series) -> &String| {
        let mut names: Vec<&str> = all.iter().map(|series| of(series).as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() { "none yet".to_owned() } else { names.join(", ") }
    };
    if let Some(study) = study
        && !all.iter().any(|series| series.study == study)
    {
        let known = known(|series| &series.study);
        return Err(Mistake::new(format!(
            "the history has no record of study '{study}' with 3 blocks or more; studies: {known}\n  to do: `tare run \
             {study}`, or add a record with `tare history --add RECORD`"
        ))
        .into());
    }
    if let Some(form) = &args.form
        && !all.iter().any(|series| series.form == *form)
    {
        let known = known(|series| &series.form);
        return Err(Mistake::new(format!("the history has no form '{form}'; forms: {known}")).into());
    }
    let wanted = |series: &Series| {
        study.is_none_or(|study| series.study == study) && args.form.as_ref().is_none_or(|form| series.form == *form)
    };
    let chosen: Vec<Series> = all.into_iter().filter(wanted).collect();
    if args.json {
        let detector = json!({
            "p": CHANGE_P, "share": CHANGE_SHARE, "window": CHANGE_WINDOW, "records_min": CHANGE_VALUES_MIN,
        });
        let series = tare_report::series_json(&chosen)?;
        let value = json!({ "history_schema": HISTORY_SCHEMA, "detector": detector, "series": series });
        print(&serde_json::to_string_pretty(&value)?);
    } else {
        print(&tare_report::series_text(&chosen, columns(std::io::stdout())));
    }
    Ok(())
}

/// A run of the history, in lines of at most `width` columns.
fn show(entry: &Entry, width: usize) -> String {
    let day = entry.started.get(..16).unwrap_or(&entry.started).replace('T', " ");
    let label = format!("{day}  {:<12} {:<10} ", entry.study, entry.workload);
    let mut text = paragraph(&label, 4, &format!("{} trials, {} [{}]", entry.trials, entry.ended, entry.run), width);
    let ratios: Vec<String> = entry
        .forms
        .iter()
        .filter_map(|FormRatio { form, ratio, low, high, bound }| match (ratio, low, high) {
            (Some(ratio), Some(low), Some(high)) => Some(format!("{form} {ratio:.3} [{low:.3}, {high:.3}]")),
            (Some(ratio), ..) => Some(format!("{form} {}{ratio:.3}", bound.map_or("", Side::sign))),
            _ => None,
        })
        .map(|ratio| whole(&ratio))
        .collect();
    if !ratios.is_empty() {
        text += &paragraph("    ratios: ", 12, &ratios.join(", "), width);
    }
    text + &paragraph("    ", 4, &whole(&entry.path), width)
}
