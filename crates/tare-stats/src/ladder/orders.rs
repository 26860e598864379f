//! What a rung's feature costs in other places than its own: first, on as few others as it can be had with, and last,
//! on all of them.
//!
//! The product of a ladder's rungs is the form by the baseline whatever the rungs do to each other: that it comes out
//! says nothing of them. Two features may cost more together than each does (a filter of system calls, and a network
//! that makes more of them), and then what the ladder says of either is what it costs in that order. A feature taken
//! away from the whole form, or put in before the others, is measured in the same blocks, so that the difference of
//! the two costs, the interaction, has an error of its own: in each block four deployments make one value.

use super::{Cost, RungCost};
use crate::arm::Arm;
use crate::interval::Interval;
use crate::pair::Pair;
use crate::ratios::MetricAnalysis;
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
    // A share of what is only a bound, or of which nothing is said, is none.
    let known = Pair::is_known;
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
    let (mut low, mut high) = (f64::MAX, f64::MIN);
    for value in values {
        if !value.is_finite() {
            return None;
        }
        (low, high) = (low.min(value), high.max(value));
    }
    (low <= high).then_some(Interval { low, high })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::Lean;
    use crate::estimate::{BlockValue, Estimate};
    use crate::ladder::ladder_costs;
    use tare_core::fault::Fault;
    use tare_core::ladder::{Rung, Turned};

    fn arm(name: &str) -> Arm {
        Arm {
            name: name.into(),
            form: name.into(),
            describe: String::new(),
            baseline: name == "plain",
            control: false,
            weight: None,
            emulated: None,
            planned: 8,
            measured: 8,
            invalid: 0,
            failed: 0,
            skipped: 0,
            reasons: Vec::new(),
            path: String::new(),
            never_steady: Vec::new(),
            void_p: None,
            qos: None,
        }
    }

    fn estimate(arm: &str, mean: f64) -> Estimate {
        let values = (0..8).map(|block| BlockValue { block, trial: block, value: mean }).collect();
        Estimate { arm: arm.into(), values, at_least: Vec::new(), mean, geometric_mean: Some(mean), interval: None }
    }

    /// A ladder of two features, of which the second was measured first and last too.
    struct Measured {
        ladder: Ladder,
        arms: Vec<Arm>,
        metric: MetricAnalysis,
    }

    impl Measured {
        fn new() -> Measured {
            let means = [("plain", 1.0), ("one", 0.8), ("both", 0.6), ("two first", 0.9), ("no two", 0.7)];
            let rung = |form: &str| Rung { form: form.into(), adds: form.into() };
            let turn = |form: &str, place| Turned { form: form.into(), rung: "both".into(), place, against: None };
            let estimates = means.iter().map(|(arm, mean)| estimate(arm, *mean)).collect();
            let of_throughput = MetricAnalysis::of_throughput(estimates, Vec::new());
            let metric = MetricAnalysis { noise_floor: Some(0.02), ..of_throughput };
            let turned = vec![turn("two first", Place::First), turn("no two", Place::Last)];
            let ladder = Ladder { to: "both".into(), rungs: vec![rung("one"), rung("both")], turned };
            Measured { ladder, arms: means.iter().map(|(name, _)| arm(name)).collect(), metric }
        }

        fn arm(&mut self, name: &str) -> &mut Arm {
            self.arms.iter_mut().find(|arm| arm.name == name).unwrap()
        }

        fn values(&mut self, arm: &str) -> &mut Vec<BlockValue> {
            &mut self.metric.estimates.iter_mut().find(|estimate| estimate.arm == arm).unwrap().values
        }

        /// The generator was the limit of this arm.
        fn hold_back(&mut self, arm: &str) {
            self.metric.leans.insert(arm.into(), Lean { better: true, ..Lean::default() });
        }
    }

    /// The second feature's share of the whole, where that was measured so but for what is changed.
    fn share(change: impl FnOnce(&mut Measured)) -> Option<Interval> {
        let mut measured = Measured::new();
        change(&mut measured);
        let Measured { ladder, arms, metric } = measured;
        let mut metrics = ladder_costs(&ladder, "plain", &arms, &[metric]).metrics;
        metrics[0].rungs.pop().unwrap().orders.expect("it was measured in another place").share
    }

    #[test]
    fn of_a_whole_that_may_be_nothing_or_more_than_it_seems_there_is_no_share() {
        type Change = fn(&mut Measured);
        assert!(share(|_| {}).is_some());
        let changes: [(&str, Change); 10] = [
            ("no block has both of its ends", |it| {
                it.values("plain").truncate(4);
                it.values("both").drain(..4);
            }),
            ("too few blocks have it", |it| it.values("both").truncate(2)),
            ("its interval holds 1", |it| it.values("both").iter_mut().step_by(2).for_each(|it| it.value = 2.0)),
            ("it is within noise", |it| it.metric.noise_floor = Some(0.7)),
            ("nobody knows the noise", |it| it.metric.noise_floor = None),
            ("equals differ", |it| it.metric.control_differs = true),
            ("the form is void too often", |it| it.arm("both").void_p = Some(0.001)),
            ("the baseline is void too often", |it| it.arm("plain").void_p = Some(0.001)),
            ("the form is emulated", |it| it.arm("both").emulated = Some(Fault::new("by software"))),
            ("of the parts that are left none is a bound, but the whole is", |it| {
                it.ladder.turned.remove(0);
                it.hold_back("plain");
            }),
        ];
        let given: Vec<&str> = changes.iter().filter(|(_, it)| share(*it).is_some()).map(|(why, _)| *why).collect();
        assert!(given.is_empty(), "{given:?}");
    }

    #[test]
    fn a_share_in_any_place_of_which_nothing_is_said_is_none() {
        for arm in ["one", "two first", "no two"] {
            assert_eq!(share(|it| it.arm(arm).void_p = Some(0.001)), None, "{arm} is void too often");
            assert_eq!(share(|it| it.arm(arm).emulated = Some(Fault::new("by software"))), None, "{arm} is emulated");
        }
    }

    #[test]
    fn a_share_in_any_place_that_is_only_a_bound_or_no_number_is_none() {
        // Held back are what it is compared with as a rung, it alone, and the form without it.
        let given = ["one", "two first", "no two"].into_iter().filter(|arm| share(|it| it.hold_back(arm)).is_some());
        assert_eq!(given.collect::<Vec<_>>(), [""; 0]);
        assert_eq!(range([0.4, 0.5, f64::INFINITY].into_iter()), None);
        assert_eq!(range([f64::NAN, 0.5].into_iter()), None);
        assert_eq!(range([0.5, 0.4].into_iter()), Some(Interval { low: 0.4, high: 0.5 }));
    }
}
