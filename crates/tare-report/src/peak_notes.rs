//! What to know about searches for the peak, in words.

use crate::qos::{percent, share};
use std::collections::BTreeMap;
use tare_core::peak::{PeakNote, PeakOutcome};

/// A sentence for each kind of note, and how many of the searches have it, in the order in which they first come.
pub(crate) fn lines(searches: &[&PeakOutcome]) -> Vec<(usize, String)> {
    let mut kinds: Vec<Vec<&PeakNote>> = Vec::new();
    for note in searches.iter().flat_map(|search| &search.notes) {
        match kinds.iter_mut().find(|kind| is_alike(kind[0], note)) {
            Some(kind) => kind.push(note),
            None => kinds.push(vec![note]),
        }
    }
    // Records of earlier versions hold sentences.
    let mut told: BTreeMap<&str, usize> = BTreeMap::new();
    searches.iter().flat_map(|search| &search.warnings).for_each(|words| *told.entry(words).or_default() += 1);
    let told = told.into_iter().map(|(words, count)| (count, words.to_owned()));
    kinds.iter().map(|kind| (kind.len(), words(kind))).chain(told).collect()
}

/// Whether two notes say the same but for figures.
fn is_alike(one: &PeakNote, other: &PeakNote) -> bool {
    match (one, other) {
        (PeakNote::MixOff { operation, asked, .. }, PeakNote::MixOff { operation: of, asked: wanted, .. }) => {
            operation == of && asked == wanted
        }
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

/// One sentence for notes that are alike, of which there is one at least.
fn words(kind: &[&PeakNote]) -> String {
    let figures = |of: fn(&PeakNote) -> f64, show: fn(f64) -> String| between(kind.iter().map(|note| of(note)), show);
    match kind[0] {
        PeakNote::Memory => {
            "hysteresis: as load rises it keeps the QoS up to a level at which, once broken, it does not recover; the peak \
             given is the level at which it does recover"
                .to_owned()
        }
        PeakNote::Cliff => {
            "a cliff: windows either kept the QoS with ease or lost it altogether; the peak is its edge".to_owned()
        }
        PeakNote::GentleSlope { .. } => {
            let more =
                figures(|note| if let PeakNote::GentleSlope { doubles_at } = note { *doubles_at } else { 0.0 }, whole);
            format!(
                "a gentle slope: {more} % more load only doubles the share over the limit; the peak depends on the limit \
                 chosen"
            )
        }
        PeakNote::Disturbed { times, .. } => {
            let windows = figures(
                |note| if let PeakNote::Disturbed { windows, .. } = note { f64::from(*windows) } else { 0.0 },
                count,
            );
            let of =
                figures(|note| if let PeakNote::Disturbed { of, .. } = note { f64::from(*of) } else { 0.0 }, count);
            format!(
                "disturbed: {windows} of {of} windows below the peak had more than {times:.0} times the allowed share over \
                 the limit; something else used the machine, or the service pauses"
            )
        }
        PeakNote::Astray => {
            "the staircase never settled around one load; trust the windows, not the peak".to_owned()
        }
        PeakNote::Wide { .. } => {
            let half = figures(|note| if let PeakNote::Wide { half_width } = note { *half_width } else { 0.0 }, whole);
            format!("the interval is wide, {half} % to either side: more windows, or a quieter machine")
        }
        PeakNote::MixOff { operation, asked, .. } => {
            let had = figures(|note| if let PeakNote::MixOff { had, .. } = note { *had } else { 0.0 }, hundredths);
            format!("the mix was off: {}, had {had} %", share(operation, *asked))
        }
        PeakNote::GeneratorDoubtful { .. } => {
            let windows = figures(
                |note| if let PeakNote::GeneratorDoubtful { windows } = note { f64::from(*windows) } else { 0.0 },
                count,
            );
            format!("windows in which the generator may have been the limit, not the service: {windows}")
        }
    }
}

/// The least and the greatest figure: `9`, or `9 to 66`.
fn between(figures: impl Iterator<Item = f64> + Clone, show: fn(f64) -> String) -> String {
    let (low, high) = (figures.clone().fold(f64::INFINITY, f64::min), figures.fold(f64::NEG_INFINITY, f64::max));
    let (low, high) = (show(low), show(high));
    if low == high { low } else { format!("{low} to {high}") }
}

/// A share in whole per cent.
fn whole(share: f64) -> String {
    format!("{:.0}", 100.0 * share)
}

/// A share in per cent with at most two decimals.
fn hundredths(share: f64) -> String {
    percent(share).trim_end_matches(" %").to_owned()
}

fn count(figure: f64) -> String {
    format!("{figure:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::qos::Share;

    fn said(notes: &[PeakNote]) -> String {
        words(&notes.iter().collect::<Vec<_>>())
    }

    #[test]
    fn notes_that_differ_in_figures_become_one_sentence() {
        let wide = |half_width| PeakNote::Wide { half_width };
        let said_of = said(&[wide(0.09), wide(0.66), wide(0.105)]);
        assert!(said_of.starts_with("the interval is wide, 9 to 66 % to either side"), "{said_of}");
        assert!(said(&[wide(0.091), wide(0.092)]).contains("wide, 9 % to"));
        let disturbed = |windows| PeakNote::Disturbed { windows, of: 19, times: 10.0 };
        assert!(said(&[disturbed(2), disturbed(3)]).starts_with("disturbed: 2 to 3 of 19 windows below the peak"));
        let off = PeakNote::MixOff { operation: "get".into(), asked: Share { of: 0.1, within: 0.2 }, had: 0.149 };
        assert_eq!(said(&[off]), "the mix was off: get 10 % give or take 20 % of all, had 14.9 %");
    }

    #[test]
    fn notes_that_differ_in_more_stay_apart() {
        let off = |operation: &str| {
            let asked = Share { of: 0.1, within: 0.2 };
            PeakNote::MixOff { operation: operation.into(), asked, had: 0.2 }
        };
        assert!(!is_alike(&PeakNote::Cliff, &PeakNote::Astray));
        assert!(!is_alike(&off("join"), &off("leave")));
        assert!(is_alike(&off("join"), &off("join")));
        assert!(is_alike(&PeakNote::Wide { half_width: 0.1 }, &PeakNote::Wide { half_width: 0.2 }));
    }
}
