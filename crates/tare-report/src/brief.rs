//! The terminal in brief: what a reader wants in the first ten seconds. A line for each form, a sentence for each that
//! a colleague would say aloud, and what speaks against believing them. Everything else is in the whole report.

use crate::finding;
use crate::lines::clean;
use crate::page::{Ink, Page, verdict_ink};
use crate::verdict::{VerdictWords, Way};
use crate::warnings;
use crate::words::{self, outcome};
use tare_core::fault::Fault;
use tare_core::record::Record;
use tare_stats::{
    Analysis, Arm, Confidence, Differs, Explanation, Interval, MetricAnalysis, Ratio, Verdict, percent_at_most,
    percent_text,
};

/// Metrics that are shown, the first with its interval.
const METRICS: usize = 4;
/// Narrower pages have no interval.
const WITH_INTERVAL: usize = 60;
/// Blanks between columns.
const GAP: usize = 2;

/// Whether a record has nothing but forms to be compared: ladders, advice, searches and steps are what their own
/// sections say.
pub(crate) fn is_enough(record: &Record, analysis: &Analysis) -> bool {
    let sections = analysis.ladder.is_some()
        || analysis.advice.is_some()
        || analysis.response.is_some()
        || record.header.study.peak.is_some();
    !sections && analysis.profiles.is_empty() && analysis.scale_out.is_empty()
}

/// The whole page.
pub(crate) fn show(page: &mut Page, record: &Record, analysis: &Analysis) {
    heading(page, record);
    page.blank();
    table(page, analysis);
    page.blank();
    for arm in analysis.forms().filter(|arm| !arm.baseline && arm.emulated.is_none()) {
        let sentence = sentence(analysis, arm);
        page.paragraph(0, 2, &format!("{}: {sentence}", arm.name), Ink::Plain);
    }
    for (why, names) in emulated(analysis) {
        let text = format!("{}: EMULATED, which says nothing about the real thing. To do: {}", names, why.remedy);
        page.paragraph(0, 2, &text, Ink::Dim);
    }
    for arm in &analysis.arms {
        for reason in &arm.reasons {
            page.paragraph(0, 2, &format!("{}: {}", arm.name, outcome(reason)), Ink::Warning);
        }
        if let Some(qos) = arm.qos.as_ref().filter(|qos| qos.kept < qos.of) {
            page.paragraph(0, 2, &format!("{}: {}", arm.name, words::qos(qos)), Ink::Warning);
        }
    }
    page.paragraph(0, 2, &scale(analysis), Ink::Dim);
    if let Some(text) = words::these_deployments(analysis) {
        page.paragraph(0, 2, &text, Ink::Dim);
    }
    if let Some(missed) = words::missed_aim(analysis) {
        page.paragraph(0, 2, &format!("precision: {missed}"), Ink::Dim);
    }
    for (text, certain) in crate::failures::lines(analysis) {
        page.paragraph(0, 2, &text, if certain { Ink::Warning } else { Ink::Plain });
    }
    if let Some(text) = finding::next(record, analysis) {
        page.paragraph(0, 2, &text, Ink::Plain);
    }
    if let Some(text) = crate::warming::slight(analysis) {
        page.paragraph(0, 2, &text, Ink::Dim);
    }
    for warning in warnings::grave(analysis) {
        page.paragraph(0, 2, &format!("WARNING: {warning}"), Ink::Warning);
    }
}

/// What both pages begin with: what was asked, of what, how and where.
pub(crate) fn heading(page: &mut Page, record: &Record) {
    let header = &record.header;
    page.paragraph(0, 2, &format!("{}: {}", header.study.name, header.study.question), Ink::Bold);
    page.paragraph(0, 2, &format!("{}; {}", header.workload.name, words::load(record)), Ink::Plain);
    page.paragraph(0, 2, &words::design(record), Ink::Plain);
    page.paragraph(0, 2, &words::machine(record), Ink::Plain);
    let started = header.started.split('.').next().unwrap_or_default().trim_end_matches('Z').replace('T', " ");
    page.paragraph(
        0,
        2,
        &format!("run {}, {started} UTC, tare {}, seed {}", header.run, header.tare, header.seed),
        Ink::Dim,
    );
}

/// A sentence for each form that the study asks about, its name before it: `container: 35 % fewer operations`.
pub(crate) fn sentences(analysis: &Analysis) -> impl Iterator<Item = String> {
    analysis.forms().filter(|arm| !arm.baseline).map(|arm| format!("{}: {}", arm.name, sentence(analysis, arm)))
}

/// A cell and its ink.
type Cell = (String, Ink);

