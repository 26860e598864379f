//! Forms that get warm amid the slices of a chopped load, in words.

use tare_stats::{Analysis, Warming, percent_text};

/// A line for each that does so more or less than the baseline.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    let line = |found: &Warming| {
        let Warming { arm, more, interval, .. } = found;
        let [by, low, high] = [*more, interval.low, interval.high].map(|share| percent_text(share.abs()));
        let (low, high) = if *more > 0.0 { (low, high) } else { (high, low) };
        let (pace, truth) = if *more > 0.0 { ("faster", "higher") } else { ("slower", "lower") };
        format!(
            "{arm} gets {pace} amid its slices: from the first to the second halves of turns by {by} [{low}, {high}] more than \
             {}. Without rests its throughput is {truth}, by about half of that, or by more if it goes on for longer than a \
             slice. To do: longer slices ('design: {{chop: {{slice: 200ms}}}}'), or --design blocks",
            analysis.baseline
        )
    };
    analysis.warming.iter().filter(|found| found.matters).map(line).collect()
}
