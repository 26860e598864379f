//! What sampling costs a closed load: its throughput, and CPU time by operation, with the samplers at work by that
//! while they rest.
//!
//! Samplers that rest for two seconds leave the load to itself, on the host and in guests alike. Held against the same
//! time beside it, such a rest says what sampling takes from the load. Only times count in which all samplers rest that
//! there are, those of forms that stand beside each other included. Rests of one deployment share it, so they become
//! one value; deployments that stood beside each other share their rests, so where forms are taken together they become
//! one, too. Only such values have an error term. What the kernel counts all the time, whoever reads it, is not in the
//! difference.
//!
//! A deployment has a trend: its first seconds are slow, and it may drift after that. So some deployments rest in the
//! first half of each stretch of time and the others in the second ([`RestHalf`]). What the trend does to a value of
//! the former, it does to one of the latter with the opposite sign, whatever its shape: the mean of the two means is
//! free of it, and so is the spread within each of the two groups, which is the error. That is a crossover of two
//! periods; B. Jones and M. G. Kenward, Design and Analysis of Cross-Over Trials (2014), chapter 2.

use crate::family::{CONFIDENCE, Family};
use crate::interval::Interval;
use crate::paired::{BLOCKS_MIN, Precision};
use crate::quantile::student_quantile;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tare_core::load::{LoadSummary, SecondRow, TurnSpan};
use tare_core::record::TrialData;
use tare_core::telemetry::{PROBE, RESTED, RestHalf, TelemetryRow, Vantage};

/// From this difference on, as a share, what sampling costs is no detail.
pub(crate) const NO_DETAIL: f64 = 0.005;

/// What sampling costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbeCost {
    /// Throughput with the samplers at work by that while they rest: geometric mean over trials.
    pub ratio: f64,
    /// Its 95 % interval, by Student's t over trials, or over blocks where load takes turns; none below 3.
    pub interval: Option<Interval>,
    /// From so many trials.
    pub trials: u32,
    /// With so many rests in all.
    pub rests: u32,
    /// The same of each form, by name. Their intervals hold together with 95 % probability.
    pub forms: Vec<FormProbeCost>,
}

/// What sampling costs a form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FormProbeCost {
    /// The form.
    pub form: String,
    /// Throughput with the samplers at work by that while they rest.
    pub throughput: ProbeRatio,
    /// The same of CPU time by operation in its own turns, of all that serves it; none where load takes no turns, for
    /// then nobody but the sampler counts that.
    pub cpu_per_op: Option<ProbeRatio>,
    /// From so many trials.
    pub trials: u32,
    /// With so many rests in all.
    pub rests: u32,
}

/// With the samplers at work by while they rest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ProbeRatio {
    /// Geometric mean.
    pub ratio: f64,
    /// Its interval by Student's t; none below 3 values.
    pub interval: Option<Interval>,
}

/// Logs of ratios of several deployments.
struct Logs {
    /// By the half in which they rested, and by what has an error term.
    by_half: BTreeMap<RestHalf, BTreeMap<u32, Vec<f64>>>,
}

impl Logs {
    /// The means of trials.
    fn of(told: &[&Told], read: &dyn Fn(&Seen) -> Option<f64>) -> Logs {
        let mut by_half: BTreeMap<RestHalf, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
        for (told, mean) in told.iter().filter_map(|told| Some((told, told.mean(read)?))) {
            by_half.entry(told.half).or_default().entry(told.unit).or_default().push(mean);
        }
        Logs { by_half }
    }

    /// The ratio, with an interval of this one-sided level; none if all rested in the same half, for then a cost cannot
    /// be told from a trend.
    fn ratio(&self, level: f64) -> Option<ProbeRatio> {
        let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
        let units =
            |half: &RestHalf| self.by_half.get(half).map(|units| units.values().map(|logs| mean(logs)).collect());
        let halves: [Vec<f64>; 2] = [units(&RestHalf::First)?, units(&RestHalf::Second)?];
        let means = halves.each_ref().map(|half| mean(half));
        let squares: f64 =
            halves.iter().zip(means).flat_map(|(half, mean)| half.iter().map(move |log| (log - mean).powi(2))).sum();
        let counts = halves.each_ref().map(|half| half.len() as f64);
        let (log, count) = (mean(&means), counts[0] + counts[1]);
        let precision = (count >= BLOCKS_MIN as f64).then(|| {
            let degrees = count - 2.0;
            let standard_error = 0.5 * (squares / degrees * (1.0 / counts[0] + 1.0 / counts[1])).sqrt();
            Precision { standard_error, degrees, quantile: student_quantile(level, degrees) }
        });
        Some(ProbeRatio { ratio: log.exp(), interval: precision.map(|precision| precision.interval(log)) })
    }
}