fn table(page: &mut Page, analysis: &Analysis) {
    let metrics: Vec<&MetricAnalysis> = words::compared(analysis).take(METRICS).collect();
    let mut rows = vec![head(&metrics)];
    let arms = analysis.forms();
    rows.extend(arms.map(|arm| {
        if arm.baseline { of_baseline(arm, &metrics) } else { of_form(analysis, arm, &metrics, page.style.width) }
    }));
    // What does not fit is left out, but never the first metric nor the verdict.
    while width(&rows) > page.style.width && rows[0].len() > 3 {
        rows.iter_mut().for_each(|row| _ = row.remove(row.len() - 2));
    }
    let widths: Vec<usize> = widths(&rows);
    for row in &rows {
        let mut line = String::new();
        let mut column = 0;
        let mut start = 0;
        for ((cell, ink), width) in row.iter().zip(&widths) {
            if !cell.is_empty() {
                line.push_str(&" ".repeat(start - column));
                line.push_str(&page.ink(cell, *ink));
                column = start + cell.chars().count();
            }
            start += width + GAP;
        }
        page.text.push_str(line.trim_end());
        page.text.push('\n');
    }
}

fn widths(rows: &[Vec<Cell>]) -> Vec<usize> {
    let longest = |at: usize| rows.iter().map(|row| row[at].0.chars().count()).max().unwrap_or(0);
    (0..rows[0].len()).map(longest).collect()
}

fn width(rows: &[Vec<Cell>]) -> usize {
    let widths = widths(rows);
    widths.iter().sum::<usize>() + GAP * (widths.len() - 1)
}

fn head(metrics: &[&MetricAnalysis]) -> Vec<Cell> {
    let title = |metric: &&MetricAnalysis| (metric.title.replace(" per ", "/"), Ink::Dim);
    [
        vec![("ratio to baseline".to_owned(), Ink::Dim)],
        metrics.iter().map(title).collect(),
        vec![(String::new(), Ink::Dim)],
    ]
    .concat()
}

fn of_baseline(arm: &Arm, metrics: &[&MetricAnalysis]) -> Vec<Cell> {
    let value = |metric: &&MetricAnalysis| (words::level(metric, &arm.name), Ink::Plain);
    let name = vec![(clean(&arm.name), Ink::Bold)];
    [name, metrics.iter().map(value).collect(), vec![("baseline".to_owned(), Ink::Dim)]].concat()
}

fn of_form(analysis: &Analysis, arm: &Arm, metrics: &[&MetricAnalysis], width: usize) -> Vec<Cell> {
    let ratios: Vec<Option<&Ratio>> = metrics.iter().map(|metric| of(metric, arm)).collect();
    let cell = |(at, ratio): (usize, &Option<&Ratio>)| {
        let with_interval = at == 0 && width >= WITH_INTERVAL;
        let Some(ratio) = ratio else { return ("-".to_owned(), Ink::Dim) };
        let text = ratio.text();
        let text = if with_interval { text.as_str() } else { text.split(" [").next().unwrap_or_default() };
        (text.to_owned(), verdict_ink(ratio.verdict))
    };
    let verdict = match ratios.first().copied().flatten() {
        Some(ratio) => verdict(metrics[0], ratio, analysis),
        None => arm.reasons.first().map_or("not measured".to_owned(), |reason| reason.outcome.to_uppercase()),
    };
    let ink = ratios.first().copied().flatten().map_or(Ink::Warning, |ratio| verdict_ink(ratio.verdict));
    let name = vec![(clean(&arm.name), Ink::Bold)];
    [name, ratios.iter().enumerate().map(cell).collect(), vec![(verdict, ink)]].concat()
}

fn of<'a>(metric: &'a MetricAnalysis, arm: &Arm) -> Option<&'a Ratio> {
    metric.ratios.iter().find(|ratio| ratio.arm == arm.name)
}

/// In four words at most.
fn verdict(metric: &MetricAnalysis, ratio: &Ratio, analysis: &Analysis) -> String {
    match ratio.verdict {
        Verdict::Better | Verdict::Worse => VerdictWords::of(analysis, metric, ratio).verdict(),
        Verdict::Equivalent => format!("equal within {}", percent_text(analysis.margin)),
        Verdict::NoDifference => "no difference".to_owned(),
        Verdict::WithinNoise => "within noise".to_owned(),
        Verdict::TooFewBlocks => "too few blocks".to_owned(),
        Verdict::Withheld => "withheld".to_owned(),
        Verdict::NoNoiseFloor => "no noise floor".to_owned(),
        Verdict::Emulated => "EMULATED".to_owned(),
    }
}

/// `35 % fewer operations, 55 % more CPU each, p50 53 % longer; each packet crosses more interfaces (likely)`.
fn sentence(analysis: &Analysis, arm: &Arm) -> String {
    let mut parts = Vec::new();
    for (at, metric) in words::compared(analysis).enumerate() {
        let Some(ratio) = of(metric, arm) else { continue };
        let said = VerdictWords::of(analysis, metric, ratio);
        match said.way() {
            Some(way) => {
                // With a verdict left, a bound lies nearer to 1 than the truth.
                let least = if ratio.bound.is_some() { "at least " } else { "" };
                parts.push(change(way, metric, ratio.ratio, least) + &said.negligible());
            }
            // What was looked for first is told whatever it came to.
            None if at == 0 => parts.push(undecided(said, metric, ratio)),
            None => {}
        }
    }
    if parts.is_empty() {
        return "not measured together with the baseline".to_owned();
    }
    let explanation = analysis.explanations.iter().find(|explanation| explanation.form == arm.name);
    format!("{}{}", parts.join(", "), explanation.and_then(cause).unwrap_or_default())
}

