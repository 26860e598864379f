//! What a reader is told first: of each form what it costs, or why that is not known.

use crate::advice;
use crate::ladder;
use crate::verdict::VerdictWords;
use crate::words::{Headline, compared, ratio};
use tare_core::record::PEAK_LOAD;
use tare_stats::{Analysis, Arm, MetricAnalysis, Verdict};

/// One for each form, in the order of the study; of a ladder, the form that is climbed to and the rungs that matter; of
/// advice, the form that is varied and the variants that win something back.
pub(crate) fn headlines(analysis: &Analysis) -> Vec<Headline> {
    let ladder = analysis.ladder.as_ref();
    let advice = analysis.advice.as_ref();
    let is_told = |arm: &&Arm| {
        ladder.is_none_or(|ladder| ladder.to == arm.form) && advice.is_none_or(|advice| advice.of == arm.form)
    };
    let forms = analysis.forms().filter(|arm| !arm.baseline).filter(is_told);
    let rungs = ladder.map(|ladder| ladder::headlines(ladder, analysis)).unwrap_or_default();
    let variants = advice.map(|advice| advice::headlines(advice, analysis)).unwrap_or_default();
    forms.map(|arm| headline(analysis, arm)).chain(rungs).chain(variants).collect()
}

fn headline(analysis: &Analysis, arm: &Arm) -> Headline {
    let (name, baseline) = (&arm.name, &analysis.baseline);
    let alone = |sentence: String| Headline { sentence, rest: String::new() };
    // The first says what the load is about: its own metric, where it has one. A search for the peak measures nothing
    // else.
    let (metric, verb, what) = match compared(analysis).next() {
        Some(metric) if metric.name == PEAK_LOAD => (PEAK_LOAD, "carries", "peak load"),
        Some(metric) if metric.name != "throughput" => (metric.name.as_str(), "has", metric.title.as_str()),
        _ => ("throughput", "serves", "operations per second"),
    };
    let of_metric = analysis.metrics.iter().find(|known| known.name == metric);
    let Some((of_metric, throughput)) = of_metric.zip(ratio(analysis, metric, name)) else {
        let why = arm.reasons.first();
        let why =
            why.map_or_else(|| "no trial was measured together with the baseline".into(), |r| r.why.message.clone());
        return alone(format!("{name} was not measured: {why}."));
    };
    let figure = throughput.text();
    if analysis.emulated(arm) {
        let who = if arm.emulated.is_some() { name } else { &format!("{baseline}, the baseline of {name},") };
        return alone(format!(
            "{who} ran EMULATED: {figure} times {baseline}'s {what}, which is no claim about the real thing."
        ));
    }
    let sentence = match throughput.verdict {
        Verdict::Better | Verdict::Worse => {
            format!("{name} {verb} {figure} times {baseline}'s {what}.")
        }
        _ => format!("{name}, {what}: {}.", VerdictWords::of(analysis, of_metric, throughput).whole()),
    };
    let rest: Vec<String> = compared(analysis).skip(1).filter_map(|metric| clause(metric, name)).collect();
    let rest = if rest.is_empty() { String::new() } else { format!("Also different: {}.", rest.join(", ")) };
    Headline { sentence, rest }
}

/// What else is certain: `p99 1.40 [1.27, 1.55] times`.
fn clause(metric: &MetricAnalysis, arm: &str) -> Option<String> {
    let ratio = metric.ratios.iter().find(|ratio| ratio.arm == arm)?;
    let certain = matches!(ratio.verdict, Verdict::Better | Verdict::Worse);
    certain.then(|| format!("{} {} times", metric.title, ratio.text()))
}
