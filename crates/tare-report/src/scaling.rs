//! How throughput scales, form by form.

use crate::lines::{paragraph, whole};
use crate::quantity::{digits, plain_quantity};
use serde_json::Value;
use tare_core::fault::Fault;
use tare_stats::{Caution, FormScaling, LawFit, LevelRow, Parameter, Scaling, percent_text, ratio_text};

/// Columns of a level, and of its heading.
const LEVEL: usize = 11;

/// Says every form's speed-up, efficiency and law, in lines of at most `width` columns.
pub fn scaling_text(all: &[FormScaling], width: usize) -> String {
    let mut text = String::new();
    let mut say = |label: &str, hanging: usize, line: &str| text.push_str(&paragraph(label, hanging, line, width));
    for FormScaling { form, of, scaling } in all {
        let Scaling { levels, law, cautions, blocks, .. } = scaling;
        let blocks = if *blocks == 1 { "1 block".to_owned() } else { format!("{blocks} blocks") };
        say("", 2, &format!("{form}: throughput in op/s by {of}, {blocks}"));
        let level = if of.chars().count() > LEVEL { "level" } else { of.as_str() };
        let head =
            format!("  {level:>LEVEL$} {:>10}  {:20} {:20} {:>10}", "op/s", "speed-up", "efficiency", "by the law");
        say(&head, 0, "");
        levels.iter().for_each(|level| say(&row(level), 0, ""));
        for (label, line) in law.iter().filter(|law| law.fits).flat_map(|law| law_lines(law, of)) {
            say(&format!("  {label:15} "), 18, &line);
        }
        cautions.iter().for_each(|caution| say("  CAUTION ", 4, &words(caution)));
        say("", 0, "");
    }
    let note = "Speed-up is the throughput divided by that of the lowest level; efficiency is the speed-up divided by \
                how many times that level it is. The intervals of all levels hold together with 95 % probability. The \
                law explains and extrapolates; to find the maximum, search for the peak.";
    say("", 0, note);
    text
}

/// The same for programs: every sweep, its cautions as data and in words.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn scaling_json(all: &[FormScaling]) -> Result<Value, Fault> {
    let mut value = serde_json::to_value(all).map_err(|error| Fault::from_error("write JSON", &error))?;
    for (at, form) in all.iter().enumerate() {
        value[at]["scaling"]["cautions"] = form.scaling.cautions.iter().map(words).collect();
    }
    Ok(value)
}

fn words(caution: &Caution) -> String {
    match caution {
        Caution::LevelsApart => {
            "the levels were measured apart from each other: what the machine did meanwhile is in them".to_owned()
        }
        Caution::NoIntervals { blocks, needed } => {
            format!("no intervals: {blocks} block(s) with every level, {needed} needed")
        }
        Caution::LevelsLeftOut { levels } => format!("{levels} level(s) left out: measured in too few blocks"),
        Caution::BlocksLeftOut { blocks } => format!("{blocks} block(s) left out: a level is missing there"),
        Caution::TooFewLevels { levels, needed } => format!("no law fitted: {levels} level(s), {needed} needed"),
        Caution::NarrowRange { times, needed } => format!(
            "no law fitted: the highest level is {times:.1} times the lowest, {needed} times is needed to tell contention \
             from coherence"
        ),
        Caution::Undetermined => "no law fitted: the levels do not determine one".to_owned(),
        Caution::Misfit { off } => {
            let off = percent_text(*off);
            format!("the law does not describe these levels: one is {off} off; its coefficients mean nothing here")
        }
        Caution::FasterAtFirst => {
            "throughput grows faster than the level at first, which the law cannot describe".to_owned()
        }
        Caution::RecordsTogether { records, level, of } => format!(
            "{records} records with {level} {of}: their blocks count together, and what changed between the records is in \
             the spread of that level"
        ),
    }
}

fn row(row: &LevelRow) -> String {
    let speed_up = ratio_text(row.speed_up, row.speed_up_interval);
    let efficiency = ratio_text(row.efficiency, row.efficiency_interval);
    let throughput = digits(row.throughput);
    let fitted = row.fitted.map(digits).unwrap_or_default();
    format!("  {:>LEVEL$} {throughput:>10}  {speed_up:20} {efficiency:20} {fitted:>10}", row.level)
}

/// What each coefficient is called, and what it is.
fn law_lines(law: &LawFit, of: &str) -> Vec<(&'static str, String)> {
    let share = |parameter: &Parameter| {
        let interval =
            parameter.interval.map(|interval| format!(" [{}, {}]", small(interval.low), small(interval.high)));
        whole(&format!("{}{}", small(parameter.value), interval.unwrap_or_default()))
    };
    let contention = "(sigma: the share of the work that is done one after the other)";
    let mut lines = vec![
        ("one alone", plain_quantity(law.lambda.value, "op/s")),
        ("contention", format!("{} {contention}", share(&law.sigma))),
        ("coherence", format!("{} (kappa: what each pair costs to keep in step)", share(&law.kappa))),
        ("largest misfit", percent_text(law.misfit)),
    ];
    if let Some(bend @ Parameter { interval: Some(_), .. }) = &law.bend {
        lines.push(("bends over at", format!("{} {of}: beyond, throughput falls", share(bend))));
    }
    lines
}

/// Three significant digits, never in powers of ten.
fn small(value: f64) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    let decimals = (2 - value.log10().floor() as i32).clamp(0, 9) as usize;
    format!("{value:.decimals$}")
}
