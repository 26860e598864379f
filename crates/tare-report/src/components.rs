//! What ratios vary by, between deployments and within them, and with the speed of the machine, in words.

use crate::words;
use tare_stats::{Analysis, Components, MetricAnalysis, Ratio, percent_text};

/// A line for each ratio of which that is known.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    let of_metric = |metric: &MetricAnalysis| {
        let lines = metric.ratios.iter().filter_map(|ratio| Some(line(&ratio.arm, &metric.title, &ratio.parts?)));
        lines.collect::<Vec<_>>()
    };
    analysis.metrics.iter().flat_map(of_metric).collect()
}

/// A line for each ratio that follows the speed of the machine.
pub(crate) fn by_speed(analysis: &Analysis) -> Vec<String> {
    let ratios = analysis.metrics.iter().flat_map(|metric| metric.ratios.iter().map(move |ratio| (metric, ratio)));
    let line = |(metric, ratio): (&MetricAnalysis, &Ratio)| {
        Some(format!("{}, {}: {}", ratio.arm, metric.title, words::follows(analysis, ratio)?))
    };
    ratios.filter_map(line).collect()
}

/// `box, throughput: between deployments 0.3 %, rounds 0.2 %`. Rounds: what is left of them in the value of one
/// deployment.
fn line(arm: &str, metric: &str, parts: &Components) -> String {
    // A variance that is estimated to be nothing is often there, and small beside the other.
    let between = if parts.between > 0.0 { percent_text(parts.between) } else { "none detectable".to_owned() };
    format!("{arm}, {metric}: between deployments {between}, rounds {}", percent_text(parts.within))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_are_said() {
        let parts = Components { between: 0.003, within: 0.0021, standard_error: 0.001, degrees: 5.0 };
        assert_eq!(line("box", "throughput", &parts), "box, throughput: between deployments 0.3 %, rounds 0.2 %");
        let parts = Components { between: 0.0, ..parts };
        assert!(line("box", "p50", &parts).ends_with("between deployments none detectable, rounds 0.2 %"));
    }
}
