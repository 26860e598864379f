//! What changed from one run to another, and what the change comes from.

use crate::analyse::analyse;
use crate::analysis::Analysis;
use crate::arm::Arm;
use crate::bound::Bound;
use crate::contrast::{Cell, Estimate, Figure, Values, cells, compared, equals};
use crate::finding::{Differs, Explanation, findings, is_clear, level, throughput};
use crate::interval::Interval;
use crate::paired::{BLOCKS_MIN, sd};
use crate::quantile::student_quantile;
use crate::ratios::MetricAnalysis;
use crate::voids::counted;
use crate::welch::satterthwaite;
use std::collections::BTreeMap;
use tare_core::record::Record;

/// An explanation for every form, the baselines too, that was measured in three trials of both runs and whose
/// performance differs between them: beyond the interval (Welch, 99 %) and the noise floors of both, in a metric on
/// which neither run withholds its verdicts. The runs are not interleaved, so whatever else changed on the machine is
/// in it. The slower one is called `before` or `after`.
pub fn changes_explained(before: &Record, after: &Record) -> Vec<Explanation> {
    let runs = [before, after].map(Run::of);
    let [before, after] = &runs;
    let arms = after.analysis.arms.iter().filter(|arm| !arm.control);
    let real = |other: &Arm| other.emulated.is_none() && other.void_p.is_none();
    let both = arms.filter(|arm| before.analysis.arms.iter().any(|other| other.name == arm.name && real(other)));
    let both = both.filter(|arm| real(arm));
    both.filter_map(|arm| explained(&arm.name, before, after)).collect()
}

/// A run's analysis, what each of its trials counted, and what equals differ by in it.
struct Run {
    analysis: Analysis,
    cells: BTreeMap<String, Cell>,
    equal: Vec<Figure>,
}

impl Run {
    fn of(record: &Record) -> Run {
        let analysis = analyse(record);
        let cells = cells(record, &counted(record));
        let equal = equals(&cells, &analysis.baseline, &analysis.arms, level);
        Run { analysis, cells, equal }
    }

    fn metric(&self, name: &str) -> Option<&MetricAnalysis> {
        self.analysis.metrics.iter().find(|metric| metric.name == name)
    }
}

fn explained(arm: &str, before: &Run, after: &Run) -> Option<Explanation> {
    let compared = after.analysis.metrics.iter().filter(|metric| metric.compared);
    let (metric, ratio, bound, interval) =
        compared.filter_map(|metric| differs(arm, before.metric(&metric.name)?, metric)).next()?;
    let slower = metric.more_is_better == (ratio < 1.0);
    let (here, there) = if slower { (after, before) } else { (before, after) };
    let mut figures = unpaired(here.cells.get(arm)?, there.cells.get(arm)?);
    figures.retain(|figure| is_clear(figure, &before.equal) && is_clear(figure, &after.equal));
    Some(Explanation {
        form: arm.to_owned(),
        against: arm.to_owned(),
        slower: if slower { "after" } else { "before" }.to_owned(),
        differs: Differs::BeyondNoise,
        metric: metric.title.clone(),
        ratio,
        bound,
        interval,
        one_feature: false,
        findings: findings(&figures, throughput(&here.analysis.metrics, arm)),
    })
}

/// A metric in which an arm of one run differs from the same arm of another.
fn differs<'m>(
    arm: &str,
    before: &MetricAnalysis,
    after: &'m MetricAnalysis,
) -> Option<(&'m MetricAnalysis, f64, Option<Bound>, Interval)> {
    let logs = |metric: &MetricAnalysis| -> Option<Vec<f64>> {
        let estimate = metric.estimates.iter().find(|estimate| estimate.arm == arm)?;
        Some(estimate.values.iter().map(|value| value.value.ln()).collect())
    };
    if before.control_differs || after.control_differs {
        return None;
    }
    let factors = [after.claim.factor(), before.claim.factor()];
    let Estimate { difference, half_width, .. } = apart(&logs(after)?, &logs(before)?, factors)?;
    let floor = before.noise_floor?.max(after.noise_floor?).ln_1p();
    let interval = Interval { low: (difference - half_width).exp(), high: (difference + half_width).exp() };
    let is_clear = difference.is_finite() && !interval.contains(1.0) && difference.abs() > floor;
    // Either run's own figure may be the generator's, or of those that were left of what failed.
    let lean = |metric: &MetricAnalysis| metric.leans.get(arm).copied().unwrap_or_default();
    let bound = Bound::of(lean(after), lean(before), after.more_is_better);
    let carried = bound.is_none_or(|bound| bound.carries(difference));
    (is_clear && carried).then(|| (after, difference.exp(), bound, interval))
}

/// Every figure that both sides have in three trials.
fn unpaired(here: &Cell, there: &Cell) -> Vec<Figure> {
    let plain = |values: &Values| values.values().copied().collect::<Vec<f64>>();
    compared(here, there, |here, there, _| apart(&plain(here), &plain(there), [1.0, 1.0]))
}

/// The difference of two independent means (Welch), the error of each so many times as large as its values say. None
/// below three values on a side.
fn apart(here: &[f64], there: &[f64], factors: [f64; 2]) -> Option<Estimate> {
    if here.len().min(there.len()) < BLOCKS_MIN {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let own = |values: &[f64], factor: f64| {
        Some(((factor * sd(values)?).powi(2) / values.len() as f64, values.len() as f64 - 1.0))
    };
    let (variance, degrees) = satterthwaite([own(here, factors[0])?, own(there, factors[1])?]);
    let (here, there) = (mean(here), mean(there));
    let spread = variance.sqrt();
    let half_width = spread * student_quantile(level(1), degrees);
    Some(Estimate { here, there, difference: here - there, half_width, spread })
}
