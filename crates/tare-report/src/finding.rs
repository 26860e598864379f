//! What differences come from: findings in words.

use crate::contrast::{difference, figure};
use crate::lines::whole;
use crate::verdict::ratio_figure;
use serde::Serialize;
use tare_core::record::{NOT_COUNTED, Record};
use tare_stats::{Analysis, Confidence, Differs, Explanation, Figure, Finding};

/// Findings shown where there is little room.
const SAID: usize = 2;

/// Figures of a finding shown where there is little room.
const FIGURES: usize = 2;

/// An explanation for the page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) title: String,
    /// Whether the two forms differ in one feature only.
    pub(crate) one_feature: bool,
    pub(crate) findings: Vec<Item>,
}

/// A finding for the page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Item {
    pub(crate) says: String,
    pub(crate) confidence: &'static str,
    pub(crate) evidence: Vec<String>,
    /// Text, and in every second place what is to be typed.
    pub(crate) to_do: Vec<String>,
    pub(crate) method: String,
}

/// `container is slower than native: throughput 0.72 [0.67, 0.78] times`.
fn title(explanation: &Explanation) -> String {
    let Explanation { form, against, slower, differs, metric, ratio, bound, interval, .. } = explanation;
    let faster = if slower == form { against } else { form };
    let ratio = ratio_figure(*bound, *ratio, Some(*interval));
    let how = match differs {
        Differs::BeyondNoise => "is slower than",
        Differs::InEveryTrial => "is slower in every trial than",
        Differs::NotDetectably => "ran into a limit and is not detectably slower than",
        Differs::Withheld => "ran into a limit; this run cannot say whether it is slower than",
    };
    format!("{slower} {how} {faster}: {metric} of {form} {ratio} times")
}

/// How surely, in words.
fn confidence(finding: &Finding) -> &'static str {
    match finding.confidence {
        Confidence::Counted => "counted by the kernel",
        Confidence::Likely => "likely",
        Confidence::Hint => "perhaps",
    }
}

/// A figure with its difference and the interval of that.
fn with_interval(of: &Figure) -> String {
    let between = if of.apart { ", between any two trials" } else { "" };
    format!("{}: {}{between}", figure(of), difference(of))
}

/// `each request crosses the port proxy (counted by the kernel): CPU of port proxy per op 31.0 us instead of 0 us`.
fn sentence(finding: &Finding) -> String {
    let figures: Vec<String> = finding.evidence.iter().take(FIGURES).map(figure).collect();
    format!("{} ({}): {}", finding.says, confidence(finding), figures.join("; "))
}

/// What a variant without the cause does: `tested: with the host's network, throughput 3.26 [2.82, 3.90] times`.
fn tested(finding: &Finding) -> Option<String> {
    let tested = finding.tested.as_ref()?;
    let ratio = ratio_figure(tested.cost.bound, tested.cost.ratio, tested.cost.interval);
    Some(format!("tested: with {}, {} {ratio} times", tested.changes, tested.metric))
}

/// All explanations, for the page.
pub(crate) fn rows(analysis: &Analysis) -> Vec<Row> {
    let item = |finding: &Finding| Item {
        says: finding.says.clone(),
        confidence: confidence(finding),
        evidence: finding.evidence.iter().map(with_interval).chain(tested(finding)).collect(),
        to_do: finding.to_do.split('`').map(str::to_owned).collect(),
        method: finding.method.clone(),
    };
    let row = |explanation: &Explanation| Row {
        title: title(explanation),
        one_feature: explanation.one_feature,
        findings: explanation.findings.iter().map(item).collect(),
    };
    analysis.explanations.iter().map(row).collect()
}

/// What this machine did not count, so that no finding rests on it: what, why and how to get it.
pub(crate) fn not_counted(record: &Record) -> Vec<String> {
    let environment = record.header.environment.iter();
    environment.filter_map(|(key, why)| Some(format!("{}: {why}", key.strip_prefix(NOT_COUNTED)?))).collect()
}

/// What the cost of a rung comes from; nothing where no rule fits.
pub(crate) fn of_rung(analysis: &Analysis, form: &str) -> Option<String> {
    let explanation = analysis.explanations.iter().find(|explanation| explanation.form == form)?;
    explanation.findings.first().map(sentence)
}

