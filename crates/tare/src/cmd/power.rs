//! `tare power`: predicts what a study will show on this machine: how narrow its intervals will be after how long.
//!
//! A calibration is a short run of the study's own forms, arranged as in the study, by the same runner; its record is
//! read and thrown away. From so few deployments variances are poorly known, so predictions are ranges; records of
//! earlier runs narrow them.

use crate::cli::RunArgs;
use crate::mistake::Mistake;
use crate::power::show::{self, Basis};
use crate::power::{ahead, bare_header, foreseen};
use crate::ready::{look_at_forms, new_seed, ready};
use crate::session::{self, Session};
use crate::terminal::{columns, note, print};
use crate::{EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, catalog, files, history, machine, outlook, paths, run};
use anyhow::Result;
use clap::Args;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tare_core::design::Arrangement;
use tare_core::fault::Fault;
use tare_core::record::{FormState, Record};
use tare_core::study::Study;
use tare_core::trial::Outcome;
use tare_core::units::exact_duration;
use tare_core::workload::Workload;
use tare_runner::{Clock, Ending, FormPace, Pace, RecordDir, SystemClock};
use tare_stats::power::{Power, Seen, power, seen};

/// Deployments of each form by default: the fewest from which limits mean anything.
const DEPLOYMENTS: u32 = 4;

/// Where load is chopped, each deployment is measured in this many pieces, each this long.
const PIECES: u32 = 4;
const PIECE: Duration = Duration::from_millis(250);

/// The longest that a calibration settles, and measures in one go.
const SETTLE_MAX: Duration = Duration::from_secs(1);
const MEASURE_MAX: Duration = Duration::from_secs(2);

const HELP: &str = "\
Deploys each form a few times and measures it briefly, arranged as in the study. Then predicts the half-widths of the \
ratios' intervals after 1, 5 and 30 minutes of `tare run`, and when they reach the requested width: --half-width, else \
`until` of the study, else 1 %. A few deployments are a poor guide to how much deployments differ, so the predictions \
are ranges: the truth lies within them in about eight of ten cases. Earlier runs of the same forms on this machine \
narrow them. Tare keeps nothing of a calibration and shows none of its figures.

With --dry-run nothing is deployed, and the prediction uses earlier runs alone.

Exit codes: those of `tare run`.

Examples:
  tare power canonical
  tare power canonical --form container --half-width 0.5%
  tare power canonical --measure 2s --dry-run";

/// See `Verb::Power`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct PowerArgs {
    /// Study: a file, or the name of one in studies/
    #[arg(default_value = "canonical")]
    study: String,
    /// Half-width to reach, such as 1%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    half_width: Option<f64>,
    /// Number of deployments of each form in the calibration
    #[arg(long, value_name = "N", default_value_t = DEPLOYMENTS, value_parser = clap::value_parser!(u32).range(2..=100))]
    deployments: u32,
    /// Preset to use, such as quick
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// How to arrange the forms of a block, overriding the study
    #[arg(long, value_name = "NAME", value_parser = crate::cli::designs())]
    design: Option<Arrangement>,
    /// Deploy only this form and the baseline; may be repeated
    #[arg(long = "form", value_name = "NAME")]
    forms: Vec<String>,
    /// How long `tare run` would run load before measuring, such as 3s
    #[arg(long, value_name = "TIME", value_parser = crate::cli::duration)]
    settle: Option<Duration>,
    /// How long `tare run` would measure each trial, such as 10s
    #[arg(long, value_name = "TIME", value_parser = crate::cli::duration)]
    measure: Option<Duration>,
    /// Look for workloads here first, then beside the study, in workloads/ there and above, and in ./workloads
    #[arg(long, value_name = "DIR")]
    workloads: Option<PathBuf>,
    /// Print as JSON; progress goes to standard error
    #[arg(long)]
    json: bool,
    /// Wait for a run in progress on this machine to end
    #[arg(long)]
    wait: bool,
    /// Predict from earlier runs alone, without starting anything
    #[arg(long)]
    dry_run: bool,
}

