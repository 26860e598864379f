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
use std::sync::atomic::{AtomicBool, Ordering};
use tare_core::config::Problem;
use tare_core::fault::Fault;
use tare_core::record::TrialMetric;

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

/// The name of the metric that is called `name`, if ratios are made of it.
pub(crate) fn compared_metric(name: &str) -> Result<&'static str> {
    match TrialMetric::called(name) {
        Some(metric) if metric.compared => Ok(metric.name),
        shown => {
            let known = TrialMetric::compared_names();
            let what = if shown.is_some() { "which is shown only" } else { "which there is not" };
            let text = format!("no ratios are made of a metric '{name}', {what}; of these they are: {known}");
            let hint = "name one of these; a time may be written without its unit, as p99, and cpu_us_per_op as cpu";
            Err(Mistake::new(format!("{text}\n  to do: {hint}")).into())
        }
    }
}

/// Writes `text` to `path`, whole or not at all. What is no file, such as a device or a pipe, is written to as it is.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<()> {
    // A link stays one, and what it names is replaced.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let written = match std::fs::metadata(&target) {
        Ok(there) if !there.is_file() => std::fs::OpenOptions::new()
            .write(true)
            .open(&target)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes())),
        _ => replace(&target, text),
    };
    written.with_context(|| format!("could not write {}", path.display()))
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let written = std::fs::write(&partial, text).and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written
}

/// Raised when something could not be printed.
static UNPRINTED: AtomicBool = AtomicBool::new(false);

/// Prints to standard output. A reader that went away (`| head`) is no error; what else keeps it from being read, such
/// as a full disk, ends the command with an error once it is done: see [`all_was_printed`].
pub(crate) fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout();
    let written = writeln!(out, "{}", text.trim_end_matches('\n')).and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        note(&format!("error: could not print the result: {error}"));
        UNPRINTED.store(true, Ordering::Relaxed);
    }
}

/// Whether everything that was to be printed could be.
pub(crate) fn all_was_printed() -> bool {
    !UNPRINTED.load(Ordering::Relaxed)
}

/// Prints to standard error; there, too, a reader may have gone away.
pub(crate) fn note(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end_matches('\n'));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_what_is_none_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_file(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read_to_string(pipe).unwrap()
        });
        write_file(&pipe, "piped").unwrap();
        assert_eq!(reader.join().unwrap(), "piped");
        assert!(!pipe.is_file());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left");
    }
}
