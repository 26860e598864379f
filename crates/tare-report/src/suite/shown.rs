//! What is shown of each part: which metrics, and of every form its ratio, or why there is none.

use super::AnalysedPart;
use crate::verdict::VerdictWords;
use crate::words;
use tare_core::record::{Record, SuiteHeader};
use tare_core::study::Published;
use tare_stats::{Analysis, Arm, MetricAnalysis, Ratio, Reason, percent_at_most};

/// A part, as it is shown.
pub(super) struct ShownPart<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// The heading that it stands under.
    pub(super) panel: &'a str,
    pub(super) record: &'a Record,
    pub(super) analysis: &'a Analysis,
    /// What others have published of the same.
    pub(super) published: Option<&'a Published>,
    /// The metrics that are shown.
    pub(super) metrics: Vec<&'a MetricAnalysis>,
    /// The names of those that are to be shown.
    pub(super) wanted: Vec<&'a str>,
    /// Names among those to be shown that no metric has.
    unknown: Vec<&'a str>,
}

/// One form in one metric.
pub(super) struct Row<'a> {
    pub(super) arm: &'a Arm,
    pub(super) ratio: Option<&'a Ratio>,
    /// The geometric mean of its trials.
    pub(super) value: Option<f64>,
    /// Of a time: `+9.3 \u{b5}s [8.1, 10.4]`.
    pub(super) difference: Option<String>,
    /// The verdict in words, or why there is no ratio.
    pub(super) verdict: String,
    /// Whether there is no verdict because too little was measured, as of many rows.
    pub(super) missing: bool,
    /// What others have published.
    pub(super) published: Option<&'a str>,
}

/// All parts, in their order.
pub(super) fn shown<'a>(parts: &'a [AnalysedPart<'a>]) -> Vec<ShownPart<'a>> {
    parts.iter().map(|(record, analysis)| ShownPart::of(record, analysis)).collect()
}

/// The parts by panel, panels in the order of their first part.
pub(super) fn panels<'p, 'a>(parts: &'p [ShownPart<'a>]) -> Vec<(&'a str, Vec<&'p ShownPart<'a>>)> {
    let mut panels: Vec<(&str, Vec<&ShownPart<'_>>)> = Vec::new();
    for part in parts {
        match panels.iter_mut().find(|(name, _)| *name == part.panel) {
            Some((_, parts)) => parts.push(part),
            None => panels.push((part.panel, vec![part])),
        }
    }
    panels
}

/// The forms beside the baseline, in the order in which the parts name them.
pub(super) fn forms<'a>(parts: &[ShownPart<'a>]) -> Vec<&'a str> {
    let mut forms: Vec<&str> = Vec::new();
    for arm in parts.iter().flat_map(|part| &part.analysis.arms).filter(|arm| !arm.baseline && !arm.control) {
        if !forms.contains(&arm.name.as_str()) {
            forms.push(&arm.name);
        }
    }
    forms
}

/// Where the published figures of these parts stand, each source once.
pub(super) fn published_sources<'a>(parts: &[&ShownPart<'a>]) -> Vec<&'a str> {
    let mut sources: Vec<&str> = Vec::new();
    for published in parts.iter().filter_map(|part| part.published) {
        if !sources.contains(&published.from.as_str()) {
            sources.push(&published.from);
        }
    }
    sources
}

