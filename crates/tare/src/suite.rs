//! Runs of studies with several parts, started and resumed.

use crate::cli::{Format, ResumeArgs, RunArgs};
use crate::dry_run::{describe_part, named};
use crate::mistake::Mistake;
use crate::outlook::{self, Outlook, Total};
use crate::ready::{Ready, look_at_forms, new_seed, ready, same_bundles};
use crate::records::{claim_part, claim_record, claim_records, require_writable};
use crate::report::{plain_style, render, render_suite, terminal_style};
use crate::session::{self, Session};
use crate::terminal::{columns, note, print, tell};
use crate::version::VERSION;
use crate::written::{hand_folder_to_caller, write_own_file};
use crate::{EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, catalog, history, images, machine, paths, run};
use anyhow::Result;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tare_core::fault::Fault;
use tare_core::host::MachineServices;
use tare_core::record::{End, Header, Record, SCHEMA, SuiteHeader, SuiteRecord};
use tare_core::study::{Study, Suite};
use tare_core::trial::Outcome;
use tare_report::{paragraph, whole};
use tare_runner::{Clock, RecordDir, Stop, SystemClock};

/// Runs the parts of a study one after the other, each into its own record.
pub(crate) fn run(args: &RunArgs, mut suite: Suite) -> Result<u8> {
    choose(args, &mut suite)?;
    for (study, workload) in &mut suite.parts {
        run::prepare(args, study, workload)?;
    }
    if args.dry_run {
        print(&dry_run(&suite, columns(std::io::stdout())));
        return Ok(EXIT_OK);
    }
    session::require_root("run")?;
    if args.out.is_none() {
        claim_records()?;
    }
    let _machine = session::take_machine(&format!("tare run {}", suite.name), args.wait)?;
    session::require_clean_host()?;
    for (_, workload) in &suite.parts {
        catalog::check_needs(&workload.protocol.protocol, &workload.protocol.options)?;
    }
    let stamp = session::folder_stamp();
    let out = args.out.clone().unwrap_or_else(|| paths::records().join(format!("{stamp}-{}", suite.name)));
    require_writable(&out)?;
    let stop = session::stop_on_signals()?;
    let mut say = |text: &str| if args.json { note(text) } else { tell(text) };
    let carrier = machine::carrier()?;
    let header = suite_header(args, &suite);
    let headers = headers(suite, (&header.command, args.seed), &carrier, &mut say)?;
    let (name, parts, mut all) = (&header.study, headers.len(), Total::default());
    for part in &headers {
        let pace = outlook::pace(&part.study, &part.workload, Some(&part.forms));
        all.add(&Outlook::of(&part.study, &part.plan, &pace));
    }
    say(&format!("study {name}: {}", all.describe()));
    tare_runner::create_suite(&out, &header)?;
    say(&format!("record: {}", out.display()));
    // All plans are on disk before the first trial, so that an interrupted run can be resumed.
    let mut begun = Vec::new();
    for part in headers {
        let folder = out.join(part_name(&part));
        begun.push((RecordDir::create(&folder, &part)?, part));
    }
    let mut interrupted = false;
    for (at, (record, part)) in begun.into_iter().enumerate() {
        say(&format!("\npart {} of {parts}: {}", at + 1, part_name(&part)));
        let session = Session {
            header: &part,
            record,
            done: Vec::new(),
            carrier: carrier.clone(),
            json: args.json,
            keep_failed: args.keep_failed,
            stop: stop.clone(),
        };
        interrupted = conduct(session, &stop)? || say_left(parts - at - 1, &out, &stop, &mut say);
        if interrupted {
            break;
        }
    }
    finish(&out, args.json, interrupted)
}

