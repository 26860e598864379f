//! What a rung's feature costs in other places than its own: first, on as few others as it can be had with, and last,
//! on all of them.
//!
//! The product of a ladder's rungs is the form by the baseline whatever the rungs do to each other: that it comes out
//! says nothing of them. Two features may cost more together than each does (a filter of system calls, and a network
//! that makes more of them), and then what the ladder says of either is what it costs in that order. A feature taken
//! away from the whole form, or put in before the others, is measured in the same blocks, so that the difference of
//! the two costs, the interaction, has an error of its own: in each block four deployments make one value.

use crate::analysis::{Arm, Interval, MetricAnalysis};
use crate::ladder::{Cost, RungCost};
use crate::pair::Pair;
use serde::Serialize;
use tare_core::ladder::{Ladder, Place};

/// What a feature costs in several places.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Orders {
    /// First, on as few others as it can be had with; its interval is one of this feature's alone. None where that was
    /// not measured.
    pub first: Option<Cost>,
    /// Last, on all the others.
    pub last: Option<Cost>,
    /// How many times as much the feature makes of a figure when it comes last as when it comes first or, where that
    /// was not measured, as the rung that it is. 1 when it costs the same. The intervals of a metric's rungs hold
    /// together (Student's t over blocks, Bonferroni).
    pub interaction: Option<Cost>,
    /// Whether the interaction's interval excludes 1, it is beyond the noise floor, and nothing withholds it: then what
    /// the feature costs depends on what stands beside it.
    pub depends: bool,
    /// Its share of the whole difference, log scale, from the least to the greatest of these places and the rung's own;
    /// none where one of them is only a bound, or the whole may be none.
    pub share: Option<Interval>,
}

/// The one-sided level of the interval that tells whether there is a whole to have shares of.
const WHOLE: f64 = 0.975;

/// The places of each rung's feature; none of a rung that was measured in its own only.
pub(crate) fn orders(
    ladder: &Ladder,
    baseline: &str,
    rungs: &[RungCost],
    arms: &[Arm],
    metric: &MetricAnalysis,
) -> Vec<Option<Orders>> {
    let turned = |rung: &RungCost, place: Place| {
        let turned = ladder.turned.iter().find(|turned| turned.rung == rung.form && turned.place == place)?;
        let against = turned.against.as_deref().unwrap_or(baseline);
        let form = turned.form.as_str();
        metric.estimates.iter().any(|estimate| estimate.arm == form).then_some((form, against))
    };
    // A rung that stands for several, because some were not measured, is no single feature.
    let single = |rung: &RungCost| rung.adds.len() == 1;
    let has =
        |rung: &RungCost| single(rung) && (turned(rung, Place::First).is_some() || turned(rung, Place::Last).is_some());
    let family = rungs.iter().filter(|rung| has(rung)).count();
    // A share of what is only a bound is none.
    let known = |pair: &Pair<'_>| pair.bound.is_none();
    // Nor of what may be nothing.
    let whole = Pair::of(&ladder.to, baseline, arms, metric).filter(known);
    let whole = whole.filter(|whole| whole.stands(whole.interval(WHOLE))).map(|pair| pair.log());
    let of_rung = |rung: &RungCost| {
        let pair = |arm: &str, against: &str| Pair::of(arm, against, arms, metric);
        let own = pair(&rung.form, &rung.against)?;
        let first = turned(rung, Place::First).and_then(|(form, against)| pair(form, against));
        let last = turned(rung, Place::Last).and_then(|(form, _)| pair(&ladder.to, form));
        let both = last.as_ref().and_then(|last| last.less(first.as_ref().unwrap_or(&own)));
        // Without a last place there is the rung's own against the first.
        let both = both.or_else(|| own.less(first.as_ref().filter(|_| last.is_none())?));
        let interaction = both.as_ref().map(|both| Cost::of(both, family));
        let places = || [Some(&own), first.as_ref(), last.as_ref()].into_iter().flatten();
        let whole = whole.filter(|_| places().all(known));
        Some(Orders {
            first: first.as_ref().map(|pair| Cost::of(pair, family)),
            last: last.as_ref().map(|pair| Cost::of(pair, family)),
            depends: both.is_some_and(|both| both.stands(interaction.and_then(|cost| cost.interval))),
            interaction,
            share: whole.and_then(|whole| range(places().map(|pair| pair.log() / whole))),
        })
    };
    rungs.iter().map(|rung| Some(rung).filter(|rung| has(rung)).and_then(of_rung)).collect()
}

/// From the least to the greatest; none where one is no number.
fn range(values: impl Iterator<Item = f64>) -> Option<Interval> {
    let ends = values.fold((f64::MAX, f64::MIN), |(low, high), value| {
        if value.is_finite() { (low.min(value), high.max(value)) } else { (f64::NAN, f64::NAN) }
    });
    let (low, high) = ends;
    (low <= high).then_some(Interval { low, high })
}
