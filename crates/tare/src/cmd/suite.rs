//! Runs of studies with several parts: `tare run`, `tare resume` and `tare report` of them.

use crate::cli::{Format, ResumeArgs, RunArgs};
use crate::cmd::report::{plain_style, terminal_style};
use crate::cmd::run::{self, Ready};
use crate::cmd::{Mistake, claim_part, claim_record, claim_records, columns, note, print, tell};
use crate::outlook::{self, Outlook, Total};
use crate::session::{self, Session};
use crate::version::VERSION;
use crate::written::{hand_folder_to_caller, write_own_file};
use crate::{EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, history, images, machine, paths};
use anyhow::Result;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tare_core::fault::Fault;
use tare_core::host::Carrier;
use tare_core::record::{End, Header, Record, SCHEMA, SuiteHeader, SuiteRecord};
use tare_core::study::{Study, Suite};
use tare_core::trial::Outcome;
use tare_core::workload::Workload;
use tare_report::{AnalysedPart, Style, paragraph, render_suite, whole};
use tare_runner::{Clock, RecordDir, Stop, SystemClock};

/// Carries out the parts of a study one after the other, each into a record of its own.
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
        tare_load::check_needs(&workload.protocol.protocol, &workload.protocol.options)?;
    }
    let stamp = session::folder_stamp();
    let out = args.out.clone().unwrap_or_else(|| paths::records().join(format!("{stamp}-{}", suite.name)));
    run::require_writable(&out)?;
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
    // All plans are on disk before the first trial, so that a run that is cut short can go on.
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
            stop: stop.clone(),
        };
        interrupted = conduct(session, &stop)?;
        if interrupted {
            break;
        }
    }
    finish(&out, args.json, interrupted)
}

/// Goes on with a run of several parts: those that have not ended.
pub(crate) fn resume(path: &Path, args: &ResumeArgs, bring_back: &mut dyn FnMut(&Header) -> Result<()>) -> Result<u8> {
    let json = args.json;
    // Before it is read, as far as that can be told before.
    claim_record(path)?;
    let SuiteRecord { header, parts } = tare_runner::read_suite(path)?;
    let mut say = |text: &str| if json { note(text) } else { tell(text) };
    if let Some(part) = header.parts.get(parts.len()) {
        let fault = Fault::new(format!("the part {part} of {} has no record, not even a plan", path.display()));
        return Err(fault.remedy("put it back from a copy, or start a new run").into());
    }
    let open: Vec<Record> = parts.into_iter().filter(is_open).collect();
    if open.is_empty() {
        say(&format!("{}: every trial of every part is on disk; `tare report` renders it", path.display()));
        return Ok(EXIT_OK);
    }
    session::require_root("resume")?;
    open.iter().try_for_each(|part| claim_part(&path.join(part_name(&part.header))))?;
    let _machine = session::take_machine(&format!("tare resume {}", path.display()), args.wait)?;
    open.iter().try_for_each(|part| bring_back(&part.header))?;
    session::require_clean_host()?;
    let stop = session::stop_on_signals()?;
    let carrier = machine::carrier()?;
    let mut interrupted = false;
    for part in open {
        let folder = path.join(part_name(&part.header));
        run::same_bundles(&part.header, &carrier, &mut say)?;
        let (there, all) = (part.trials.len(), part.header.plan.len());
        say(&format!("\npart {}: {there} of {all} trials are on disk", part_name(&part.header)));
        let done = part.trials.into_iter().map(|trial| trial.record).collect();
        let record = RecordDir::open(&folder)?;
        let session =
            Session { header: &part.header, record, done, carrier: carrier.clone(), json, stop: stop.clone() };
        interrupted = conduct(session, &stop)?;
        if interrupted {
            break;
        }
    }
    finish(path, json, interrupted)
}