/// Resumes a run of several parts: those that have not ended.
pub(crate) fn resume(path: &Path, args: &ResumeArgs) -> Result<u8> {
    let json = args.json;
    // Checked before it is read, as far as possible.
    claim_record(path)?;
    let SuiteRecord { header, parts } = tare_runner::read_suite(path)?;
    let mut say = |text: &str| if json { note(text) } else { tell(text) };
    if let Some(part) = header.parts.get(parts.len()) {
        let fault = Fault::new(format!("part {part} of {} has no record, not even a plan", path.display()));
        return Err(fault.remedy("restore it from a copy, or start a new run").into());
    }
    let open: Vec<Record> = parts.into_iter().filter(is_open).collect();
    if open.is_empty() {
        say(&format!("{}: every trial of every part is on disk; `tare report` renders it", path.display()));
        return Ok(EXIT_OK);
    }
    session::require_root("resume")?;
    open.iter().try_for_each(|part| claim_part(&path.join(part_name(&part.header))))?;
    let _machine = session::take_machine(&format!("tare resume {}", path.display()), args.wait)?;
    open.iter().try_for_each(|part| session::remove_of_run(&part.header.run).map(drop))?;
    session::require_clean_host()?;
    let stop = session::stop_on_signals()?;
    let carrier = machine::carrier()?;
    let (mut interrupted, parts) = (false, open.len());
    for (at, part) in open.into_iter().enumerate() {
        let folder = path.join(part_name(&part.header));
        same_bundles(&part.header, &carrier, &mut say)?;
        let (there, all) = (part.trials.len(), part.header.plan.len());
        say(&format!("\npart {}: {there} of {all} trials are on disk", part_name(&part.header)));
        let done = part.trials.into_iter().map(|trial| trial.record).collect();
        let record = RecordDir::open(&folder)?;
        let session = Session {
            header: &part.header,
            record,
            done,
            carrier: carrier.clone(),
            json,
            keep_failed: args.keep_failed,
            stop: stop.clone(),
        };
        interrupted = conduct(session, &stop)? || say_left(parts - at - 1, path, &stop, &mut say);
        if interrupted {
            break;
        }
    }
    finish(path, json, interrupted)
}

/// Keeps only the parts that were named.
fn choose(args: &RunArgs, suite: &mut Suite) -> Result<()> {
    let names: Vec<String> =
        suite.parts.iter().filter_map(|(study, _)| Some(study.part.as_ref()?.name.clone())).collect();
    if let Some(unknown) = args.parts.iter().find(|part| !names.contains(part)) {
        let text = format!("study '{}' has no part '{unknown}'; it has: {}", suite.name, names.join(", "));
        return Err(Mistake::new(text).into());
    }
    if !args.parts.is_empty() {
        let chosen = |study: &Study| study.part.as_ref().is_some_and(|part| args.parts.contains(&part.name));
        suite.parts.retain(|(study, _)| chosen(study));
    }
    Ok(())
}

fn suite_header(args: &RunArgs, suite: &Suite) -> SuiteHeader {
    let parts = suite.parts.iter().filter_map(|(study, _)| study.part.as_ref()).map(|part| part.name.clone());
    let mut command = format!("tare run {}", args.study);
    let preset = args.preset.iter().map(|preset| format!(" --preset {preset}"));
    let parts_named = args.parts.iter().map(|part| format!(" --part {part}"));
    let forms = args.forms.iter().map(|form| format!(" --form {form}"));
    preset.chain(parts_named).chain(forms).for_each(|text| command.push_str(&text));
    if let Some(repeat) = args.repeat {
        let _ = write!(command, " --repeat {repeat}");
    }
    SuiteHeader {
        schema: SCHEMA,
        tare: VERSION.clone(),
        study: suite.name.clone(),
        question: suite.question.clone(),
        preset: suite.preset.clone(),
        started: SystemClock::new().timestamp(),
        command,
        parts: parts.collect(),
    }
}

