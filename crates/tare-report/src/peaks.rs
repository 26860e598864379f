//! The peak loads of a record, in absolute terms, for every format.

use tare_core::peak::PeakOutcome;
use tare_core::record::Record;
use tare_stats::{Analysis, Arm, Interval};

/// What the searches of one arm found.
pub(crate) struct Peaks<'a> {
    /// The arm.
    pub(crate) arm: &'a Arm,
    /// Geometric mean of the searches, and its 95 % interval, which holds what differs between deployments and hours.
    pub(crate) peak: Option<f64>,
    pub(crate) interval: Option<Interval>,
    /// The searches behind `peak`, in their order: no void ones, and none of a block that was run again.
    pub(crate) counted: Vec<&'a PeakOutcome>,
    /// All searches that came to an end, in their order; also those without a peak.
    pub(crate) searches: Vec<&'a PeakOutcome>,
}

/// The peaks of every arm; empty for a study that searched for none.
pub(crate) fn peaks<'a>(record: &'a Record, analysis: &'a Analysis) -> Vec<Peaks<'a>> {
    if record.header.study.peak.is_none() {
        return Vec::new();
    }
    let estimates = analysis.metrics.first().map(|metric| metric.estimates.as_slice()).unwrap_or_default();
    let of_arm = |arm: &'a Arm| {
        let mut trials: Vec<_> = record.trials.iter().filter(|trial| trial.record.trial.arm() == arm.name).collect();
        trials.sort_by_key(|trial| trial.record.trial.index);
        let estimate = estimates.iter().find(|estimate| estimate.arm == arm.name);
        let counts = |index: u32| estimate.is_some_and(|e| e.values.iter().any(|value| value.trial == index));
        let counted = trials.iter().filter(|trial| counts(trial.record.trial.index));
        Peaks {
            arm,
            peak: estimate.map(|estimate| estimate.geometric_mean.unwrap_or(estimate.mean)),
            interval: estimate.and_then(|estimate| estimate.interval),
            counted: counted.filter_map(|trial| trial.record.peak.as_ref()).collect(),
            searches: trials.into_iter().filter_map(|trial| trial.record.peak.as_ref()).collect(),
        }
    };
    analysis.arms.iter().map(of_arm).collect()
}

impl Peaks<'_> {
    /// In a line: `1,278 users [1,262, 1,295] over 5 searches`, or how the searches ended.
    pub(crate) fn words(&self) -> String {
        let count = self.counted.len();
        let searches = if count == 1 { "1 search".to_owned() } else { format!("{count} searches") };
        let Some(peak) = self.peak else {
            let why = self.searches.first().map_or_else(|| "not searched".to_owned(), |search| search.describe());
            return format!("no peak: {why}");
        };
        let unit = self.counted.first().map_or("", |search| search.unit.as_str());
        let figure = tare_core::peak::level_text;
        match (self.interval, self.counted.first().and_then(|search| search.low.zip(search.high))) {
            (Some(Interval { low, high }), _) => {
                format!("{} {unit} [{}, {}] over {searches}", figure(peak), figure(low), figure(high))
            }
            (None, Some((low, high))) if count == 1 => format!(
                "{} {unit}; this one deployment [{}, {}], others may differ: 3 blocks make an interval",
                figure(peak),
                figure(low),
                figure(high)
            ),
            _ => format!("{} {unit} over {searches}, no interval", figure(peak)),
        }
    }

    /// What the searches warned of, a kind each once: how many of them said so, and figures from the least to the
    /// greatest that was said.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut kinds: Vec<Vec<Vec<Piece>>> = Vec::new();
        for warning in self.searches.iter().flat_map(|search| &search.warnings) {
            let said = pieces(warning);
            match kinds.iter_mut().find(|kind| is_alike(&kind[0], &said)) {
                Some(kind) => kind.push(said),
                None => kinds.push(vec![said]),
            }
        }
        let all = self.searches.len();
        let of_all = |kind: &Vec<Vec<Piece<'_>>>| match all {
            1 => merged(kind),
            _ => format!("{} of {all} searches: {}", kind.len(), merged(kind)),
        };
        kinds.iter().map(of_all).collect()
    }
}

