//! How a load in steps was answered, level by level: what is shown of it, for every format.

use crate::page::{Ink, Page};
use crate::quantity::{digits, plain_quantity};
use tare_core::peak::level_text;
use tare_stats::{Analysis, Arm, Estimate, Interval, LevelMetric, LevelState, LoadResponse, percent_text};

/// What is shown where nothing is asked for.
const USUAL: [&str; 4] = ["throughput", "mean_us", "p99_us", "cpu_us_per_op"];

/// Columns of a level, with the blank before it.
const LEVEL: usize = 10;
/// Columns of a form, at least.
const FORM: usize = 17;

/// Those of the metrics of `wanted` that levels have figures of, or the usual ones.
pub(crate) fn shown<'a>(response: &'a LoadResponse, wanted: &[&str]) -> Vec<&'a LevelMetric> {
    let of = |names: &[&str]| names.iter().filter_map(|name| response.metric(name)).collect::<Vec<_>>();
    let asked = of(wanted);
    if asked.is_empty() { of(&USUAL) } else { asked }
}

/// The arms that have a line: those that were measured, less the A/A control.
pub(crate) fn arms(analysis: &Analysis) -> Vec<&Arm> {
    analysis.arms.iter().filter(|arm| !arm.control && arm.measured > 0).collect()
}

/// An arm's name above its figures.
fn heading(analysis: &Analysis, arm: &Arm) -> String {
    if analysis.emulated(arm) { format!("{} EMULATED", arm.name) } else { arm.name.clone() }
}

/// The title with the unit, where figures are told without one.
pub(crate) fn title(metric: &LevelMetric) -> String {
    if says_unit(&metric.unit) { metric.title.clone() } else { format!("{}, {}", metric.title, metric.unit) }
}

/// Whether figures of a unit are told with it: it changes with their size.
fn says_unit(unit: &str) -> bool {
    ["us", "share"].contains(&unit)
}

/// A figure of a metric.
pub(crate) fn figure(metric: &LevelMetric, estimate: &Estimate) -> String {
    let value = value(estimate);
    if says_unit(&metric.unit) { plain_quantity(value, &metric.unit) } else { digits(value) }
}

/// The figure of an estimate: the geometric mean, unless a value is zero.
pub(crate) fn value(estimate: &Estimate) -> f64 {
    estimate.geometric_mean.unwrap_or(estimate.mean)
}

/// Whether a level stands out: the QoS was broken there, or nothing was answered.
pub(crate) fn is_bad(state: &LevelState) -> bool {
    state.silent > 0 || state.qos.as_ref().is_some_and(|qos| qos.kept < qos.of)
}

/// `250 users`.
fn level(response: &LoadResponse, number: usize) -> String {
    format!("{} {}", level_text(response.levels[number]), response.of)
}

/// What to know about the levels, in sentences: what broke the QoS and where, what was left out, how far apart
/// identical forms lie.
pub(crate) fn notes(response: &LoadResponse, analysis: &Analysis, metrics: &[&LevelMetric]) -> Vec<String> {
    let mut notes: Vec<String> = arms(analysis).iter().flat_map(|arm| notes_of(response, &arm.name)).collect();
    for arm in analysis.arms.iter().filter(|arm| !arm.control && arm.measured == 0) {
        let why = arm.reasons.first().map_or_else(|| "not measured".to_owned(), |r| r.why.message.clone());
        notes.push(format!("{} has no figures: {why}", arm.name));
    }
    let emulated: Vec<&str> =
        arms(analysis).iter().filter(|arm| analysis.emulated(arm)).map(|arm| arm.name.as_str()).collect();
    if !emulated.is_empty() {
        notes.push(format!("EMULATED, no claim about the real thing: {}", emulated.join(", ")));
    }
    if metrics.iter().any(|metric| metric.name == "p99_us" && lacks_some(metric, response)) {
        notes.push("no p99 where a window had fewer than 1,000 answers, or times by operation only".to_owned());
    }
    let apart = metrics.iter().filter_map(|metric| {
        let apart = metric.equals_differ_by(&analysis.baseline, &analysis.control)?;
        Some(format!("{} in {}", percent_text(apart), metric.title))
    });
    let apart: Vec<String> = apart.collect();
    if !apart.is_empty() {
        let (baseline, apart) = (&analysis.baseline, apart.join(", "));
        notes.push(format!("at any level {baseline} and its identical copy differ by at most {apart}"));
    }
    notes
}

/// Whether an arm that answered at a level has no figure of a metric there.
fn lacks_some(metric: &LevelMetric, response: &LoadResponse) -> bool {
    let throughput = response.metric("throughput");
    let lacks = |level: usize, estimate: &Estimate| metric.estimate(&estimate.arm, level).is_none();
    throughput.is_some_and(|known| {
        known.levels.iter().enumerate().any(|(level, all)| all.iter().any(|estimate| lacks(level, estimate)))
    })
}

