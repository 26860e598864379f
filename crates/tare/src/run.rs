//! A run of a study, from its arguments to its end: shared by the verbs that measure.

use crate::catalog::{self, Tables};
use crate::cli::RunArgs;
use crate::dry_run::{dry_run, outcome_of};
use crate::mistake::Mistake;
use crate::outlook::{self, Outlook};
use crate::ready::{look_at_forms, new_seed, ready};
use crate::records::{claim_records, require_writable};
use crate::session::{self, Session};
use crate::terminal::{columns, note, print, tell};
use crate::{EXIT_OK, files, images, machine, paths, places, power};
use anyhow::Result;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tare_core::design::Chosen;
use tare_core::profile::Profiled;
use tare_core::record::Header;
use tare_core::study::Study;
use tare_core::units::typed_duration;
use tare_core::workload::Workload;
use tare_runner::{Ending, RecordDir};

/// Applies the arguments to a study, and checks that it can be run on this machine.
pub(crate) fn prepare(args: &RunArgs, study: &mut Study, workload: &Workload) -> Result<()> {
    check_times(args, study)?;
    put_together(args, study, workload)?;
    study.lay_ruler();
    places::places(study, workload).map(drop)
}

/// Reads the study that was typed for a verb that turns one without parts into another.
pub(crate) fn read_whole(args: &RunArgs, verb: &str) -> Result<(Study, Workload)> {
    let (study, workload) = files::only_part(files::read_to_run(args)?, verb)?;
    if let Some(text) = files::no_such_part(&study.name, &args.parts) {
        return Err(Mistake::new(text).into());
    }
    check_times(args, &study)?;
    Ok((study, workload))
}

/// Refuses `--measure` and `--settle` for a study whose load has its own times.
pub(crate) fn check_times(args: &RunArgs, study: &Study) -> Result<()> {
    let typed = [("--measure", args.measure), ("--settle", args.settle)];
    let Some((flag, _)) = typed.into_iter().find(|(_, time)| time.is_some()) else { return Ok(()) };
    let (what, instead) = if study.peak.is_some() {
        ("a search for the peak", format!("tare peak {} {flag} TIME, or change 'load' in the study", args.study))
    } else if study.load.span().is_some() {
        ("a load in steps", "change 'measure', 'settle' or 'ramp' of 'steps' in the study".to_owned())
    } else {
        return Ok(());
    };
    let text =
        format!("{flag} has no effect here: the load of study '{}' is {what}, which has its own times", study.name);
    Err(Mistake::new(format!("{text}\n  to do: {instead}")).into())
}

/// Runs the study and prints its report. `repeat` is the beginning of the command that repeats it, if not `tare run`.
pub(crate) fn start(args: &RunArgs, study: Study, workload: Workload, repeat: Option<String>) -> Result<u8> {
    start_and(args, study, workload, repeat, |path, ending| session::show_end(path, ending, args.json, args.verbose))
}

/// The same, but ends with `finish`, which gets the record and how the run ended, instead of the report.
pub(crate) fn start_and(
    args: &RunArgs,
    mut study: Study,
    mut workload: Workload,
    repeat: Option<String>,
    finish: impl FnOnce(&Path, Ending) -> Result<u8>,
) -> Result<u8> {
    put_together(args, &mut study, &workload)?;
    study.lay_ruler();
    let places = places::places(&study, &workload)?;
    let seed = study.seed.unwrap_or_else(new_seed);
    if args.dry_run {
        let pace = outlook::pace(&study, &workload, None);
        let fitted = outlook::fit(&mut study, &pace, args.measure.is_some());
        let lines = dry_run(&study, &workload, &places, seed, columns(std::io::stdout()));
        let width = columns(std::io::stdout());
        let foreseen = power::foreseen_text(&study, &workload, &pace, width);
        print(&(lines + &outcome_of(&study, &pace, seed, fitted, foreseen, width)));
        return Ok(EXIT_OK);
    }
    session::require_root("run")?;
    if args.out.is_none() {
        claim_records()?;
    }
    let _machine = session::take_machine(&format!("tare run {}", study.name), args.wait)?;
    session::require_clean_host()?;
    catalog::check_needs(&workload.protocol.protocol, &workload.protocol.options)?;
    let out = args.out.clone().unwrap_or_else(|| default_out(&study));
    require_writable(&out)?;
    let stop = session::stop_on_signals()?;
    let mut say = |text: &str| if args.json { note(text) } else { tell(text) };
    let carrier = machine::carrier()?;
    let bundles = machine::build_bundles(&mut workload, carrier.bundles.as_ref(), &mut say)?;
    if !args.image_said {
        images::lines(&workload).iter().for_each(|line| say(line));
    }
    let forms = look_at_forms(&study, &carrier, &mut say);
    let pace = outlook::pace(&study, &workload, Some(&forms));
    let fitted = outlook::fit(&mut study, &pace, args.measure.is_some());
    let command = repeat.map_or_else(
        || command(args, &study, seed),
        |repeat| format!("{repeat}{} --seed {seed}", repeat_option(&study)),
    );
    let header = Header { command, ..ready(study, workload, forms, bundles, None)?.header(seed) };
    let outlook = Outlook::of(&header.study, &header.plan, &pace);
    fitted.iter().for_each(|fitted| say(fitted));
    say(&format!("study {}: {}", header.study.name, outlook.describe()));
    outlook.too_short().iter().for_each(|warning| say(warning));
    let record = RecordDir::create(&out, &header)?;
    say(&format!("record: {}\n", out.display()));
    let (done, keep_failed) = (Vec::new(), args.keep_failed);
    let session = Session { header: &header, record, done, carrier, json: args.json, keep_failed, stop };
    let ending = session::conduct(session)?;
    finish(&out, ending)
}

