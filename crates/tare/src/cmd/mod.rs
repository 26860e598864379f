//! One file per verb.

pub(crate) mod bundle;
pub(crate) mod check;
pub(crate) mod clean;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod gate;
pub(crate) mod history;
pub(crate) mod load;
pub(crate) mod manual;
pub(crate) mod peak;
pub(crate) mod report;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod scaling;

use crate::{EXIT_OK, paths};
use anyhow::{Context, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use tare_core::config::Problem;
use tare_core::fault::Fault;
use tare_core::record::TRIAL_METRICS;

/// The user's mistake: exit code 2, nothing was started.
#[derive(Debug)]
pub(crate) struct Mistake(String);

impl Mistake {
    /// A mistake in what was typed.
    pub(crate) fn new(message: impl Into<String>) -> Mistake {
        Mistake(format!("error: {}", message.into()))
    }

    /// Mistakes in files, each with its place.
    pub(crate) fn in_files(problems: Vec<Problem>) -> Mistake {
        let count = problems.len();
        let mut text: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let mistakes = if count == 1 { "1 mistake".to_owned() } else { format!("{count} mistakes") };
        text.push(format!("{mistakes}; nothing was started"));
        Mistake(text.join("\n\n"))
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

/// An error for a person: what, what to do, and the log that shows why.
pub(crate) fn show_error(error: &anyhow::Error) -> String {
    if let Some(mistake) = error.downcast_ref::<Mistake>() {
        return mistake.to_string();
    }
    let Some(fault) = error.downcast_ref::<Fault>() else { return format!("error: {error:#}") };
    let mut text = format!("error: {}", fault.message);
    if !fault.remedy.is_empty() {
        text.push_str(&format!("\n  to do: {}", fault.remedy));
    }
    if !fault.log.is_empty() {
        let lines: Vec<&str> = fault.log.lines().collect();
        let last = lines.len().saturating_sub(15);
        text.push_str(&format!("\n  log:\n    {}", lines[last..].join("\n    ")));
    }
    text
}

/// `tare resources`: what this process really gets, as JSON.
pub(crate) fn resources() -> Result<u8> {
    println!("{}", serde_json::to_string(&tare_telemetry::resource_report())?);
    Ok(EXIT_OK)
}

/// The record that was named, else the latest in ./records.
pub(crate) fn record_path(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let folder = paths::records();
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    // Names start with the date, so the greatest is the latest.
    let latest = entries.filter(|path| path.join("record.json").is_file()).max();
    latest.ok_or_else(|| Mistake::new("there is no record in ./records; name one, or `tare run` first").into())
}

/// Whether ratios are made of the metric of this name.
pub(crate) fn compared_metric(name: &str) -> Result<()> {
    let mut compared = TRIAL_METRICS.iter().filter(|metric| metric.compared).map(|metric| metric.name);
    if compared.any(|known| known == name) {
        return Ok(());
    }
    let known: Vec<&str> = TRIAL_METRICS.iter().filter(|metric| metric.compared).map(|metric| metric.name).collect();
    Err(Mistake::new(format!("no ratios are made of a metric '{name}'; of these they are: {}", known.join(", ")))
        .into())
}

/// Writes `text` to `path`, whole or not at all.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, text)
        .and_then(|()| std::fs::rename(&partial, path))
        .with_context(|| format!("could not write {}", path.display()))
}

/// Prints to standard output; a reader that went away (`| head`) is no error.
pub(crate) fn print(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end_matches('\n'));
}

/// Prints to standard error; there, too, a reader may have gone away.
pub(crate) fn note(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end_matches('\n'));
}
