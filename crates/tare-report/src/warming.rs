//! Forms that get warm amid the slices of a chopped load, in words.

use tare_stats::{Analysis, Warming, percent_text};

/// A line for each that does so more or less than the baseline.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    let line = |found: &Warming| {
        let Warming { arm, more, interval, .. } = found;
        let [by, low, high] = [*more, interval.low, interval.high].map(|share| percent_text(share.abs()));
        let (low, high) = if *more > 0.0 { (low, high) } else { (high, low) };
        let (pace, looks) = if *more > 0.0 { ("faster", "slower") } else { ("slower", "faster") };
        format!(
            "{arm} gets {pace} amid its slices: from the first halves of turns to the second ones by {by} [{low}, {high}] \
             more than {}. So its throughput looks {looks} than without rests, by half of that, or by more if it goes on for \
             longer than a slice. To do: give it longer slices ('design: {{chop: {{slice: 200ms}}}}'), or measure it with \
             --design blocks",
            analysis.baseline
        )
    };
    analysis.warming.iter().filter(|found| found.matters).map(line).collect()
}