/// What a difference comes from, said of whom it slows.
fn cause(explanation: &Explanation) -> Option<String> {
    let finding = explanation.findings.first()?;
    let surely = match finding.confidence {
        Confidence::Counted => "",
        Confidence::Likely => " (likely)",
        Confidence::Hint => " (perhaps)",
    };
    let Explanation { form, slower, differs, .. } = explanation;
    let whom = match differs {
        _ if slower != form => format!("{slower}: "),
        Differs::BeyondNoise => String::new(),
        Differs::InEveryTrial => "slower in every trial: ".to_owned(),
        Differs::NotDetectably | Differs::Withheld => "yet ".to_owned(),
    };
    Some(format!("; {whom}{}{surely}", finding.says))
}

/// A difference that is certain, as one says it; `least` stands before its figure, and is nothing or "at least ".
fn change(way: Way, metric: &MetricAnalysis, ratio: f64, least: &str) -> String {
    let (up, times) = (ratio > 1.0, ratio >= 2.0);
    let (share, ratio) = (format!("{least}{}", percent(ratio)), format!("{least}{ratio:.1}"));
    match way {
        Way::Rate if times => format!("{ratio} times the operations"),
        Way::Rate => format!("{share} {} operations", if up { "more" } else { "fewer" }),
        Way::Load if times => format!("carries {ratio} times the load"),
        Way::Load => format!("carries {share} {}", if up { "more" } else { "less" }),
        Way::Cost { .. } if times => format!("{ratio} times the CPU each"),
        Way::Cost { .. } => format!("{share} {} CPU each", if up { "more" } else { "less" }),
        Way::Time if times => format!("{} {ratio} times as long", metric.title),
        Way::Time => format!("{} {share} {}", metric.title, if up { "longer" } else { "shorter" }),
        Way::Other => format!("{} {share} {}", metric.title, if up { "more" } else { "less" }),
    }
}

/// How far a ratio is from 1.
fn percent(ratio: f64) -> String {
    percent_text((ratio - 1.0).abs())
}

/// What may be said where nothing is certain.
fn undecided(said: VerdictWords, metric: &MetricAnalysis, ratio: &Ratio) -> String {
    match ratio.verdict {
        Verdict::Equivalent | Verdict::NoDifference => {
            // Equals differ by the floor, so no less than that is seen. Stalls that decide leave no measure where there
            // are trimmed ratios, nor do slices of which nobody knows whether they are long enough.
            let floor = metric.noise_floor.unwrap_or(0.0);
            let furthest = |Interval { low, high }: Interval| (1.0 - low).abs().max((high - 1.0).abs()).max(floor);
            let still = ratio.still.map_or(0.0, |still| still.share);
            let left = ratio.cold.map_or(Some(0.0), |cold| cold.share).map(|left| left + still);
            let measured = ratio.interval.filter(|_| !ratio.trimming_differs).zip(left);
            let smaller = measured.map(|(interval, left)| percent_at_most(furthest(interval) + left));
            let smaller = smaller.map(|share| format!(" (smaller than {share})")).unwrap_or_default();
            format!("no difference{smaller}")
        }
        Verdict::WithinNoise => {
            let floor = percent_at_most(metric.noise_floor.unwrap_or(f64::NAN));
            format!(
                "{} looks {} off, but identical forms differ by up to {floor} here",
                metric.title,
                percent(ratio.ratio)
            )
        }
        _ => said.verdict(),
    }
}

/// Each reason for emulation, and the forms that have it.
fn emulated(analysis: &Analysis) -> Vec<(&Fault, String)> {
    let mut reasons: Vec<(&Fault, String)> = Vec::new();
    for arm in analysis.forms() {
        let Some(why) = &arm.emulated else { continue };
        match reasons.iter_mut().find(|(known, _)| known.remedy == why.remedy) {
            Some((_, names)) => names.push_str(&format!(", {}", arm.name)),
            None => reasons.push((why, arm.name.clone())),
        }
    }
    reasons
}

/// What this run could have seen.
fn scale(analysis: &Analysis) -> String {
    let floors: Vec<String> = words::compared(analysis)
        .filter_map(|metric| {
            let floor = percent_at_most(metric.noise_floor?);
            let differs = if metric.control_differs { " (DIFFERS)" } else { "" };
            Some(format!("{floor} in {}{differs}", metric.title))
        })
        .collect();
    let known = crate::ruler::line(analysis).map(|(line, _)| format!("known weight: {line}; ")).unwrap_or_default();
    if floors.is_empty() {
        return format!("{known}noise floor: no A/A control was measured often enough, so there are no verdicts");
    }
    format!("{known}noise floor: {} and its identical copy differ by at most {}", analysis.baseline, floors.join(", "))
}