fn notes_of(response: &LoadResponse, arm: &str) -> Vec<String> {
    let states: Vec<(usize, &LevelState)> =
        (0..response.levels.len()).filter_map(|number| Some((number, response.state(arm, number)?))).collect();
    let of = |is: &dyn Fn(&LevelState) -> bool| -> Vec<String> {
        states.iter().filter(|(_, state)| is(state)).map(|(number, _)| level_text(response.levels[*number])).collect()
    };
    let mut notes = Vec::new();
    let broken = |state: &LevelState| state.qos.as_ref().is_some_and(|qos| qos.kept < qos.of);
    if let Some((number, state)) = states.iter().find(|(_, state)| broken(state))
        && let Some(qos) = &state.qos
    {
        let what = qos.broken.as_ref().map(|what| format!(": {}", crate::qos::broken(what))).unwrap_or_default();
        let (count, all) = (of(&broken).len(), states.len());
        notes.push(format!(
            "{arm} broke the QoS at {count} of {all} levels, first at {} in {} of {} trials{what}",
            level(response, *number),
            qos.of - qos.kept,
            qos.of
        ));
    }
    let at = |levels: &[String]| format!("{} {}", levels.join(", "), response.of);
    let silent = of(&|state| state.silent > 0);
    if !silent.is_empty() {
        notes.push(format!("{arm} answered nothing in some trial at {}", at(&silent)));
    }
    let limited = of(&|state| state.limited > 0);
    if !limited.is_empty() {
        notes.push(format!("{arm}: the generator may have been the limit in some trial at {}, left out", at(&limited)));
    }
    notes
}

/// Half the interval's width as a share of the figure, as `+-4 %`.
fn give_or_take(estimate: &Estimate) -> String {
    let width = |Interval { low, high }| format!(" +-{}", percent_text((high / low).sqrt() - 1.0).replace(' ', ""));
    estimate.interval.filter(|interval| interval.low > 0.0).map(width).unwrap_or_default()
}

/// The levels' part of a page for the terminal: of each metric a row a level and a column a form; the forms in several
/// turns, where there is no room for all of them side by side.
pub(crate) fn show(page: &mut Page, analysis: &Analysis, wanted: &[&str]) {
    let Some(response) = &analysis.response else { return };
    let metrics = shown(response, wanted);
    let arms = arms(analysis);
    let width = |arm: &Arm| (heading(analysis, arm).chars().count() + 2).max(FORM);
    page.blank();
    page.paragraph(0, 2, &format!("by level ({}): figures of each level alone", response.of), Ink::Bold);
    for metric in &metrics {
        let mut left = arms.as_slice();
        while !left.is_empty() {
            let mut used = LEVEL;
            let fits = left.iter().take_while(|arm| {
                used += width(arm);
                used <= page.style.width
            });
            let (now, later) = left.split_at(fits.count().max(1));
            let columns: Vec<Column> =
                now.iter().map(|arm| (arm.name.as_str(), heading(analysis, arm), width(arm))).collect();
            table(page, response, metric, &columns);
            left = later;
        }
    }
    for note in notes(response, analysis, &metrics) {
        page.paragraph(2, 4, &note, Ink::Dim);
    }
    if arms.iter().any(|arm| (0..response.levels.len()).any(|n| response.state(&arm.name, n).is_some_and(is_bad))) {
        page.paragraph(2, 4, "! broke the QoS, or answered nothing, in some trial", Ink::Dim);
    }
}

/// An arm, what stands above its column, and how wide that is.
type Column<'a> = (&'a str, String, usize);

fn table(page: &mut Page, response: &LoadResponse, metric: &LevelMetric, columns: &[Column<'_>]) {
    page.paragraph(0, 2, &title(metric), Ink::Plain);
    let heads = columns.iter().map(|(_, heading, width)| format!("{heading:>width$}"));
    page.line(&format!("{:>LEVEL$}{}", response.of, heads.collect::<String>()), Ink::Dim);
    for (number, level) in response.levels.iter().enumerate() {
        let cells = columns.iter().map(|(arm, _, width)| {
            let bad = if response.state(arm, number).is_some_and(is_bad) { "!" } else { "" };
            let estimate = metric.estimate(arm, number);
            let cell = estimate.map_or_else(|| "-".to_owned(), |e| figure(metric, e) + &give_or_take(e));
            format!("{:>width$}", cell + bad)
        });
        page.line(&format!("{:>LEVEL$}{}", level_text(*level), cells.collect::<String>()), Ink::Plain);
    }
}
