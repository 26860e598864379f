//! What ratios vary by, between deployments and within them, in words.

use tare_stats::{Analysis, Components, MetricAnalysis, percent_text};

/// A line for each ratio of which that is known.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    let of_metric = |metric: &MetricAnalysis| {
        let lines = metric.ratios.iter().filter_map(|ratio| Some(line(&ratio.arm, &metric.title, &ratio.parts?)));
        lines.collect::<Vec<_>>()
    };
    analysis.metrics.iter().flat_map(of_metric).collect()
}

/// `box, throughput: between deployments 0.3 %, rounds 0.2 %`. Rounds: what is left of them in the value of one
/// deployment.
fn line(arm: &str, metric: &str, parts: &Components) -> String {
    let (between, within) = (percent_text(parts.between), percent_text(parts.within));
    format!("{arm}, {metric}: between deployments {between}, rounds {within}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_are_said() {
        let parts = Components { between: 0.003, within: 0.0021, standard_error: 0.001, degrees: 5.0 };
        assert_eq!(line("box", "throughput", &parts), "box, throughput: between deployments 0.3 %, rounds 0.2 %");
    }
}
