//! One file per verb.

pub(crate) mod advise;
pub(crate) mod bundle;
pub(crate) mod check;
pub(crate) mod clean;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod freezing;
pub(crate) mod gate;
pub(crate) mod history;
pub(crate) mod load;
pub(crate) mod manual;
pub(crate) mod peak;
pub(crate) mod place;
pub(crate) mod power;
pub(crate) mod report;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod scaling;
pub(crate) mod suite;

use crate::{EXIT_OK, paths};
use anyhow::Result;
use std::fmt;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use tare_core::config::Problem;
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadProfile};
use tare_core::record::TrialMetric;
use tare_layers::hands;
use tare_layers::least::{self, Kept};
use tare_report::{USUAL_WIDTH, flow, paragraph};

/// The user's mistake: exit code 2, nothing was started.
#[derive(Debug)]
pub(crate) enum Mistake {
    /// In what was typed; what to do stands in a line of its own.
    Typed(String),
    /// In files, each with its place.
    InFiles(Vec<Problem>),
}

impl Mistake {
    /// A mistake in what was typed.
    pub(crate) fn new(message: impl Into<String>) -> Mistake {
        Mistake::Typed(message.into())
    }

    /// Mistakes in files, each with its place.
    pub(crate) fn in_files(problems: Vec<Problem>) -> Mistake {
        Mistake::InFiles(problems)
    }
}

/// Without `error:` in front, as a part of another message.
impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mistake::Typed(message) => f.write_str(message),
            Mistake::InFiles(problems) => {
                let hinted = |Problem { file, place, message, hint, .. }: &Problem| {
                    let hint = if hint.is_empty() { String::new() } else { format!(" ({hint})") };
                    format!("{file}:{}:{}: {message}{hint}", place.line, place.column)
                };
                let all: Vec<String> = problems.iter().map(hinted).collect();
                f.write_str(&all.join("; "))
            }
        }
    }
}

impl std::error::Error for Mistake {}

/// An error for a person, in lines of at most `width` columns: what, what to do, and the log that shows why.
fn show_error(error: &anyhow::Error, width: usize) -> String {
    match error.downcast_ref::<Mistake>() {
        Some(Mistake::InFiles(problems)) => return show_problems(problems, width),
        Some(Mistake::Typed(message)) => return flow(&format!("error: {message}"), width),
        None => {}
    }
    let Some(fault) = error.downcast_ref::<Fault>() else { return flow(&format!("error: {error:#}"), width) };
    let mut text = flow(&format!("error: {}", fault.message), width);
    if !fault.remedy.is_empty() {
        text += &paragraph("  to do: ", 4, &fault.remedy, width);
    }
    if !fault.log.is_empty() {
        // Its lines are others' and stay as they are, however long.
        let lines: Vec<&str> = fault.log.lines().collect();
        let last = lines.len().saturating_sub(15);
        text.push_str(&format!("  log:\n    {}\n", lines[last..].join("\n    ")));
    }
    text
}

/// All mistakes. The lines of the files that they stand in stay as they are.
fn show_problems(problems: &[Problem], width: usize) -> String {
    let mut text = String::new();
    for problem in problems {
        let gutter = problem.place.line.to_string().len();
        // Each behind what the problem puts before it: `error: ` and ` = hint: `.
        let fitted = |label: usize, hanging: usize, text: &str| {
            let behind = paragraph(&" ".repeat(label), hanging, text, width);
            behind.trim().to_owned()
        };
        let (message, hint) = (fitted(7, 2, &problem.message), fitted(gutter + 9, gutter + 3, &problem.hint));
        text += &format!("{}\n\n", Problem { message, hint, ..problem.clone() });
    }
    let count = problems.len();
    let mistakes = if count == 1 { "1 mistake".to_owned() } else { format!("{count} mistakes") };
    text + &format!("{mistakes}; nothing was started\n")
}

