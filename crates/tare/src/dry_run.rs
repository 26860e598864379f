//! Describes what a run would do and how long it would take, without starting anything.

use crate::layers::layer_of_form;
use crate::outlook::{self, Outlook, Total};
use crate::places::{self, Places};
use crate::{images, machine};
use tare_core::design::FIRST_LOOK;
use tare_core::form::Form;
use tare_core::load::LoadOrigin;
use tare_core::peak::{PeakPlan, PeakRules, level_text};
use tare_core::plan::{blocks, plan, plan_profiles};
use tare_core::qos::Qos;
use tare_core::study::Study;
use tare_core::units::exact_duration;
use tare_core::workload::Workload;
use tare_report::{paragraph, whole};
use tare_runner::Pace;

/// A study or a workload by its name, with its question or description, if it has one.
pub(crate) fn named(what: &str, name: &str, about: &str) -> String {
    if about.is_empty() { format!("{what} {name}") } else { format!("{what} {name}: {about}") }
}

/// What a run would do, in lines of at most `width` columns.
pub(crate) fn dry_run(study: &Study, workload: &Workload, places: &Places, seed: u64, width: usize) -> String {
    let mut text = String::new();
    let mut say = |label: &str, hanging: usize, line: &str| text.push_str(&paragraph(label, hanging, line, width));
    let origin = match study.from {
        LoadOrigin::Outside => "a network namespace of its own",
        LoadOrigin::Host => "the host's loopback",
        LoadOrigin::Inside => "inside each form, by a tool on the service's CPUs",
    };
    say("", 2, &named("study", &study.name, &study.question));
    say("", 2, &named("workload", &workload.name, &workload.about));
    images::lines(workload).iter().for_each(|line| say("  ", 4, line));
    let generator = match study.from {
        LoadOrigin::Inside => String::new(),
        LoadOrigin::Outside | LoadOrigin::Host => format!(", CPUs {}", places.generator),
    };
    say("", 2, &format!("{}, from {origin}{generator}", study.load.describe()));
    say("", 2, &format!("services on CPUs {}; seed {seed}", places.service));
    let (settle, measure) = (exact_duration(study.settle), exact_duration(study.measure));
    match &study.peak {
        Some(plan) => search(plan, study.qos.as_ref()).iter().for_each(|line| say("", 2, line)),
        None => say("", 2, &format!("each trial: a fresh deployment, {settle} to settle, {measure} measured")),
    }
    say("", 2, &format!("design: {}", study.design.describe()));
    say("", 0, "");
    for form in &study.forms {
        let role = if form.name == study.baseline { "  (baseline)" } else { "" };
        let placed = places.forms.get(&form.name).filter(|_| study.placement.is_some() || form.placement.is_some());
        let placed = placed.map_or_else(String::new, |placed| format!("; {}", places::describe(placed)));
        say(&format!("  {:<20} ", form.name), 23, &format!("{}{placed}{}", machine::describe(form), whole(role)));
    }
    text
}

/// A search in words: the QoS, and what each trial does.
fn search(plan: &PeakPlan, qos: Option<&Qos>) -> [String; 2] {
    let kept = format!("searching for the greatest load that keeps: {}", qos.map(Qos::describe).unwrap_or_default());
    let (first, last, unit) = (level_text(plan.start), level_text(plan.at_most), &plan.unit);
    let trial = match plan.rules {
        PeakRules::Staircase => format!(
            "each trial: a fresh deployment; from {first} {unit} up to {last} at most, warm for {}, then {} windows of {} \
             around the peak, each after {} of settling",
            exact_duration(plan.warm),
            plan.windows,
            exact_duration(plan.window),
            exact_duration(plan.settle)
        ),
        PeakRules::Published => format!(
            "each trial: a fresh deployment, the published search in steps of {first} {unit} up to {last}, judged over \
             {}; no interval",
            exact_duration(plan.window)
        ),
    };
    [kept, trial]
}

/// What a run of a part would do, in lines of at most `width` columns; its trials and time are added to `all`.
pub(crate) fn describe_part(study: &Study, workload: &Workload, width: usize, all: &mut Total) -> String {
    let pace = outlook::pace(study, workload, None);
    let trials = plan(study, &pace.emulated(), 0);
    let outlook = Outlook::of(study, &trials, &pace);
    all.add(&outlook);
    let part = study.part.as_ref().map_or(&study.name, |part| &part.name);
    let chosen = study.parameters.iter().map(|(name, value)| format!("{name} {value}"));
    let chosen = chosen.fold(String::new(), |text, value| format!("{text}, {value}"));
    let load = match study.from {
        LoadOrigin::Inside => "a tool inside the form".to_owned(),
        LoadOrigin::Outside | LoadOrigin::Host => study.load.describe(),
    };
    let text = format!("workload {}{chosen}; {load}; {}", workload.name, outlook.amount());
    paragraph(&format!("  {part:<18} "), 21, &text, width)
}

/// The blocks of a run, how long they take, and what was shortened to make them fit.
pub(crate) fn outcome_of(
    study: &Study,
    pace: &Pace,
    seed: u64,
    fitted: Option<String>,
    foreseen: String,
    width: usize,
) -> String {
    let mut text = String::from("\n");
    let mut say = |label: &str, hanging: usize, line: &str| text.push_str(&paragraph(label, hanging, line, width));
    let trials = plan(study, &pace.emulated(), seed);
    let all = blocks(&trials);
    // A study that runs until its intervals are narrow may have many blocks; show the first ones.
    let shown = if study.design.ends_by_itself() { all.min(FIRST_LOOK) } else { all };
    for block in 0..shown {
        let arms: Vec<String> = trials.iter().filter(|trial| trial.block == block).map(|t| whole(&t.arm())).collect();
        say(&format!("block {}: ", block + 1), 9, &arms.join(", "));
    }
    if shown < all {
        say("", 9, &format!("and so on, up to block {all}"));
    }
    let profiled: Vec<String> = plan_profiles(study).iter().map(|trial| whole(&trial.form)).collect();
    if !profiled.is_empty() {
        say("profiled: ", 9, &profiled.join(", "));
    }
    let outlook = Outlook::of(study, &trials, pace);
    say("", 0, "");
    fitted.iter().for_each(|fitted| say("", 2, fitted));
    say("", 2, &outlook.describe());
    outlook::of_orders(study, pace, seed).iter().for_each(|text| say("", 2, text));
    outlook.too_short().iter().for_each(|warning| say("", 2, warning));
    let may_be_emulated = |form: &&Form| form.layers.iter().any(|used| layer_of_form(&used.layer).may_be_emulated());
    let unsure: Vec<String> = study.forms.iter().filter(may_be_emulated).map(|form| whole(&form.name)).collect();
    if !unsure.is_empty() {
        let emulated: Vec<String> = pace.emulated().iter().map(|form| whole(form)).collect();
        let known = if emulated.is_empty() {
            format!("the run will find out whether this machine emulates {}", unsure.join(" or "))
        } else {
            format!("emulated last time: {}", emulated.join(", "))
        };
        let blocks = match study.emulated_blocks {
            1 => "block".to_owned(),
            several => format!("{several} blocks"),
        };
        say("", 2, &format!("{known}; an emulated form takes part in the first {blocks} only"));
    }
    text += &foreseen;
    text + &paragraph("", 2, "Nothing was started.", width)
}