impl PowerArgs {
    /// The arguments with which `tare run` would run the study.
    fn run(&self) -> RunArgs {
        RunArgs {
            study: self.study.clone(),
            preset: self.preset.clone(),
            parts: Vec::new(),
            repeat: None,
            design: self.design.clone(),
            ruler: None,
            forms: self.forms.clone(),
            at_most: None,
            settle: self.settle,
            measure: self.measure,
            seed: None,
            out: None,
            workloads: self.workloads.clone(),
            profile: false,
            json: self.json,
            verbose: false,
            keep_failed: false,
            wait: self.wait,
            dry_run: self.dry_run,
            image_said: false,
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = tare_core::units::parse_percent(text)?;
    if share > 0.0 && share < 1.0 {
        Ok(share)
    } else {
        Err(format!("'{text}' is not a half-width; write for example 1%"))
    }
}

pub(crate) fn power_of(args: &PowerArgs) -> Result<u8> {
    let typed = args.run();
    let (mut study, workload) = files::only_part(files::read_to_run(&typed)?, "power")?;
    if study.peak.is_some() {
        let text = format!("study '{}' searches for the peak, which cannot be predicted", study.name);
        return Err(Mistake::new(format!("{text}\n  to do: name a study that measures at one load")).into());
    }
    run::prepare(&typed, &mut study, &workload)?;
    study.set_apart(&workload, &catalog::Tables);
    if args.dry_run {
        let pace = outlook::pace(&study, &workload, None);
        let found = foreseen(&study, &workload, &pace, args.half_width)?;
        let (power, basis) = found.ok_or_else(|| nothing_known(&study))?;
        print(&shown(args, &study, &power, &basis)?);
        return Ok(EXIT_OK);
    }
    session::require_root("power")?;
    let _machine = session::take_machine(&format!("tare power {}", study.name), args.wait)?;
    session::require_clean_host()?;
    catalog::check_needs(&workload.protocol.protocol, &workload.protocol.options)?;
    calibrate(args, study, workload)
}

fn nothing_known(study: &Study) -> Fault {
    let text = format!("no earlier run on this machine shows how the forms of study '{}' vary", study.name);
    Fault::new(text).remedy("omit --dry-run to find out by a calibration")
}

fn shown(args: &PowerArgs, study: &Study, power: &Power, basis: &Basis) -> Result<String> {
    if args.json {
        return show::json(study, power, basis);
    }
    let width = columns(std::io::stdout());
    Ok(format!("{}{}", show::head(study, width), show::text(power, basis, width)))
}

/// Makes a short run of the study's forms, keeps nothing of it, and prints what it and earlier runs predict.
fn calibrate(args: &PowerArgs, study: Study, mut workload: Workload) -> Result<u8> {
    let stop = session::stop_on_signals()?;
    let mut say = |text: &str| note(text);
    let carrier = machine::carrier()?;
    let bundles = machine::build_bundles(&mut workload, carrier.bundles.as_ref(), &mut say)?;
    let forms = look_at_forms(&study, &carrier, &mut say);
    let (earlier, runs) = history::spreads(&bare_header(&study, &workload)).unwrap_or_default();
    let pace = outlook::pace(&study, &workload, Some(&forms));
    let short = calibration(&study, &forms, args.deployments)?;
    let kept: BTreeMap<String, FormState> =
        forms.iter().filter(|(name, _)| short.forms.iter().any(|form| form.name == **name)).map(owned).collect();
    let header = ready(short, workload, kept, bundles, None)?.header(new_seed());
    let folder = Folder::fresh(paths::calibration())?;
    let record = RecordDir::create(&folder.0, &header)?;
    let (clock, trials) = (SystemClock::new(), header.plan.len());
    say(&format!("calibrating: {trials} trials of {}", exact_duration(header.study.measure)));
    let began = clock.now();
    let done = Vec::new();
    let session = Session { header: &header, record, done, carrier, json: true, keep_failed: false, stop };
    let ending = session::conduct(session)?;
    if ending == Ending::Interrupted {
        return Ok(EXIT_INTERRUPTED);
    }
    let took = clock.now().saturating_sub(began);
    let record = tare_runner::read_record(&folder.0)?;
    drop(folder);
    tell_failures(&record);
    let here = seen(&record, &tare_stats::analyse(&record));
    let pace = timed(&study, &pace, &record);
    let all = together(here, &earlier);
    let Some(power) = power(&all, &ahead(&study, &pace, args.half_width)) else {
        let fault = Fault::new("the calibration failed: no form was measured twice together with the baseline");
        return Err(fault.remedy("see the warnings above; `tare run --repeat 1` keeps a record to look into").into());
    };
    let finds_slices = matches!(&study.design.arrangement, Arrangement::Chop(chop) if chop.slice.is_none());
    let basis = Basis { deployments: args.deployments, runs, took: Some(took), finds_slices };
    print(&shown(args, &study, &power, &basis)?);
    let failed = record.trials.iter().any(|trial| is_bad(&trial.record.outcome));
    Ok(if failed { EXIT_FAILED } else { EXIT_OK })
}

fn owned((name, state): (&String, &FormState)) -> (String, FormState) {
    (name.clone(), state.clone())
}

/// The study as a calibration runs it: in the same design, with those forms about which something is claimed, but
/// short.
fn calibration(study: &Study, forms: &BTreeMap<String, FormState>, deployments: u32) -> Result<Study> {
    let mut short = study.clone();
    let claims = |name: &str| forms.get(name).is_some_and(|s| s.emulated.is_none() && s.unavailable.is_none());
    short.forms.retain(|form| form.weight.is_none() && claims(&form.name));
    if !short.forms.iter().any(|form| form.name == short.baseline) {
        let text = format!("the baseline '{}' is unavailable on this machine, or emulated", short.baseline);
        return Err(Fault::new(format!("{text}: no ratio to it means anything")).remedy("tare doctor").into());
    }
    (short.repeat, short.at_most) = (deployments, None);
    (short.design.half_width, short.design.best_in, short.design.steady_within) = (None, None, None);
    (short.ruler, short.ladder, short.advice, short.profile) = (None, None, None, None);
    if short.load.span().is_some() {
        return Ok(short);
    }
    short.settle = short.settle.min(SETTLE_MAX);
    match &mut short.design.arrangement {
        Arrangement::Chop(chop) => {
            chop.pieces = Some(PIECES);
            short.measure = PIECES * PIECE;
        }
        Arrangement::Alternate(slices) => {
            slices.settle = slices.settle.min(SETTLE_MAX);
            slices.measure = slices.measure.min(Duration::from_secs(1));
            short.measure = short.measure.min(PIECES * slices.measure);
        }
        Arrangement::Blocks | Arrangement::Duet => short.measure = short.measure.min(MEASURE_MAX),
    }
    Ok(short)
}

/// How long trials of the study take: as in the calibration, or, for forms that it left out, as in earlier runs.
fn timed(study: &Study, pace: &Pace, record: &Record) -> Pace {
    let timed = tare_runner::overheads(record);
    let of = |form: &String| FormPace {
        overhead: timed.get(form).copied().or_else(|| pace.of(form).overhead),
        ..pace.of(form)
    };
    Pace::new(study.forms.iter().map(|form| (form.name.clone(), of(&form.name))).collect())
}

/// What the calibration saw, each ratio combined with what earlier runs show of it.
fn together(here: Vec<Seen>, earlier: &[Seen]) -> Vec<Seen> {
    let with_earlier = |seen: Seen| {
        let same = earlier.iter().find(|other| other.arm == seen.arm && other.metric == seen.metric);
        match same {
            Some(other) => Seen { spread: seen.spread.clone().and(&other.spread), ..seen },
            None => seen,
        }
    };
    here.into_iter().map(with_earlier).collect()
}

fn is_bad(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { .. } | Outcome::Invalid { .. })
}

/// Prints why trials did not count, each reason once.
fn tell_failures(record: &Record) {
    let mut told = Vec::new();
    for trial in record.trials.iter().filter(|trial| is_bad(&trial.record.outcome)) {
        let why = trial.record.outcome.why().map(ToString::to_string).unwrap_or_default();
        let text = format!("warning: {} was not measured: {why}", trial.record.trial.arm());
        if !told.contains(&text) {
            note(&text);
            told.push(text);
        }
    }
}

/// The folder of a calibration's record, removed when this is dropped.
struct Folder(PathBuf);

impl Folder {
    /// Removes what a killed calibration left in it.
    fn fresh(path: PathBuf) -> Result<Folder> {
        remove(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            note(&format!("warning: {error:#}"));
        }
    }
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Fault::new(format!("cannot remove the record of a calibration, {}: {error}", path.display())).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(more: &str) -> Study {
        let text = format!(
            "study: s\nworkload: redis\nload: {{closed: {{}}}}\ntime: {{settle: 5s, measure: 20s}}\n\
             forms: {{plain: [], boxed: [container: {{}}], guest: [vm: {{}}]}}\n{more}\n"
        );
        let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
        files::only_part(files::read_suite_text(&text, "s", Some(&workloads)).unwrap(), "power").unwrap().0
    }