impl ProbeRatio {
    /// Whether the whole interval says that the probe costs more than this share.
    pub(crate) fn costs_more_than(&self, share: f64, changes: ProbeEffect) -> bool {
        self.interval.is_some_and(|interval| match changes {
            ProbeEffect::Throughput => interval.high < 1.0 - share,
            ProbeEffect::CpuPerOp => interval.low > 1.0 + share,
        })
    }
}

/// What sampling changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeEffect {
    /// Operations a second.
    Throughput,
    /// CPU time by operation.
    CpuPerOp,
}

/// What a trial says.
struct Told<'a> {
    form: &'a str,
    /// What it has an error term with: itself, or its block.
    unit: u32,
    /// In which half of each stretch of time it rested.
    half: RestHalf,
    /// By rest.
    rests: Vec<Seen>,
}

impl Told<'_> {
    fn mean(&self, read: impl Fn(&Seen) -> Option<f64>) -> Option<f64> {
        let logs: Vec<f64> = self.rests.iter().filter_map(read).collect();
        (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
    }
}

/// The load in a stretch of time; or, as logs, that beside a rest by that in it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    throughput: f64,
    /// CPU time by operation.
    cpu_per_op: Option<f64>,
}

/// The cost over these trials; none where no sampler rested while load ran. Emulated forms say nothing of it, and
/// neither do those that always rested in the same half.
pub(crate) fn probe_cost(trials: &[&TrialData]) -> Option<ProbeCost> {
    let samplers: Vec<Vec<Vec<Rested>>> = trials.iter().map(|trial| of_samplers(&trial.telemetry)).collect();
    let counts = |trial: &TrialData| !trial.record.emulated && !is_beside_another_kind(trial, trials);
    let real = trials.iter().enumerate().filter(|(_, trial)| counts(trial));
    let told = real.filter_map(|(at, trial)| {
        let beside = (0..trials.len()).filter(|other| *other == at || are_beside(trial, trials[*other]));
        let there: Vec<&Vec<Rested>> = beside.flat_map(|other| &samplers[other]).collect();
        let unit = if by_turns(trial).is_some() { trial.record.trial.block } else { at as u32 };
        let half = trial.record.rest_half?;
        Some(Told { form: &trial.record.trial.form, unit, half, rests: of_rests(trial, half, &together(&there)) })
    });
    let mut told: Vec<Told> = told.filter(|told| !told.rests.is_empty()).collect();
    let mut halves: BTreeMap<&str, BTreeSet<RestHalf>> = BTreeMap::new();
    for told in &told {
        halves.entry(told.form).or_default().insert(told.half);
    }
    told.retain(|told| halves[told.form].len() == 2);
    let all: Vec<&Told> = told.iter().collect();
    let of_all = Logs::of(&all, &|seen| Some(seen.throughput));
    let ProbeRatio { ratio, interval } = of_all.ratio(0.5 * (1.0 + CONFIDENCE))?;
    let mut by_form: BTreeMap<&str, Vec<&Told>> = BTreeMap::new();
    for told in &told {
        by_form.entry(told.form).or_default().push(told);
    }
    let logs_of =
        |told: &[&Told]| [Logs::of(told, &|seen| Some(seen.throughput)), Logs::of(told, &|seen| seen.cpu_per_op)];
    let by_form = by_form.into_iter().map(|(form, told)| (form, logs_of(&told), told));
    let by_form: Vec<(&str, [Logs; 2], Vec<&Told>)> = by_form.collect();
    // A warning names whichever form, and whichever of its figures, seems to suffer.
    let is_claim = |logs: &&Logs| logs.ratio(CONFIDENCE).is_some_and(|ratio| ratio.interval.is_some());
    let claims = by_form.iter().flat_map(|(_, logs, _)| logs).filter(is_claim).count() as u32;
    let level = Family::level(claims);
    let forms = by_form.into_iter().filter_map(|(form, [throughput, cpu_per_op], told)| {
        Some(FormProbeCost {
            form: form.to_owned(),
            throughput: throughput.ratio(level)?,
            cpu_per_op: cpu_per_op.ratio(level),
            trials: told.len() as u32,
            rests: rests_of(&told),
        })
    });
    Some(ProbeCost { ratio, interval, trials: told.len() as u32, rests: rests_of(&all), forms: forms.collect() })
}