/// A header for each part; `command` repeats the whole run, `seed` is the one typed. What all parts share is found out
/// once: probing for guests takes seconds.
fn headers(
    suite: Suite,
    (command, seed): (&str, Option<u64>),
    carrier: &Arc<MachineServices>,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Header>> {
    let mut all: Vec<Ready> = Vec::new();
    let mut told = BTreeSet::new();
    for (study, mut workload) in suite.parts {
        let bundles = machine::build_bundles(&mut workload, carrier.bundles.as_ref(), say)?;
        images::lines(&workload).into_iter().filter(|line| told.insert(line.clone())).for_each(|line| say(&line));
        let known = all.iter().find(|part| part.study.forms == study.forms).map(|part| part.forms.clone());
        let forms = known.unwrap_or_else(|| look_at_forms(&study, carrier, say));
        let environment = all.first().map(|part| part.environment.clone());
        all.push(ready(study, workload, forms, bundles, environment)?);
    }
    let header = |part: Ready| {
        let seed = part.study.seed.or(seed).unwrap_or_else(new_seed);
        let header = part.header(seed);
        let name = part_name(&header).to_owned();
        let named = if command.contains(" --part ") { String::new() } else { format!(" --part {name}") };
        Header { command: format!("{command}{named} --seed {seed}"), ..header }
    };
    Ok(all.into_iter().map(header).collect())
}

/// Runs one part and renders its page; returns whether the user interrupted it.
fn conduct(session: Session, stop: &Stop) -> Result<bool> {
    let path = session.record.path().to_owned();
    session::conduct(session)?;
    let record = tare_runner::read_record(&path)?;
    hand_folder_to_caller(&path);
    write_own_file(&path.join("report.html"), &render(&record, Format::Html, &plain_style())?)?;
    if let Err(error) = history::add(&record, &path) {
        note(&format!("warning: could not add the run to the history: {error:#}"));
    }
    Ok(stop.raised())
}

/// Whether a user asked for the end of the run, which leaves `parts` of it out. Says which command runs them.
fn say_left(parts: usize, path: &Path, stop: &Stop, say: &mut dyn FnMut(&str)) -> bool {
    let leaves_out = parts > 0 && stop.asked_by().is_some();
    if leaves_out {
        let parts = if parts == 1 { "1 part was".to_owned() } else { format!("{parts} parts were") };
        say(&format!("\nended on request: {parts} not begun; to run what is left: tare resume {}", path.display()));
    }
    leaves_out
}

/// Renders all parts and prints where the report is. Returns the exit code.
fn finish(path: &Path, json: bool, interrupted: bool) -> Result<u8> {
    let suite = tare_runner::read_suite(path)?;
    let html: PathBuf = path.join("report.html");
    write_own_file(&html, &render_suite(&suite, Format::Html, &plain_style())?)?;
    let style = if json { plain_style() } else { terminal_style() };
    print(&render_suite(&suite, if json { Format::Json } else { Format::Terminal }, &style)?);
    if !json {
        session::say_where(&html, path);
    }
    let mut trials = suite.parts.iter().flat_map(|part| &part.trials);
    let bad = trials.any(|t| matches!(t.record.outcome, Outcome::Failed { .. } | Outcome::Invalid { .. }));
    Ok(match (interrupted, bad) {
        (true, _) => EXIT_INTERRUPTED,
        (false, true) => EXIT_FAILED,
        (false, false) => EXIT_OK,
    })
}

/// Whether trials of a part remain to be run.
fn is_open(part: &Record) -> bool {
    let ended = part.end.as_ref().is_some_and(End::is_whole);
    !ended || !part.lost().is_empty()
}

/// The folder of a part.
fn part_name(header: &Header) -> &str {
    header.study.part.as_ref().map_or(&header.study.name, |part| &part.name)
}

/// What a run would do, part by part, in lines of at most `width` columns.
fn dry_run(suite: &Suite, width: usize) -> String {
    let preset = suite.preset.as_ref().map(|preset| format!(", preset {preset}")).unwrap_or_default();
    let mut text = paragraph("", 2, &named("study", &format!("{}{preset}", suite.name), &suite.question), width);
    let first = suite.parts.first().map(|(study, _)| study);
    let forms = first.iter().flat_map(|study| &study.forms).map(|form| whole(&form.name)).collect::<Vec<_>>();
    text.push_str(&paragraph("", 2, &format!("forms {}", forms.join(", ")), width));
    text.push('\n');
    let mut all = Total::default();
    for (study, workload) in &suite.parts {
        text.push_str(&describe_part(study, workload, width, &mut all));
    }
    text + "\n" + &paragraph("", 2, &format!("{}. Nothing was started.", all.describe()), width)
}