/// What a reader must know of the study as a whole.
pub(super) fn warnings(header: &SuiteHeader, parts: &[ShownPart<'_>]) -> Vec<String> {
    let begun = |name: &&String| parts.iter().any(|part| part.name == name.as_str());
    let missing = header.parts.iter().filter(|name| !begun(name));
    let missing = missing.map(|name| format!("part {name} was not begun"));
    let unknown = parts.iter().flat_map(|part| {
        let known = || part.analysis.metrics.iter().map(|metric| metric.name.as_str()).collect::<Vec<_>>().join(", ");
        part.unknown.iter().map(move |name| {
            format!("part {} has no metric {name}, which was to be shown; it has {}", part.name, known())
        })
    });
    missing.chain(unknown).collect()
}

impl<'a> ShownPart<'a> {
    fn of(record: &'a Record, analysis: &'a Analysis) -> ShownPart<'a> {
        let header = &record.header;
        let part = header.study.part.as_ref();
        let wanted: Vec<&str> = match part.map(|part| part.shows.as_slice()) {
            Some(shows) if !shows.is_empty() => shows.iter().map(String::as_str).collect(),
            _ if header.workload.protocol.metrics.is_empty() || header.study.peak.is_some() => {
                vec![header.deciding_metric()]
            }
            _ => header.workload.protocol.metrics.iter().map(|metric| metric.name.as_str()).collect(),
        };
        let find = |name: &&str| analysis.metrics.iter().find(|metric| metric.name == **name);
        ShownPart {
            name: part.map_or(&header.workload.name, |part| &part.name),
            panel: part.map_or(&header.workload.name, |part| &part.panel),
            record,
            analysis,
            published: part.and_then(|part| part.published.as_ref()),
            metrics: wanted.iter().filter_map(find).collect(),
            wanted: wanted.clone(),
            unknown: wanted.iter().copied().filter(|name| find(name).is_none()).collect(),
        }
    }

    /// What a metric is called where the part stands among others of its panel.
    pub(super) fn label(&self, metric: &MetricAnalysis, among: usize) -> String {
        if among > 1 { format!("{} {}", self.name, metric.title) } else { metric.title.clone() }
    }

    /// The same above figures of whole trials, which of a load in steps are of all its levels.
    pub(super) fn heading(&self, metric: &MetricAnalysis, among: usize) -> String {
        let label = self.label(metric, among);
        if self.analysis.response.is_some() { format!("{label} over all levels together") } else { label }
    }

    /// How its trials ended: `25 of 30 measured, 3 failed, 2 skipped`.
    pub(super) fn counts(&self) -> String {
        let arms = &self.analysis.arms;
        let sum = |count: fn(&Arm) -> u32| arms.iter().map(count).sum::<u32>();
        let others = [
            (sum(|arm| arm.invalid), "invalid"),
            (sum(|arm| arm.failed), "failed"),
            (sum(|arm| arm.skipped), "skipped"),
        ];
        let others = others.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!(", {count} {word}"));
        format!("{} of {} measured{}", sum(|arm| arm.measured), sum(|arm| arm.planned), others.collect::<String>())
    }

    /// The baseline's value of a metric.
    pub(super) fn base(&self, metric: &MetricAnalysis) -> Option<f64> {
        value(metric, &self.analysis.baseline)
    }

    /// A row for every arm but the baseline.
    pub(super) fn rows(&self, metric: &'a MetricAnalysis) -> Vec<Row<'a>> {
        self.analysis.arms.iter().filter(|arm| !arm.baseline).map(|arm| self.row(metric, arm)).collect()
    }

    fn row(&self, metric: &'a MetricAnalysis, arm: &'a Arm) -> Row<'a> {
        let ratio = metric.ratios.iter().find(|ratio| ratio.arm == arm.name);
        let words = ratio.map(|ratio| VerdictWords::of(self.analysis, metric, ratio));
        let of_control = control_words(metric).filter(|_| arm.control);
        let missing = of_control.is_none() && words.is_some_and(VerdictWords::is_missing);
        let verdict = match words {
            // The figures stand beside it.
            Some(words) => of_control.unwrap_or_else(|| words.beside_figures()),
            None => self.why_none(metric, arm),
        };
        Row {
            arm,
            ratio,
            value: value(metric, &arm.name),
            difference: words::difference(self.analysis, metric, &arm.name),
            verdict,
            missing,
            published: self.published(metric, &arm.name),
        }
    }

    /// What others have published of a form in a metric.
    pub(super) fn published(&self, metric: &MetricAnalysis, form: &str) -> Option<&'a str> {
        self.published?.figures.get(&metric.name)?.get(form).map(String::as_str)
    }

    /// Why a form has no ratio.
    fn why_none(&self, metric: &MetricAnalysis, arm: &Arm) -> String {
        let first = |arm: &Arm| arm.reasons.first().map(reason_words);
        let baseline = self.analysis.arms.iter().find(|arm| arm.baseline).filter(|arm| arm.measured == 0);
        match (value(metric, &arm.name), baseline.and_then(first)) {
            (Some(_), _) if !metric.compared => "shown only, not compared".to_owned(),
            (Some(_), Some(why)) => format!("no ratio, the baseline was not measured: {why}"),
            (Some(_), None) => "no ratio: no block has both it and the baseline".to_owned(),
            (None, _) if arm.measured > 0 => "measured, but without this figure".to_owned(),
            (None, _) => first(arm).unwrap_or_else(|| "not measured".to_owned()),
        }
    }
}

fn value(metric: &MetricAnalysis, arm: &str) -> Option<f64> {
    let estimate = metric.estimates.iter().find(|estimate| estimate.arm == arm)?;
    Some(estimate.geometric_mean.unwrap_or(estimate.mean))
}

/// `FAILED in deploy: it ended before it was ready`.
pub(super) fn reason_words(reason: &Reason) -> String {
    let stage = reason.stage.map(|stage| format!(" in {stage}")).unwrap_or_default();
    format!("{}{stage}: {}", reason.outcome.to_uppercase(), reason.why.message)
}

/// What is said of the A/A control; none where it has no noise floor.
fn control_words(metric: &MetricAnalysis) -> Option<String> {
    match (metric.noise_floor, metric.control_differs) {
        (_, true) => Some("the A/A control DIFFERS: no verdicts".to_owned()),
        (floor, _) => floor.map(|floor| format!("A/A control: noise floor {}", percent_at_most(floor))),
    }
}