/// How many rests there were: those of trials that stood beside each other are the same ones.
fn rests_of(told: &[&Told]) -> u32 {
    let mut most: BTreeMap<u32, usize> = BTreeMap::new();
    for told in told {
        let most = most.entry(told.unit).or_default();
        *most = told.rests.len().max(*most);
    }
    most.into_values().sum::<usize>() as u32
}

/// The load of a trial, where it took turns.
fn by_turns(trial: &TrialData) -> Option<&LoadSummary> {
    trial.record.load.as_ref().filter(|load| load.turns.is_some())
}

/// Whether a trial is of the baseline, in a block of another kind than those of its control. The baseline is in every
/// block of a round, and does not warm up alike beside different forms.
fn is_beside_another_kind(trial: &TrialData, trials: &[&TrialData]) -> bool {
    let own = &trial.record.trial;
    let of_control = |other: &&&TrialData| {
        let planned = &other.record.trial;
        planned.control && planned.form == own.form && by_turns(other).is_some()
    };
    let mut with_control = trials.iter().filter(of_control).map(|control| control.record.trial.block).peekable();
    by_turns(trial).is_some() && with_control.peek().is_some() && !with_control.any(|block| block == own.block)
}

/// Whether two trials took turns with each other.
fn are_beside(one: &TrialData, other: &TrialData) -> bool {
    let Some((own, others)) = by_turns(one).zip(by_turns(other)) else { return false };
    let overlap = own.measure_start_ns < others.measure_end_ns && others.measure_start_ns < own.measure_end_ns;
    one.record.trial.block == other.record.trial.block && overlap
}

/// By rest of a trial: the log of what the load was in the other half of its stretch by what it was in the rest. None
/// of one that has not as much measured load beside it, without another rest in it.
fn of_rests(trial: &TrialData, half: RestHalf, rests: &[Rest]) -> Vec<Seen> {
    let cost = |rest: &Rest| {
        let length = rest.to_ns - rest.from_ns;
        let (from_ns, to_ns) = match half {
            RestHalf::First => (rest.ends_ns, rest.ends_ns.saturating_add(length)),
            RestHalf::Second => (rest.begins_ns.saturating_sub(length), rest.begins_ns),
        };
        if rests.iter().any(|other| other.begins_ns < to_ns && other.ends_ns > from_ns) {
            return None;
        }
        let (beside, within) = (seen(trial, (from_ns, to_ns))?, seen(trial, (rest.from_ns, rest.to_ns))?);
        let cpu = beside.cpu_per_op.zip(within.cpu_per_op);
        Some(Seen {
            throughput: (beside.throughput / within.throughput).ln(),
            cpu_per_op: cpu.map(|(beside, within)| (beside / within).ln()),
        })
    };
    rests.iter().filter_map(cost).collect()
}

