//! Forms that warm up within the slices of a chopped load, or within their deployments, in words.

use tare_stats::{Analysis, Interval, Ratio, Verdict, Warming, percent_at_most, percent_text};

/// A line for each that does so more or less than the baseline.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    lines_of(analysis, |_| true)
}

/// The same without forms of which it changes nothing that is said: they differ so much that what slices may have left
/// in their ratio makes no other verdict.
pub(crate) fn grave_lines(analysis: &Analysis) -> Vec<String> {
    lines_of(analysis, |found| decides(analysis, found))
}

/// One line for all those others: `slices: under uninterrupted load throughput of container may be up to 0.9 % lower`.
pub(crate) fn slight(analysis: &Analysis) -> Option<String> {
    let slight = analysis.warming.iter().filter(|found| found.matters && !decides(analysis, found));
    let of_form = |found: &Warming| {
        let (most, higher) = (percent_at_most(found.left_in_throughput()), told(found).higher);
        format!("throughput of {} may be up to {most} {higher}", found.arm)
    };
    let forms: Vec<String> = slight.map(of_form).collect();
    (!forms.is_empty())
        .then(|| format!("slices: under uninterrupted load {}; --verbose says more", forms.join(", and ")))
}

fn lines_of(analysis: &Analysis, of_slices: impl Fn(&Warming) -> bool) -> Vec<String> {
    let baseline = &analysis.baseline;
    let slices = analysis.warming.iter().filter(|found| found.matters && of_slices(found));
    let deployments = analysis.settling.iter().filter(|found| found.matters);
    let slices = slices.map(|found| amid_slices(found, baseline));
    slices.chain(deployments.map(|found| amid_deployments(found, baseline))).collect()
}

/// Whether a ratio of the form might be said to be another one, were it not for slices.
fn decides(analysis: &Analysis, found: &Warming) -> bool {
    // That one of two equals gets warm otherwise says something of the machine, whatever else is said.
    if found.arm == analysis.control {
        return true;
    }
    let ratios = analysis.metrics.iter().flat_map(|metric| &metric.ratios).filter(|ratio| ratio.arm == found.arm);
    let is_open = |ratio: &Ratio| match (ratio.verdict, ratio.interval, ratio.cold.and_then(|cold| cold.share)) {
        (Verdict::Better | Verdict::Worse, Some(Interval { low, high }), Some(left)) => {
            low / (1.0 + left) <= 1.0 && high * (1.0 + left) >= 1.0
        }
        (Verdict::Better | Verdict::Worse, ..) => true,
        _ => ratio.cold.is_some_and(|cold| cold.decides),
    };
    ratios.into_iter().any(is_open)
}

fn amid_slices(found: &Warming, baseline: &str) -> String {
    let (arm, Told { own, of_baseline, low, high, higher }) = (&found.arm, told(found));
    format!(
        "within its slices {arm} gets {own}, {baseline} {of_baseline}, from the first to the second halves of turns: they \
         differ by {low} to {high}. Throughput is taken from second halves. If {arm} still changes in them, its ratio under \
         uninterrupted load is {higher}, by up to half of that difference if most of the change is over by mid-turn. \
         To do: longer slices, or --design blocks"
    )
}

fn amid_deployments(found: &Warming, baseline: &str) -> String {
    let (arm, Told { own, of_baseline, low, high, higher }) = (&found.arm, told(found));
    format!(
        "while it was measured {arm} got {own}, {baseline} {of_baseline}, from the first to the second half of each \
         deployment's time: they differ by {low} to {high}. The ratio of {arm}'s throughput is the mean over that time, and \
         {higher} at its end. To do: a longer time to settle (settle: in the study's time:)"
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
