//! Forms that work while others are loaded, in words.

use tare_stats::{Analysis, Resting, percent_text};

/// A line for each.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    let line = |found: &Resting| {
        let Resting { form, share, of_baseline, follows } = found;
        let (own, others) = (percent_text(*share), percent_text(*of_baseline));
        let by = percent_text((share - of_baseline).abs());
        let look = if share > of_baseline { "better" } else { "worse" };
        let follows = follows.filter(|follows| *follows > share / 2.0);
        let follows = follows.map_or_else(String::new, |follows| {
            format!(", {} of it because of the load that it had before", percent_text(follows))
        });
        format!(
            "{form} uses {own} of a CPU while others are loaded{follows}, {} {others}: that work falls into the \
             others' turns, so {form} looks up to {by} {look} than it is. To do: measure it with --design blocks",
            analysis.baseline
        )
    };
    analysis.resting.iter().map(line).collect()
}