/// Applies the arguments, and decides what neither they nor the file say.
fn put_together(args: &RunArgs, study: &mut Study, workload: &Workload) -> Result<()> {
    apply(args, study)?;
    study.arrange(workload, &Tables);
    places::stand_apart_if_memory_is_short(study, workload, places::memory_bytes());
    check_whole(study, workload)
}

/// Overrides the file with the arguments.
fn apply(args: &RunArgs, study: &mut Study) -> Result<()> {
    for name in &args.forms {
        if !study.forms.iter().any(|form| form.name == *name) {
            let known: Vec<&str> = study.forms.iter().map(|form| form.name.as_str()).collect();
            let text = format!("study '{}' has no form '{name}'; it has: {}", study.name, known.join(", "));
            return Err(Mistake::new(text).into());
        }
    }
    if !args.forms.is_empty() {
        let baseline = study.baseline.clone();
        study.forms.retain(|form| form.name == baseline || args.forms.contains(&form.name));
    }
    // Naming the study's own design keeps its options, such as slices.
    if let Some(design) = args.design.clone() {
        study.design.chosen = Chosen::Asked;
        if design.name() != study.design.arrangement.name() {
            study.design.arrangement = design;
        }
    }
    // Exactly this many blocks.
    if let Some(repeat) = args.repeat {
        (study.repeat, study.design.half_width) = (repeat, None);
    }
    study.at_most = args.at_most.or(study.at_most);
    if study.peak.is_none() {
        study.settle = args.settle.unwrap_or(study.settle);
        study.measure = args.measure.unwrap_or(study.measure);
    }
    study.seed = args.seed.or(study.seed);
    if args.ruler.is_some() && !study.takes_ruler() {
        let text = "--ruler has no effect here: this compares rungs, variants or placements of one form";
        return Err(Mistake::new(format!("{text}\n  to do: omit it, or use it with `tare run`")).into());
    }
    study.ruler = args.ruler.or(study.ruler);
    if args.profile {
        study.profile.get_or_insert(Profiled::All);
    }
    if study.measure.as_secs_f64() < 1.0 {
        return Err(Mistake::new("--measure must be at least 1s").into());
    }
    Ok(())
}

/// The arguments may have combined what does not go together.
fn check_whole(study: &Study, workload: &Workload) -> Result<()> {
    let conflicts = study.conflicts(workload, &Tables);
    if conflicts.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = conflicts
        .iter()
        .map(|found| format!("'{}' of study '{}': {}\n  to do: {}", found.field, study.name, found.message, found.hint))
        .collect();
    Err(Mistake::new(texts.join("\nerror: ")).into())
}

fn default_out(study: &Study) -> PathBuf {
    paths::records().join(format!("{}-{}", session::folder_stamp(), study.name))
}

/// The option for the number of blocks; empty for a study that ends once its intervals are narrow.
fn repeat_option(study: &Study) -> String {
    if study.design.half_width.is_some() { String::new() } else { format!(" --repeat {}", study.repeat) }
}

/// The command that repeats this run, with all that was decided.
fn command(args: &RunArgs, study: &Study, seed: u64) -> String {
    let mut text = format!("tare run {}{} --seed {seed}", args.study, repeat_option(study));
    for name in &args.forms {
        let _ = write!(text, " --form {name}");
    }
    if let Some(preset) = &args.preset {
        let _ = write!(text, " --preset {preset}");
    }
    if let Some(share) = args.ruler {
        let _ = write!(text, " --ruler {}%", share * 100.0);
    }
    if let Some(design) = &args.design {
        let _ = write!(text, " --design {}", design.name());
    }
    let _ = write!(text, " --settle {} --measure {}", typed_duration(study.settle), typed_duration(study.measure));
    if let Some(most) = study.at_most {
        let _ = write!(text, " --at-most {}", typed_duration(most));
    }
    if args.profile {
        text.push_str(" --profile");
    }
    if let Some(folder) = &args.workloads {
        let _ = write!(text, " --workloads {}", folder.display());
    }
    text
}
