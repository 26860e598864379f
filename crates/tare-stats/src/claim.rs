//! How precise a run may claim to be that was perhaps ended for the width of its intervals.

use crate::paired::Precision;

/// What a run claims that may have been ended for the width of its intervals: it was narrow when it ended, and not
/// always by being exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Claim {
    /// The least half-width of the ratios that were waited for, log scale.
    asked: Option<f64>,
    /// So many times as large are all other errors, which may go up and down with those.
    factor: f64,
}

impl Claim {
    /// What blocks say, of a run that its width did not end.
    pub(crate) const AS_IS: Claim = Claim { asked: None, factor: 1.0 };

    /// On a metric, of a run that may have `ended` for its width: what was asked for, and the factor for all that did
    /// not decide.
    pub(crate) fn of(ended: Option<(f64, f64)>, decides: bool) -> Claim {
        let Some((asked, factor)) = ended else { return Claim::AS_IS };
        Claim { asked: Some(asked).filter(|_| decides), factor }
    }

    /// The precision of a ratio to the baseline, as it may be claimed: of the metric that decided no less than was
    /// asked for.
    pub(crate) fn on(self, precision: Precision) -> Precision {
        self.asked.map_or_else(|| self.elsewhere(precision), |half_width| precision.at_least(half_width))
    }

    /// The same of what was not waited for: the A/A control beside forms, a rung, a variant.
    pub(crate) fn elsewhere(self, precision: Precision) -> Precision {
        Precision { standard_error: self.factor * precision.standard_error, ..precision }
    }

    /// How many times as large errors are of what was not waited for.
    pub(crate) fn factor(self) -> f64 {
        self.factor
    }
}
