//! `tare peak`: searches for the greatest load that each form carries within its QoS.

use crate::cli::{PeakArgs, PeakOf, PeakRulesArg};
use crate::layers::LAYERS;
use crate::mistake::Mistake;
use crate::{catalog, files, run};
use anyhow::Result;
use std::fmt::Write;
use tare_core::load::LoadProfile;
use tare_core::peak::{PeakAsked, PeakPlan, PeakRules};
use tare_core::qos::{EVERY_OPERATION, QuantileLimit};
use tare_core::study::Study;
use tare_core::units::typed_duration;
use tare_core::workload::Workload;

/// The name of the form without layers.
const PLAIN: &str = "native";
/// How long users think by default, on average.
const THINK: &str = "5s";

pub(crate) fn peak(args: &PeakArgs) -> Result<u8> {
    let read = match &args.workload {
        Some(name) => {
            let (text, what) = (study_text(args, name), format!("tare peak --workload {name}"));
            files::with_images(!args.run.dry_run, args.run.json, || {
                files::read_suite_text(&text, &what, args.run.workloads.as_deref())
            })?
        }
        None => files::read_to_run(&args.run)?,
    };
    let (mut study, workload) = files::only_part(read, "peak")?;
    search(args, &mut study, &workload)?;
    run::start(&args.run, study, workload, Some(command(args)))
}

/// The study that `--workload` stands for.
fn study_text(args: &PeakArgs, workload: &str) -> String {
    let forms: Vec<&str> = args.run.forms.iter().map(String::as_str).collect();
    // By default: the plain process, and the first layer of the list.
    let usual = || [PLAIN].into_iter().chain(LAYERS.first().map(|layer| layer.name())).collect();
    let forms = if forms.is_empty() { usual() } else { forms };
    let load = match args.of.unwrap_or(PeakOf::Open) {
        PeakOf::Closed => "closed: {}".to_owned(),
        PeakOf::Open => "open: {rate: 1}".to_owned(),
        PeakOf::Users => format!("users: {{users: 1, think: {{exponential: {{mean: {THINK}}}}}}}"),
    };
    let mut text = format!(
        "study: peak-{workload}\nquestion: What load does each form carry within its QoS?\nworkload: {workload}\n\
         load: {{{load}}}\nforms:\n"
    );
    for form in forms {
        let layers: Vec<&str> = form.split('+').filter(|layer| *layer != PLAIN).collect();
        let _ = writeln!(text, "  \"{form}\": [{}]", layers.join(", "));
    }
    text
}

/// Turns the study into a search, in which arguments override the file.
fn search(args: &PeakArgs, study: &mut Study, workload: &Workload) -> Result<()> {
    let mistake = |text: &str| Err(Mistake::new(text).into());
    if let Some(within) = args.p99 {
        let limit = vec![QuantileLimit { quantile: 0.99, within }];
        let mut qos = study.qos.take().unwrap_or_default();
        qos.operations = [(EVERY_OPERATION.to_owned(), limit)].into();
        study.qos = Some(qos);
    }
    let Some(qos) = &study.qos else {
        return mistake(
            "a peak is the greatest load that keeps a QoS, but neither the study nor the workload has one\n  to do: add \
             --p99 10ms, or 'qos:'",
        );
    };
    if qos.operations.values().any(|limits| limits.len() > 1) {
        return mistake("a search takes one percentile per operation, but the QoS has several");
    }
    let base = study.load.base().clone();
    let operations = || workload.protocol.facts(&catalog::Tables).operations;
    let asked = asked(args);
    let usual = || Some(PeakPlan::usual(&base, operations())?.reaching(&asked));
    let Some(plan) = study.peak.take().or_else(usual) else {
        return mistake("the load of this study has no level to raise\n  to do: use 'open', 'users' or 'closed'");
    };
    let plan = plan.with(&asked);
    if let Some(why) = plan.mistake() {
        return mistake(&format!(
            "{why}\n  to do: choose --at-least <= --start <= --up-to, --hint between them, and --measure about 15s"
        ));
    }
    study.load = LoadProfile::Guided { of: Box::new(plan.highest(&base)), start: plan.start };
    (study.settle, study.measure) = (std::time::Duration::ZERO, plan.expected());
    study.peak = Some(plan);
    Ok(())
}

/// The search's arguments.
fn asked(args: &PeakArgs) -> PeakAsked {
    PeakAsked {
        rules: args.rules.map(|rules| match rules {
            PeakRulesArg::Staircase => PeakRules::Staircase,
            PeakRulesArg::Published => PeakRules::Published,
        }),
        start: args.start,
        at_least: args.at_least,
        at_most: args.up_to,
        hint: args.hint,
        warm: args.warm,
        settle: args.run.settle,
        window: args.run.measure,
        windows: args.windows,
        half_width: None,
        budget: args.budget,
    }
}

/// The command that repeats this search, without the seed, which callers add.
fn command(args: &PeakArgs) -> String {
    let mut text = "tare peak".to_owned();
    match &args.workload {
        Some(workload) => text += &format!(" --workload {workload}"),
        None => text += &format!(" {}", args.run.study),
    }
    let word = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    let options = [
        ("of", args.of.map(|of| word(&of))),
        ("p99", args.p99.map(typed_duration)),
        ("start", args.start.map(|level| level.to_string())),
        ("at-least", args.at_least.map(|level| level.to_string())),
        ("up-to", args.up_to.map(|level| level.to_string())),
        ("hint", args.hint.map(|level| level.to_string())),
        ("warm", args.warm.map(typed_duration)),
        ("windows", args.windows.map(|windows| windows.to_string())),
        ("budget", args.budget.map(typed_duration)),
        ("rules", args.rules.map(|rules| word(&rules))),
        ("measure", args.run.measure.map(typed_duration)),
        ("settle", args.run.settle.map(typed_duration)),
        ("at-most", args.run.at_most.map(typed_duration)),
        ("workloads", args.run.workloads.as_ref().map(|folder| folder.display().to_string())),
    ];
    for (name, value) in options {
        if let Some(value) = value {
            let _ = write!(text, " --{name} {value}");
        }
    }
    for name in &args.run.forms {
        let _ = write!(text, " --form {name}");
    }
    text
}