    fn states(emulated: &str) -> BTreeMap<String, FormState> {
        let state = |name: &str| FormState {
            describe: String::new(),
            emulated: (name == emulated).then(|| Fault::new("slow")),
            unavailable: None,
            facts: BTreeMap::new(),
            placement: None,
        };
        ["plain", "boxed", "guest"].map(|name| (name.to_owned(), state(name))).into()
    }

    #[test]
    fn a_calibration_is_the_study_with_short_trials() {
        let study = study("design: chop\nuntil: {half_width: 2%, at_most: 9m}\nruler: 1%");
        let short = calibration(&study, &states("guest"), 5).unwrap();
        let names: Vec<&str> = short.forms.iter().map(|form| form.name.as_str()).collect();
        assert_eq!(names, ["plain", "boxed"], "what is emulated claims nothing, and a ruler has no part");
        assert_eq!((short.repeat, short.at_most, short.design.half_width), (5, None, None));
        assert_eq!((short.settle, short.measure), (SETTLE_MAX, PIECES * PIECE));
        let Arrangement::Chop(chop) = short.design.arrangement else { panic!("{:?}", short.design) };
        assert_eq!(chop.pieces, Some(PIECES));
        assert!(calibration(&study, &states("plain"), 5).unwrap_err().to_string().contains("baseline 'plain'"));
    }

    #[test]
    fn other_designs_stay_what_they_are() {
        let of = |design: &str| calibration(&study(design), &states(""), 3).unwrap();
        let alternating = of("design: {alternate: {slice: 10s, settle: 2s}}");
        let Arrangement::Alternate(slices) = alternating.design.arrangement else { panic!("{alternating:?}") };
        assert_eq!((slices.settle, slices.measure), (SETTLE_MAX, Duration::from_secs(1)));
        assert_eq!(slices.rounds(alternating.measure), PIECES);
        let blocks = of("design: blocks");
        assert_eq!((blocks.design.arrangement, blocks.measure), (Arrangement::Blocks, MEASURE_MAX));
    }
}