/// Renders a record of several parts.
pub(crate) fn render(suite: &SuiteRecord, format: Format, style: &Style) -> Result<String> {
    let analysed = |record| -> AnalysedPart<'_> { (record, tare_stats::analyse(record)) };
    let parts: Vec<AnalysedPart<'_>> = suite.parts.iter().map(analysed).collect();
    Ok(render_suite(&suite.header, &parts, format.name(), style)?)
}

/// Only the parts that were named.
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

/// A header for each part; `command` repeats the whole, `seed` is what was typed. What is the same for all is found out
/// once: whether a guest can be had takes seconds.
fn headers(
    suite: Suite,
    (command, seed): (&str, Option<u64>),
    carrier: &Arc<Carrier>,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Header>> {
    let mut ready: Vec<Ready> = Vec::new();
    let mut told = BTreeSet::new();
    for (study, mut workload) in suite.parts {
        let bundles = machine::build_bundles(&mut workload, carrier.bundles.as_ref(), say)?;
        images::lines(&workload).into_iter().filter(|line| told.insert(line.clone())).for_each(|line| say(&line));
        let known = ready.iter().find(|part| part.study.forms == study.forms).map(|part| part.forms.clone());
        let forms = known.unwrap_or_else(|| run::look_at_forms(&study, carrier, say));
        let environment = ready.first().map(|part| part.environment.clone());
        ready.push(run::ready(study, workload, forms, bundles, environment)?);
    }
    let header = |part: Ready| {
        let seed = part.study.seed.or(seed).unwrap_or_else(run::new_seed);
        let header = part.header(seed);
        let name = part_name(&header).to_owned();
        let named = if command.contains(" --part ") { String::new() } else { format!(" --part {name}") };
        Header { command: format!("{command}{named} --seed {seed}"), ..header }
    };
    Ok(ready.into_iter().map(header).collect())
}

/// Carries out one part and renders its page; whether the user wanted an end.
fn conduct(session: Session, stop: &Stop) -> Result<bool> {
    let path = session.record.path().to_owned();
    session::conduct(session)?;
    let record = tare_runner::read_record(&path)?;
    hand_folder_to_caller(&path);
    write_own_file(&path.join("report.html"), &crate::cmd::report::render(&record, Format::Html, &plain_style())?)?;
    if let Err(error) = history::add(&record, &path) {
        note(&format!("warning: the run is not in the history: {error:#}"));
    }
    Ok(stop.raised())
}

/// Renders the whole and says where it is. The exit code says how it went.
fn finish(path: &Path, json: bool, interrupted: bool) -> Result<u8> {
    let suite = tare_runner::read_suite(path)?;
    let html: PathBuf = path.join("report.html");
    write_own_file(&html, &render(&suite, Format::Html, &plain_style())?)?;
    let style = if json { plain_style() } else { terminal_style() };
    print(&render(&suite, if json { Format::Json } else { Format::Terminal }, &style)?);
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

/// Whether trials of a part are still to be run.
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
    let mut text = paragraph("", 2, &run::named("study", &format!("{}{preset}", suite.name), &suite.question), width);
    let first = suite.parts.first().map(|(study, _)| study);
    let forms = first.iter().flat_map(|study| &study.forms).map(|form| whole(&form.name)).collect::<Vec<_>>();
    text.push_str(&paragraph("", 2, &format!("forms {}", forms.join(", ")), width));
    text.push('\n');
    let mut all = Total::default();
    for (study, workload) in &suite.parts {
        text.push_str(&run::describe_part(study, workload, width, &mut all));
    }
    text + "\n" + &paragraph("", 2, &format!("{}. Nothing was started.", all.describe()), width)
}

/// The study of `suite` where it must be one of one workload.
///
/// # Errors
/// When it has parts; `verb` is what was asked for.
pub(crate) fn only_part(suite: Suite, verb: &str) -> Result<(Study, Workload)> {
    if suite.is_divided() {
        let text = format!("study '{}' has parts, and `tare {verb}` takes one workload at a time", suite.name);
        return Err(Mistake::new(format!("{text}\n  to do: tare run {}", suite.name)).into());
    }
    Ok(suite.parts.into_iter().next().expect("a study has a part"))
}
