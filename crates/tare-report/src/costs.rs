//! What each service costs in CPU time per operation: in words and tables, for every format.

use crate::page::{Ink, Page};
use crate::quantity::plain_quantity;
use crate::response::is_bad;
use tare_core::peak::level_text;
use tare_stats::{Analysis, ArmCosts, CostRatio, PartCost, Seen, ServiceCosts, ratio_text};

/// Columns of a part's name, and of a form at least.
const NAME: usize = 26;
const FORM: usize = 15;
/// So many parts are named in a sentence.
const TOLD: usize = 3;

/// The load at which costs are told first: the highest level at which no real form broke the QoS, else the lowest; of a
/// load that stays as it is, the one there is.
pub(crate) fn chosen(analysis: &Analysis) -> Option<&ServiceCosts> {
    let Some(response) = &analysis.response else { return analysis.costs.first() };
    let arms = || analysis.arms.iter().filter(|arm| !analysis.emulated(arm));
    let good = |costs: &&ServiceCosts| {
        let number = response.levels.iter().position(|level| Some(*level) == costs.level);
        number.is_some_and(|n| arms().all(|arm| response.state(&arm.name, n).is_none_or(|state| !is_bad(state))))
    };
    analysis.costs.iter().rfind(good).or(analysis.costs.first())
}

/// `at 750 users`; nothing of a load that stays as it is.
pub(crate) fn at(analysis: &Analysis, costs: &ServiceCosts) -> String {
    let of = analysis.response.as_ref().map_or("", |response| &response.of);
    costs.level.map(|level| format!("at {} {of}", level_text(level))).unwrap_or_default()
}

/// Of every form beside the baseline that has ratios, which services differ most: `container at 750 users: web takes
/// 1.62 [1.55, 1.69] times the CPU time it takes in native (+38.0 us per operation), app 1.06 [1.05, 1.07] times ...`.
pub(crate) fn sentences(analysis: &Analysis, costs: &ServiceCosts) -> Vec<String> {
    let is_told = |arm: &&ArmCosts| arm.arm != analysis.control && arm.arm != analysis.baseline;
    costs.arms.iter().filter(is_told).filter_map(|arm| sentence(analysis, costs, arm)).collect()
}

fn sentence(analysis: &Analysis, costs: &ServiceCosts, arm: &ArmCosts) -> Option<String> {
    let differing = arm.differing();
    let at = at(analysis, costs);
    let who = if at.is_empty() { arm.arm.clone() } else { format!("{} {at}", arm.arm) };
    let known = differing.iter().any(|(_, ratio)| ratio.interval.is_some());
    let clear: Vec<_> = differing.iter().filter(|(_, ratio)| ratio.is_clear() || !known).take(TOLD).collect();
    if differing.is_empty() {
        return None;
    }
    if clear.is_empty() {
        return Some(format!("{who}: no service differs from {} beyond chance", analysis.baseline));
    }
    let told = clear.iter().enumerate().map(|(number, (part, ratio))| {
        let of = if number == 0 { format!(" the CPU time it takes in {}", analysis.baseline) } else { String::new() };
        let verb = if number == 0 { "takes " } else { "" };
        let guest = if part.seen == Seen::Guest { ", as the guest counts" } else { "" };
        let ratio_words = ratio_text(ratio.ratio, ratio.interval);
        format!("{} {verb}{ratio_words} times{of} ({} per operation{guest})", part.name, difference(ratio))
    });
    Some(format!("{who}: {}", told.collect::<Vec<_>>().join(", ")))
}

/// `+38.0 us`.
pub(crate) fn difference(ratio: &CostRatio) -> String {
    let sign = if ratio.difference_us < 0.0 { "-" } else { "+" };
    format!("{sign}{}", plain_quantity(ratio.difference_us.abs(), "us"))
}

/// A part's name, with who counted it where that was not the host.
pub(crate) fn label(part: &PartCost) -> String {
    match part.seen {
        Seen::Host => part.name.clone(),
        Seen::Guest => format!("{} in its guest", part.name),
        Seen::Rest => format!("rest of {}", part.name),
    }
}

