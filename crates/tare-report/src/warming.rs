//! Forms that get warm amid the slices of a chopped load, in words.

use tare_stats::{Analysis, Warming, percent_text};

/// A line for each that does so more or less than the baseline.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    let line = |found: &Warming| {
        let Warming { arm, own, of_baseline, more, interval, .. } = found;
        let change =
            |share: f64| format!("{} {}", percent_text(share.abs()), if share < 0.0 { "slower" } else { "faster" });
        let [low, high] = [interval.low, interval.high].map(|share| percent_text(share.abs()));
        let (low, high) = if *more > 0.0 { (low, high) } else { (high, low) };
        format!(
            "amid its slices {arm} gets {}, and {} {}: from the first to the second halves of turns, {low} to {high} apart. \
             Without rests the ratio of {arm}'s throughput is {}: by up to half of that if all is settled by the middle of a \
             turn, by more if not. To do: longer slices, or --design blocks",
            change(*own),
            analysis.baseline,
            change(*of_baseline),
            if *more > 0.0 { "higher" } else { "lower" },
        )
    };
    analysis.warming.iter().filter(|found| found.matters).map(line).collect()
}