/// The form that a line for the terminal is about.
fn subject(explanation: &Explanation) -> String {
    let Explanation { form, slower, differs, .. } = explanation;
    match differs {
        Differs::NotDetectably => format!("{slower}, not detectably slower"),
        Differs::Withheld => format!("{slower}, slower or not"),
        _ if slower == form => form.clone(),
        _ => format!("{form} is faster. {slower}"),
    }
}

/// Lines for the terminal: of each form that differs what it comes from, and what to do.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    let of = |explanation: &Explanation| {
        let of = subject(explanation);
        if explanation.findings.is_empty() {
            return vec![format!("{of}: no rule matches the counters; see the other differences")];
        }
        said(explanation).into_iter().map(|line| format!("{of}: {line}")).collect()
    };
    analysis.explanations.iter().flat_map(of).collect()
}

/// The first findings of an explanation, numbered where there are several.
fn said(explanation: &Explanation) -> Vec<String> {
    let findings = &explanation.findings;
    let mut lines = Vec::new();
    for (number, finding) in findings.iter().take(SAID).enumerate() {
        let order = if findings.len() > 1 { format!("{}. ", number + 1) } else { String::new() };
        let tested = tested(finding).map_or_else(String::new, |tested| format!("; {tested}"));
        lines.push(format!("{order}{}{tested}. To do: {}", sentence(finding), finding.to_do));
    }
    let more = findings.len().saturating_sub(SAID);
    if more > 0 {
        lines.push(format!("{more} more in the report"));
    }
    lines
}

/// Which command would try what findings suggest; nothing where they suggest no variant, or these were tried.
pub(crate) fn next(record: &Record, analysis: &Analysis) -> Option<String> {
    if analysis.advice.is_some() || analysis.ladder.is_some() {
        return None;
    }
    let forms = &record.header.study.forms;
    // A plain process that gets what it wants has nothing that could be otherwise.
    let has_variants = |name: &str| {
        forms.iter().any(|form| form.name == name && !(form.layers.is_empty() && form.resources.is_empty()))
    };
    let suggests = |explanation: &&Explanation| {
        has_variants(&explanation.slower) && explanation.findings.iter().any(|finding| !finding.variants.is_empty())
    };
    let form = &analysis.explanations.iter().find(suggests)?.slower;
    // `tare run STUDY ...`: the study as it was typed.
    let study = record.header.command.split(' ').nth(2).filter(|word| !word.starts_with('-'))?;
    Some(format!("To see what wins it back: {}", whole(&format!("tare advise {study} --form {form}"))))
}

/// What changed from one run to another: a line for the change, then one for each finding.
pub(crate) fn changed(explanation: &Explanation) -> Vec<String> {
    let Explanation { form, slower, metric, ratio, bound, interval, .. } = explanation;
    let ratio = ratio_figure(*bound, *ratio, Some(*interval));
    let mut lines = vec![format!("{form} was slower {slower}: {metric}, after / before, {ratio}")];
    if explanation.findings.is_empty() {
        lines.push("no rule matches the counters".to_owned());
    }
    lines.extend(said(explanation));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_stats::Interval;

    #[test]
    fn how_surely_two_forms_differ_is_said() {
        let said = |differs: Differs, slower: &str| {
            let explanation = Explanation {
                form: "small".into(),
                against: "plain".into(),
                slower: slower.into(),
                differs,
                metric: "throughput".into(),
                ratio: 0.9,
                bound: None,
                interval: Interval { low: 0.7, high: 1.1 },
                one_feature: false,
                findings: Vec::new(),
            };
            (title(&explanation), subject(&explanation))
        };
        let ratio = ratio_figure(None, 0.9, Some(Interval { low: 0.7, high: 1.1 }));
        let title = |how: &str| format!("small {how} plain: throughput of small {ratio} times");
        assert_eq!(said(Differs::BeyondNoise, "small"), (title("is slower than"), "small".to_owned()));
        assert_eq!(said(Differs::InEveryTrial, "small"), (title("is slower in every trial than"), "small".to_owned()));
        let limited =
            (title("ran into a limit and is not detectably slower than"), "small, not detectably slower".to_owned());
        assert_eq!(said(Differs::NotDetectably, "small"), limited);
        assert_eq!(said(Differs::BeyondNoise, "plain").1, "small is faster. plain");
    }
}
