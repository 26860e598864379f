//! Ratios of which only one side is known: a figure that looks better than what it stands for makes a ratio that looks
//! better, or worse, than the true one.

use serde::{Deserialize, Serialize};

/// Where the truth lies, seen from the ratio that is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// It is that or more.
    AtLeast,
    /// It is that or less.
    AtMost,
    /// Nobody knows on which side of it.
    Either,
}

/// Why no more is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoundCause {
    /// Operations failed: a quantile lies among them, or nothing was left of a trial to make a figure of.
    Failures,
    /// The generator of a closed loop was the limit in one of the two forms, or in both.
    Generator,
}

/// What is known of a ratio instead of the ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// Where the truth lies.
    pub side: Side,
    /// Why it is not known.
    pub cause: BoundCause,
}

/// In which direction the truth of an arm's figure may lie, seen from the figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Lean {
    /// The arm may be worse than its figure, for part of what it failed at is not in it.
    pub(crate) worse: bool,
    /// The arm may be better, for the figure is the generator's.
    pub(crate) better: bool,
}

impl Bound {
    /// Of the ratio of an arm to the baseline; none where both figures are what they seem.
    pub(crate) fn of(arm: Lean, baseline: Lean, more_is_better: bool) -> Option<Bound> {
        let (better, worse) = (arm.better || baseline.worse, arm.worse || baseline.better);
        let side = match (better, worse) {
            (false, false) => return None,
            (true, true) => Side::Either,
            (better, _) if better == more_is_better => Side::AtLeast,
            _ => Side::AtMost,
        };
        let failed = arm.worse || baseline.worse;
        Some(Bound { side, cause: if failed { BoundCause::Failures } else { BoundCause::Generator } })
    }

    /// Of a ratio of two ratios, each of which may be a bound.
    pub(crate) fn of_quotient(over: Option<Bound>, under: Option<Bound>) -> Option<Bound> {
        let turned = under.map(|bound| {
            let side = match bound.side {
                Side::AtLeast => Side::AtMost,
                Side::AtMost => Side::AtLeast,
                Side::Either => Side::Either,
            };
            Bound { side, ..bound }
        });
        match (over, turned) {
            (None, bound) | (bound, None) => bound,
            (Some(one), Some(other)) if one.side == other.side => Some(one),
            (Some(one), Some(_)) => Some(Bound { side: Side::Either, ..one }),
        }
    }

    /// Whether the true ratio lies no nearer to 1 than the one that is given, whose log is `mean`: what is said of the
    /// one holds for the other all the more.
    pub(crate) fn carries(&self, mean: f64) -> bool {
        match self.side {
            Side::AtLeast => mean > 0.0,
            Side::AtMost => mean < 0.0,
            Side::Either => false,
        }
    }
}

impl Side {
    /// What stands before the ratio that is given.
    pub fn sign(self) -> &'static str {
        match self {
            Side::AtLeast => ">=",
            Side::AtMost => "<=",
            Side::Either => "?",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_lies_where_the_flattered_one_loses() {
        let (flattered, honest) = (Lean { worse: true, ..Lean::default() }, Lean::default());
        let side = |arm, baseline, more| Bound::of(arm, baseline, more).map(|bound| bound.side);
        assert_eq!(side(honest, honest, true), None);
        assert_eq!(side(flattered, honest, true), Some(Side::AtMost), "throughput");
        assert_eq!(side(flattered, honest, false), Some(Side::AtLeast), "times");
        assert_eq!(side(honest, flattered, true), Some(Side::AtLeast));
        assert_eq!(side(honest, flattered, false), Some(Side::AtMost));
        assert_eq!(side(flattered, flattered, false), Some(Side::Either));
    }

    #[test]
    fn who_was_held_back_may_be_better() {
        let (held, free) = (Lean { better: true, ..Lean::default() }, Lean::default());
        let side = |arm, baseline, more| Bound::of(arm, baseline, more).map(|bound| bound.side);
        assert_eq!(side(free, held, true), Some(Side::AtMost), "the baseline would do more");
        assert_eq!(side(free, held, false), Some(Side::AtLeast));
        assert_eq!(side(held, free, true), Some(Side::AtLeast));
        assert_eq!(side(held, held, true), Some(Side::Either), "nobody knows which would do more");
        assert_eq!(Bound::of(held, free, true).map(|bound| bound.cause), Some(BoundCause::Generator));
    }

    #[test]
    fn a_ratio_of_two_bounds_is_known_on_one_side_where_both_say_the_same() {
        let bound = |side| Some(Bound { side, cause: BoundCause::Generator });
        let side = |over, under| Bound::of_quotient(over, under).map(|bound| bound.side);
        assert_eq!(side(None, None), None);
        assert_eq!(side(bound(Side::AtLeast), None), Some(Side::AtLeast));
        assert_eq!(side(None, bound(Side::AtLeast)), Some(Side::AtMost));
        assert_eq!(side(bound(Side::AtLeast), bound(Side::AtMost)), Some(Side::AtLeast));
        assert_eq!(side(bound(Side::AtLeast), bound(Side::AtLeast)), Some(Side::Either));
        assert_eq!(side(None, bound(Side::Either)), Some(Side::Either));
    }
}
