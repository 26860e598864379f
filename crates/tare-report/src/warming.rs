//! Forms that get warm amid the slices of a chopped load, or amid their deployments, in words.

use tare_stats::{Analysis, Warming, percent_text};

/// A line for each that does so more or less than the baseline.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    let matter = |all: &[Warming], line: &dyn Fn(&Warming, &str) -> String| -> Vec<String> {
        all.iter().filter(|found| found.matters).map(|found| line(found, &analysis.baseline)).collect()
    };
    [matter(&analysis.warming, &amid_slices), matter(&analysis.settling, &amid_deployments)].concat()
}

fn amid_slices(found: &Warming, baseline: &str) -> String {
    let (arm, Told { own, of_baseline, low, high, higher }) = (&found.arm, told(found));
    format!(
        "amid its slices {arm} gets {own}, and {baseline} {of_baseline}: from the first to the second halves of turns, {low} \
         to {high} apart. Throughput is taken from second halves. If {arm} still changes in them, its ratio is {higher} \
         without rests: by up to half of that difference, if most of the change is over by the middle of a turn. To do: longer slices, \
         or --design blocks"
    )
}

fn amid_deployments(found: &Warming, baseline: &str) -> String {
    let (arm, Told { own, of_baseline, low, high, higher }) = (&found.arm, told(found));
    format!(
        "while it was measured {arm} got {own}, and {baseline} {of_baseline}: from the first to the second half of each \
         deployment's time, {low} to {high} apart. The ratio of {arm}'s throughput is the mean over that time, and {higher} \
         at its end. To do: a longer time to settle (settle: in the study's time:)"
    )
}

/// What a line says.
struct Told {
    own: String,
    of_baseline: String,
    /// The bound of what lies between the two that is nearer to nothing.
    low: String,
    high: String,
    higher: &'static str,
}

fn told(found: &Warming) -> Told {
    let change =
        |share: f64| format!("{} {}", percent_text(share.abs()), if share < 0.0 { "slower" } else { "faster" });
    let [low, high] = [found.interval.low, found.interval.high].map(|share| percent_text(share.abs()));
    let more = found.more > 0.0;
    let (low, high) = if more { (low, high) } else { (high, low) };
    let higher = if more { "higher" } else { "lower" };
    Told { own: change(found.own), of_baseline: change(found.of_baseline), low, high, higher }
}