/// A piece of a sentence.
#[derive(Clone, Copy)]
enum Piece<'a> {
    /// As it is read.
    Words(&'a str),
    /// As it is read, and its value.
    Figure(&'a str, f64),
}

/// What stands within figures, and after them.
const PUNCTUATION: [char; 2] = ['.', ','];

/// A sentence in words and unsigned decimal figures.
fn pieces(sentence: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = sentence;
    while !rest.is_empty() {
        let words = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        pieces.push(Piece::Words(&rest[..words]));
        rest = &rest[words..];
        let of_figure = rest.find(|c: char| !c.is_ascii_digit() && !PUNCTUATION.contains(&c)).unwrap_or(rest.len());
        let figure = rest[..of_figure].trim_end_matches(PUNCTUATION);
        rest = &rest[figure.len()..];
        pieces.push(figure.replace(',', "").parse().map_or(Piece::Words(figure), |value| Piece::Figure(figure, value)));
    }
    pieces
}

/// Whether two sentences say the same but for figures.
fn is_alike(one: &[Piece<'_>], other: &[Piece<'_>]) -> bool {
    let same = |pair: (&Piece<'_>, &Piece<'_>)| match pair {
        (Piece::Words(one), Piece::Words(other)) => one == other,
        (Piece::Figure(..), Piece::Figure(..)) => true,
        _ => false,
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

/// One sentence for several that are alike.
fn merged(kind: &[Vec<Piece<'_>>]) -> String {
    let piece = |at: usize| {
        let figures = kind.iter().filter_map(|said| match said[at] {
            Piece::Figure(text, value) => Some((text, value)),
            Piece::Words(_) => None,
        });
        let least = figures.clone().min_by(|one, other| one.1.total_cmp(&other.1));
        let greatest = figures.max_by(|one, other| one.1.total_cmp(&other.1));
        match (kind[0][at], least, greatest) {
            (Piece::Figure(..), Some((least, low)), Some((greatest, high))) if low < high => {
                format!("{least} to {greatest}")
            }
            (Piece::Figure(text, _) | Piece::Words(text), ..) => text.to_owned(),
        }
    };
    (0..kind[0].len()).map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(sentences: &[&str]) -> String {
        merged(&sentences.iter().map(|sentence| pieces(sentence)).collect::<Vec<_>>())
    }

    #[test]
    fn sentences_that_differ_in_figures_become_one() {
        assert_eq!(said(&["wide, 9 % of it.", "wide, 66 % of it.", "wide, 10.5 % of it."]), "wide, 9 to 66 % of it.");
        assert_eq!(said(&["2 of 19 windows", "3 of 19 windows"]), "2 to 3 of 19 windows");
        assert_eq!(said(&["up to 1,262, then 9"; 2]), "up to 1,262, then 9");
        assert_eq!(said(&["up to 998, then 9", "up to 1,262, then 9"]), "up to 998 to 1,262, then 9");
        assert_eq!(said(&["ends in 7."]), "ends in 7.");
        assert_eq!(said(&["1.2.3 and 4", "1.2.3 and 5"]), "1.2.3 and 4 to 5");
    }

    #[test]
    fn sentences_that_differ_in_words_stay_apart() {
        let alike = |one, other| is_alike(&pieces(one), &pieces(other));
        assert!(alike("the mix: 5 % of it", "the mix: 17 % of it"));
        assert!(!alike("a cliff", "a slope"));
        assert!(!alike("the mix: join 5 %", "the mix: leave 5 %"));
        assert!(!alike("the mix: 5 %", "the mix: 5"));
    }
}