/// `tare resources`: what this process really gets, as JSON.
pub(crate) fn resources() -> Result<u8> {
    println!("{}", serde_json::to_string(&tare_telemetry::resource_report())?);
    Ok(EXIT_OK)
}

/// `tare drive`: carries out a plan, with the least that it needs.
pub(crate) fn drive() -> ExitCode {
    let confine = |plan: &LoadPlan| {
        let trace = matches!(plan.profile.base(), LoadProfile::Replay { .. });
        let freezing = plan.turns.as_ref().filter(|turns| !turns.held.is_empty());
        let freezing = freezing.map(|turns| freezing::begin(&turns.held)).transpose()?;
        least::become_load(if trace { Kept::Reading } else { Kept::Nothing })?;
        Ok(freezing)
    };
    tare_load::serve_confined(std::io::stdin(), std::io::stdout().lock(), confine)
}

/// `tare probe`: samples, with the least that it needs.
pub(crate) fn probe() -> ExitCode {
    match least::become_sampler() {
        Ok(()) => tare_telemetry::serve(std::io::stdin(), std::io::stdout().lock()),
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

/// `tare peer`: serves until it is told to end.
pub(crate) fn peer(args: &crate::cli::PeerArgs) -> Result<u8> {
    let crate::cli::PeerArgs { listen, threads, nodelay, send_buffer, receive_buffer } = *args;
    let (send_buffer, receive_buffer) = (send_buffer.0, receive_buffer.0);
    let options = tare_load::PeerOptions { listen, threads, nodelay, send_buffer, receive_buffer };
    tare_load::serve_peer(&options, std::io::stdout())?;
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
    let latest = entries.filter(|path| path.join("record.json").is_file() || tare_runner::is_suite(path)).max();
    latest.ok_or_else(|| Mistake::new("there is no record in ./records; name one, or `tare run` first").into())
}

/// Makes ./records for who does not say where a record is to go. Root writes there only where no other user could have
/// it write elsewhere.
pub(crate) fn claim_records() -> Result<()> {
    let folder = paths::records();
    let refused = |fault: Fault| {
        let text = format!("records go to {}/ here, but {}", folder.display(), fault.message);
        let hint = "name a directory with --out (or the record), or start Tare in a folder where you alone may write";
        Mistake::new(format!("{text}\n  to do: {hint}"))
    };
    Ok(hands::make_own(&folder, paths::behind_sudo()).map_err(refused)?)
}

/// Makes sure that nobody else has, or could put, a link or a file of theirs where root is about to write in a record.
/// There are no links in a record, so one that is there came from somewhere else: a copy of one made by others has
/// their links in it, as root's own.
pub(crate) fn claim_record(record: &Path) -> Result<()> {
    let written = ["record.json", "suite.json", "trials", "profiles", "events.jsonl", "end.json", "report.html"];
    let places = || written.iter().map(|name| record.join(name));
    places().try_for_each(|place| refuse_link(&place))?;
    let mut all = places().chain([record.to_owned()]);
    let Some(foreign) = all.find(|at| !hands::is_own(at, paths::behind_sudo())) else { return Ok(()) };
    let text = format!("{} is in the hands of others, who could have what root writes go elsewhere", foreign.display());
    let hint = "copy the record to a folder of your own, without its owners (cp -r), and resume the copy";
    Err(Mistake::new(format!("{text}\n  to do: {hint}")).into())
}

/// The same of a part's record in that of a whole study.
pub(crate) fn claim_part(record: &Path) -> Result<()> {
    refuse_link(record)?;
    claim_record(record)
}

fn refuse_link(place: &Path) -> Result<()> {
    if !place.is_symlink() {
        return Ok(());
    }
    let place = place.display();
    let text = format!("{place} is a link, of which there are none in a record: what is written could go elsewhere");
    Err(Mistake::new(format!("{text}\n  to do: remove it, or put what it names in its place")).into())
}

/// The name of the metric that is called `name`, if ratios are made of it.
pub(crate) fn compared_metric(name: &str) -> Result<&'static str> {
    match TrialMetric::called(name) {
        Some(metric) if metric.compared => Ok(metric.name),
        shown => {
            let known = TrialMetric::compared_names();
            let what = if shown.is_some() { "which is shown only" } else { "which there is not" };
            let text = format!("no ratios are made of a metric '{name}', {what}; of these they are: {known}");
            let hint =
                "name one of these; a time may be written without its unit, as p99, and cpu_busy_us_per_op as cpu";
            Err(Mistake::new(format!("{text}\n  to do: {hint}")).into())
        }
    }
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

/// Prints sentences to standard output, wrapped to the terminal.
pub(crate) fn tell(text: &str) {
    print(&flow(text, columns(std::io::stdout())));
}

/// Prints sentences to standard error, wrapped to the terminal.
pub(crate) fn note(text: &str) {
    print_aside(&flow(text, columns(std::io::stderr())));
}

/// Prints an error to standard error.
pub(crate) fn complain(error: &anyhow::Error) {
    print_aside(&show_error(error, columns(std::io::stderr())));
}

/// Prints to standard error; there, too, a reader may have gone away.
fn print_aside(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end_matches('\n'));
}

/// Columns that text may take there: those of the terminal, up to 120, and what is usual where it is none.
pub(crate) fn columns(stream: impl AsFd) -> usize {
    match rustix::termios::tcgetwinsize(stream) {
        // A terminal may not know its own size.
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col).clamp(60, 120),
        _ => USUAL_WIDTH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::config::{Place, Problems};

    #[test]
    fn an_error_fits_a_terminal_and_what_is_shown_of_a_file_stays() {
        let line = format!("load: {{closed: {{connections: {}}}}}", "9".repeat(90));
        let mut problems = Problems::new("study.yaml", &line);
        let message = "there are many words in this message, so many that they do not fit beside each other";
        problems.add(Place { line: 1, column: 8, width: 6 }, message, message);
        let text = show_error(&Mistake::in_files(problems.into_vec()).into(), 80);
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(wide, [format!("1 | {line}")], "{text}");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&format!("error: {message} -->")), "{text}");
        assert!(flat.contains(&format!("= hint: {message} 1 mistake;")), "{text}");
        let log = "a line of others ".repeat(9);
        let fault = Fault::new(message.repeat(2)).remedy(message).with_log(log.trim());
        let text = show_error(&fault.into(), 80);
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(wide, [format!("    {}", log.trim())], "{text}");
        let typed = Mistake::new(format!("{message}\n  to do: {message}")).into();
        assert!(show_error(&typed, 80).lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn an_error_within_another_has_one_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let workloads = folder.path().join("workloads");
        std::fs::create_dir_all(workloads.join("toy")).unwrap();
        std::fs::write(workloads.join("toy/workload.yaml"), [0xff]).unwrap();
        let study = "study: s\nworkload: toy\nload: {closed: {}}\nforms: {native: []}\n";
        let error = crate::files::read_suite_text(study, "s", Some(&workloads)).unwrap_err();
        let text = show_error(&error, 80);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.starts_with("error: this workload cannot be read: cannot read "), "{text}");
        assert!(text.contains("UTF-8"), "{text}");
    }

    #[test]
    fn a_record_with_a_link_in_it_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        claim_record(folder.path()).unwrap();
        for name in ["report.html", "trials"] {
            let link = folder.path().join(name);
            std::os::unix::fs::symlink("/etc/hosts", &link).unwrap();
            let told = claim_record(folder.path()).unwrap_err().to_string();
            assert!(told.contains(name) && told.contains("is a link"), "{told}");
            std::fs::remove_file(&link).unwrap();
        }
        let part = folder.path().join("part");
        std::os::unix::fs::symlink(folder.path(), &part).unwrap();
        claim_record(&part).unwrap();
        assert!(claim_part(&part).is_err(), "a record may be called by a link, a part of one may not");
    }
}