/// What is missing or must be known.
pub(crate) fn notes(analysis: &Analysis, costs: &ServiceCosts) -> Vec<String> {
    let mut notes = Vec::new();
    let parts = || costs.arms.iter().flat_map(|arm| arm.parts.iter().map(move |part| (arm, part)));
    if parts().any(|(_, part)| part.seen == Seen::Guest) {
        let text = "services in guests are shown as the guest counts them (in brackets); the rest is what their hypervisors \
                    used beyond that: the guest's kernel, devices and exits to the host";
        notes.push(text.to_owned());
    }
    let told = |name: &str| costs.arms.iter().any(|arm| arm.arm == name);
    let missing = analysis.arms.iter().filter(|arm| !arm.control && arm.measured > 0 && !told(&arm.name));
    let missing: Vec<&str> = missing.map(|arm| arm.name.as_str()).collect();
    if !missing.is_empty() {
        notes.push(format!("of {} the record has no CPU time by service", missing.join(", ")));
    }
    let baseline = costs.arms.iter().find(|arm| arm.arm == analysis.baseline);
    let alone = |arm: &ArmCosts, part: &PartCost| {
        let there = baseline.is_some_and(|baseline| baseline.parts.iter().any(|known| known.name == part.name));
        (!there && part.seen == Seen::Host).then(|| format!("{} of {}", part.name, arm.arm))
    };
    let alone: Vec<String> = parts().filter_map(|(arm, part)| alone(arm, part)).collect();
    if baseline.is_some() && !alone.is_empty() {
        notes.push(format!("{} has no counterpart in {}", alone.join(", "), analysis.baseline));
    }
    notes
}

/// The names of all parts, in the order in which the arms have them; a service stands once, whoever counted it.
pub(crate) fn parts(costs: &ServiceCosts) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in costs.arms.iter().flat_map(|arm| &arm.parts) {
        let name = row_of(part);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// In which row a part stands.
pub(crate) fn row_of(part: &PartCost) -> String {
    if part.seen == Seen::Rest { label(part) } else { part.name.clone() }
}

/// The services' part of a page for the terminal: at one load, the others are in the page and in JSON.
pub(crate) fn show(page: &mut Page, analysis: &Analysis) {
    let Some(costs) = chosen(analysis) else { return };
    page.blank();
    let at = at(analysis, costs);
    let more = if analysis.costs.len() > 1 { ", the highest level that kept the QoS" } else { "" };
    page.paragraph(0, 2, format!("CPU time per operation by service {at}{more}").trim_end(), Ink::Bold);
    for sentence in sentences(analysis, costs) {
        page.paragraph(0, 2, &sentence, Ink::Plain);
    }
    let arms: Vec<&ArmCosts> = costs.arms.iter().filter(|arm| arm.arm != analysis.control).collect();
    let mut left = arms.as_slice();
    let emulated = |arm: &ArmCosts| analysis.arms.iter().any(|a| a.name == arm.arm && analysis.emulated(a));
    let head = |arm: &ArmCosts| format!("{}{}", arm.arm, if emulated(arm) { " EMULATED" } else { "" });
    let width = |arm: &ArmCosts| (head(arm).chars().count() + 2).max(FORM);
    while !left.is_empty() {
        let mut used = NAME;
        let fits = left.iter().take_while(|arm| {
            used += width(arm);
            used <= page.style.width
        });
        let (now, later) = left.split_at(fits.count().max(1));
        table(page, costs, &now.iter().map(|arm| (*arm, head(arm), width(arm))).collect::<Vec<_>>());
        left = later;
    }
    for note in notes(analysis, costs) {
        page.paragraph(2, 4, &note, Ink::Dim);
    }
}

fn table(page: &mut Page, costs: &ServiceCosts, columns: &[(&ArmCosts, String, usize)]) {
    let heads: String = columns.iter().map(|(_, head, width)| format!("{head:>width$}")).collect();
    page.line(&format!("{:NAME$}{heads}", "per operation"), Ink::Dim);
    let us = |value: f64| plain_quantity(value, "us");
    for name in parts(costs) {
        let found: Vec<Option<&PartCost>> =
            columns.iter().map(|(arm, ..)| arm.parts.iter().find(|part| row_of(part) == name)).collect();
        if found.iter().all(Option::is_none) {
            continue;
        }
        let cells = columns.iter().zip(found).map(|((.., width), part)| {
            let mark = part.is_some_and(|part| part.seen == Seen::Guest);
            let cell = part.map_or_else(|| "-".to_owned(), |part| us(part.estimate.mean));
            format!("{:>width$}", if mark { format!("({cell})") } else { cell })
        });
        page.line(&format!("{name:NAME$}{}", cells.collect::<String>()), Ink::Plain);
    }
    let totals = columns.iter().map(|(arm, _, width)| format!("{:>width$}", us(arm.total_us())));
    page.line(&format!("{:NAME$}{}", "together", totals.collect::<String>()), Ink::Plain);
}