/// What the load of a trial was from one moment to another, as far as whole seconds, or spans of turns, lie between
/// them.
fn seen(trial: &TrialData, (from_ns, to_ns): (u64, u64)) -> Option<Seen> {
    let Some(load) = by_turns(trial) else {
        let begin = |row: &SecondRow| row.at_ns.saturating_sub((row.seconds * 1e9) as u64);
        let is_within = |row: &&SecondRow| {
            let counts = row.measured && row.seconds > 0.0 && row.operations > 0;
            counts && begin(row) >= from_ns && row.at_ns <= to_ns
        };
        let sum = |sum: (u64, f64), row: &SecondRow| (sum.0 + row.operations, sum.1 + row.seconds);
        let (operations, seconds) = trial.seconds.iter().filter(is_within).fold((0, 0.0), sum);
        return (seconds > 0.0).then(|| Seen { throughput: operations as f64 / seconds, cpu_per_op: None });
    };
    let within: Vec<&TurnSpan> =
        load.spans.iter().filter(|span| span.from_ns >= from_ns && span.to_ns <= to_ns).collect();
    let total = |read: fn(&TurnSpan) -> u64| within.iter().map(|span| read(span) as f64).sum::<f64>();
    let throughput = total(|span| span.answers) / (total(|span| span.active_ns) / 1e9);
    // Counted in some turns at least, not in every one of them.
    let (cpu, during) = (total(|span| span.used.cpu_ns), total(|span| span.used.during_ns));
    let busy = (cpu > 0.0 && during > 0.0).then(|| cpu / during);
    let is_known = throughput.is_finite() && throughput > 0.0;
    is_known.then(|| Seen { throughput, cpu_per_op: busy.map(|busy| busy / throughput) })
}

/// A rest of one sampler: the reading before it, how long it lasted, and the reading after it, ns.
#[derive(Debug, Clone, Copy)]
struct Rested {
    from_ns: u64,
    lasts_ns: u64,
    ends_ns: u64,
}

impl Rested {
    /// When it is over at the earliest: the reading before it takes a moment.
    fn to_ns(self) -> u64 {
        self.from_ns.saturating_add(self.lasts_ns)
    }
}

/// The rests of each sampler that there are rows of, here and in guests.
fn of_samplers(telemetry: &[TelemetryRow]) -> Vec<Vec<Rested>> {
    let mut rows: BTreeMap<(Vantage, &str), Vec<(u64, f64)>> = BTreeMap::new();
    for row in telemetry.iter().filter(|row| is_probe(row)) {
        let rested_s = row.values.get(RESTED).copied().unwrap_or_default();
        rows.entry((row.vantage, row.scope.as_str())).or_default().push((row.at_ns, rested_s));
    }
    let of = |mut rows: Vec<(u64, f64)>| {
        rows.sort_by_key(|row| row.0);
        let rested = |pair: &[(u64, f64)]| Rested {
            from_ns: pair[0].0,
            lasts_ns: ((pair[1].1 - pair[0].1) * 1e9) as u64,
            ends_ns: pair[1].0,
        };
        rows.windows(2).filter(|pair| pair[1].1 > pair[0].1).map(rested).collect::<Vec<Rested>>()
    };
    rows.into_values().map(of).collect()
}

/// Whether a row is of a sampler itself, here or in a guest.
pub(crate) fn is_probe(row: &TelemetryRow) -> bool {
    row.scope.split(' ').next() == Some(PROBE)
}

/// A rest of several samplers.
#[derive(Debug, Clone, Copy)]
struct Rest {
    /// Up to here all were at work.
    begins_ns: u64,
    /// From here on all rested,
    from_ns: u64,
    /// and up to here.
    to_ns: u64,
    /// From here on all were at work again.
    ends_ns: u64,
}

/// The rests that all of these samplers took together.
fn together(samplers: &[&Vec<Rested>]) -> Vec<Rest> {
    let Some((first, others)) = samplers.split_first() else { return Vec::new() };
    let with_others = |own: &Rested| {
        let Rested { from_ns, ends_ns, .. } = *own;
        let alone = Rest { begins_ns: from_ns, from_ns, to_ns: own.to_ns(), ends_ns };
        let all = others.iter().try_fold(alone, |rest, sampler| {
            let overlaps = |other: &&Rested| other.from_ns < alone.to_ns && other.ends_ns > alone.from_ns;
            let other = sampler.iter().find(overlaps)?;
            Some(Rest {
                begins_ns: rest.begins_ns.min(other.from_ns),
                from_ns: rest.from_ns.max(other.from_ns),
                to_ns: rest.to_ns.min(other.to_ns()),
                ends_ns: rest.ends_ns.max(other.ends_ns),
            })
        });
        all.filter(|rest| rest.from_ns < rest.to_ns)
    };
    first.iter().filter_map(with_others).collect()
}

#[cfg(test)]
mod tests;
