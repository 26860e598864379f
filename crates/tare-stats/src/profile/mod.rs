//! What profiled trials say: of each form one, so these are leads and no measurements. None of it has an interval, and
//! nothing of it goes into a verdict.

mod flame;

pub use flame::{Flame, flame};

use crate::cpu::serving_cpu_s;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tare_core::fault::Fault;
use tare_core::profile::{Profile, Stack};
use tare_core::record::{Record, TrialData};

/// What the profiled trial of a form says, beside that of the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FormProfile {
    /// The form.
    pub form: String,
    /// Why there is no profile, or why what the trial came to is in doubt.
    pub why: Option<Fault>,
    /// What could not be looked at, and why.
    pub missing: BTreeMap<String, Fault>,
    /// Samples of call stacks.
    pub samples: u64,
    /// CPU time of the processes that serve, us per operation, while they were watched.
    pub cpu_us_per_op: Option<f64>,
    /// The same in the trials that count, on average.
    pub counted_cpu_us_per_op: Option<f64>,
    /// CPU time by what was sampled as a whole: a service, a port proxy, a hypervisor; most first.
    pub scopes: Vec<TimeRow>,
    /// Functions with what they call, by how much they differ from the baseline; of the baseline itself by their time.
    /// A function most of whose difference lies in one that it calls is left out, and what sampling alone makes is too.
    pub functions: Vec<TimeRow>,
    /// System calls of all that serves, per operation, by how much they differ from the baseline.
    pub calls: Vec<CallRow>,
}

/// CPU time of a part, with that of the baseline's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimeRow {
    /// What.
    pub name: String,
    /// CPU time, us per operation.
    pub us_per_op: f64,
    /// The baseline's; none in the baseline's own row, or where it has no profile.
    pub baseline_us_per_op: Option<f64>,
}

impl TimeRow {
    /// How much more than in the baseline, us per operation; of the baseline itself, all of it.
    pub fn difference_us(&self) -> f64 {
        self.us_per_op - self.baseline_us_per_op.unwrap_or(0.0)
    }
}

/// How often a system call was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallRow {
    /// Its name.
    pub name: String,
    /// Times per operation.
    pub per_op: f64,
    /// The baseline's; see [`TimeRow::baseline_us_per_op`].
    pub baseline_per_op: Option<f64>,
}

impl CallRow {
    /// How much more often than in the baseline, per operation.
    pub fn difference(&self) -> f64 {
        self.per_op - self.baseline_per_op.unwrap_or(0.0)
    }
}

/// Calls that are made less often than this are left out: once in so many operations is what a timer does.
const CALLS_MIN: f64 = 0.000_5;

/// A difference in CPU time counts as one beyond this many standard deviations of what sampling alone makes.
const DEVIATIONS: f64 = 3.0;

/// A function is only the way to one that it calls when that one has this share of its difference.
const MOSTLY: f64 = 0.7;

/// The profiles of a record, the baseline's first.
pub(crate) fn profiles(record: &Record) -> Vec<FormProfile> {
    let baseline = record.profiles.iter().find(|trial| trial.record.trial.form == record.header.study.baseline);
    let base = baseline.and_then(Seen::of);
    let of = |trial: &TrialData| {
        let own = trial.record.trial.form == record.header.study.baseline;
        let base = base.as_ref().filter(|_| !own);
        let seen = Seen::of(trial);
        let profile = trial.record.profile.as_ref();
        // Where no stack was seen, no function took no time.
        let sampled = seen.as_ref().filter(|seen| seen.samples > 0);
        let rows = |rows: fn(&Seen, Option<&Seen>) -> Vec<TimeRow>| sampled.map(|seen| rows(seen, base));
        FormProfile {
            form: trial.record.trial.form.clone(),
            why: trial.record.outcome.why().cloned(),
            missing: profile.map(|profile| profile.missing.clone()).unwrap_or_default(),
            samples: seen.as_ref().map_or(0, |seen| seen.samples),
            cpu_us_per_op: seen.as_ref().and_then(|seen| seen.cpu_us),
            counted_cpu_us_per_op: counted_cpu(record, &trial.record.trial.form),
            scopes: rows(scopes).unwrap_or_default(),
            functions: rows(functions).unwrap_or_default(),
            calls: seen.as_ref().map(|seen| calls(seen, base)).unwrap_or_default(),
        }
    };
    record.profiles.iter().map(of).collect()
}

/// CPU time per operation in the trials of a form that count, their mean.
fn counted_cpu(record: &Record, form: &str) -> Option<f64> {
    let of_form = record.trials.iter().filter(|trial| trial.record.trial.form == form);
    let values: Vec<f64> = of_form.filter_map(|trial| trial.record.metrics.get("cpu_us_per_op").copied()).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A profile, with what makes of its counts something per operation.
struct Seen<'a> {
    profile: &'a Profile,
    operations: f64,
    samples: u64,
    cpu_us: Option<f64>,
    /// What a sample stands for, us per operation.
    us_per_sample: f64,
}

impl Seen<'_> {
    /// None without a profile, or without an operation to which it could be related.
    fn of(trial: &TrialData) -> Option<Seen<'_>> {
        let (profile, load) = (trial.record.profile.as_ref()?, trial.record.load.as_ref()?);
        let operations = load.operations.values().map(|operation| operation.count).sum::<u64>() as f64;
        if operations == 0.0 {
            return None;
        }
        let samples: u64 = profile.stacks.iter().map(|stack| stack.samples).sum();
        let cpu_us = serving_cpu_s(load, &trial.telemetry).map(|seconds| seconds * 1e6 / operations);
        // What the scheduler counted is exact, so the samples only say how it is divided.
        let sampled_us = 1e6 / f64::from(profile.stacks_per_s.max(1)) / operations;
        let us_per_sample = cpu_us.filter(|_| samples > 0).map_or(sampled_us, |us| us / samples as f64);
        Some(Seen { profile, operations, samples, cpu_us, us_per_sample })
    }

    /// By part of a stack: in how many samples it was met, wherever in the stack.
    fn met<'a>(&'a self, parts: impl Fn(&'a Stack) -> &'a [String]) -> BTreeMap<&'a str, u64> {
        let mut met = BTreeMap::new();
        for stack in &self.profile.stacks {
            // A function that calls itself is there once.
            for part in parts(stack).iter().map(String::as_str).collect::<BTreeSet<_>>() {
                *met.entry(part).or_default() += stack.samples;
            }
        }
        met
    }
}

/// The functions of a stack, behind the scope and the thread.
fn functions_of(stack: &Stack) -> &[String] {
    stack.frames.get(2..).unwrap_or_default()
}

fn scopes(here: &Seen, base: Option<&Seen>) -> Vec<TimeRow> {
    let base = base.filter(|base| base.samples > 0);
    let of = |stack: &'_ Stack| -> usize { stack.frames.len().min(1) };
    let (own, theirs) =
        (here.met(|stack| &stack.frames[..of(stack)]), base.map(|base| base.met(|stack| &stack.frames[..of(stack)])));
    let mut rows = rows(here, base, &own, theirs.as_ref());
    rows.sort_by(|a, b| b.us_per_op.total_cmp(&a.us_per_op));
    rows
}

fn functions(here: &Seen, base: Option<&Seen>) -> Vec<TimeRow> {
    let base = base.filter(|base| base.samples > 0);
    let (own, theirs) = (here.met(functions_of), base.map(|base| base.met(functions_of)));
    let mut rows = rows(here, base, &own, theirs.as_ref());
    let (here_us, base_us) = (here.us_per_sample, base.map_or(0.0, |base| base.us_per_sample));
    // Samples are counts of rare events: their variance is their number.
    let clear = |row: &TimeRow| {
        let variance = row.us_per_op * here_us + row.baseline_us_per_op.unwrap_or(0.0) * base_us;
        row.difference_us().abs() > DEVIATIONS * variance.sqrt()
    };
    rows.retain(clear);
    let differences: BTreeMap<String, f64> = rows.iter().map(|row| (row.name.clone(), row.difference_us())).collect();
    let stacks = here.profile.stacks.iter().chain(base.iter().flat_map(|base| &base.profile.stacks));
    let ways = ways(stacks, &differences);
    rows.retain(|row| !ways.contains(row.name.as_str()));
    rows.sort_by(|a, b| b.difference_us().abs().total_cmp(&a.difference_us().abs()));
    rows
}

/// Functions most of whose difference lies in one that they call, directly or not.
fn ways<'a>(stacks: impl Iterator<Item = &'a Stack>, differences: &BTreeMap<String, f64>) -> BTreeSet<&'a str> {
    let mut ways = BTreeSet::new();
    for stack in stacks {
        let frames = functions_of(stack);
        for (at, outer) in frames.iter().enumerate() {
            let Some(whole) = differences.get(outer) else { continue };
            let holds = |inner: &String| {
                let part = differences.get(inner).filter(|_| inner != outer);
                part.is_some_and(|part| part.abs() >= MOSTLY * whole.abs() && part.signum() == whole.signum())
            };
            // Two that each lie in the other's stacks must not leave each other out.
            let inner = &frames[at + 1..];
            if inner.iter().any(|inner| holds(inner) && !ways.contains(inner.as_str())) {
                ways.insert(outer.as_str());
            }
        }
    }
    ways
}

fn rows(
    here: &Seen,
    base: Option<&Seen>,
    own: &BTreeMap<&str, u64>,
    theirs: Option<&BTreeMap<&str, u64>>,
) -> Vec<TimeRow> {
    let names: BTreeSet<&str> = own.keys().chain(theirs.iter().flat_map(|theirs| theirs.keys())).copied().collect();
    let us = |met: &BTreeMap<&str, u64>, name: &str, seen: &Seen| {
        met.get(name).copied().unwrap_or(0) as f64 * seen.us_per_sample
    };
    let row = |name: &str| TimeRow {
        name: name.to_owned(),
        us_per_op: us(own, name, here),
        baseline_us_per_op: base.zip(theirs).map(|(base, theirs)| us(theirs, name, base)),
    };
    names.into_iter().map(row).collect()
}

fn calls(here: &Seen, base: Option<&Seen>) -> Vec<CallRow> {
    let counted = |seen: &Seen| !seen.profile.calls.is_empty();
    let per_op = |seen: &Seen, name: &str| {
        let made = seen.profile.calls.values().filter_map(|calls| calls.get(name));
        made.sum::<f64>() / seen.operations
    };
    let base = base.filter(|base| counted(base));
    let of =
        |seen: &Seen| -> Vec<String> { seen.profile.calls.values().flat_map(|calls| calls.keys().cloned()).collect() };
    let names: BTreeSet<String> = of(here).into_iter().chain(base.into_iter().flat_map(of)).collect();
    let row = |name: String| CallRow {
        per_op: per_op(here, &name),
        baseline_per_op: base.map(|base| per_op(base, &name)),
        name,
    };
    let mut rows: Vec<CallRow> = if counted(here) { names.into_iter().map(row).collect() } else { Vec::new() };
    rows.retain(|row| row.per_op.max(row.baseline_per_op.unwrap_or(0.0)) >= CALLS_MIN);
    rows.sort_by(|a, b| b.difference().abs().total_cmp(&a.difference().abs()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(stacks: &[(&str, u64)], calls: &[(&str, f64)]) -> Profile {
        let text: String = stacks.iter().map(|(frames, samples)| format!("{frames} {samples}\n")).collect();
        let calls = calls.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Profile {
            stacks: tare_core::profile::unfolded(&text),
            calls: BTreeMap::from([("redis".to_owned(), calls)]),
            ..Profile::default()
        }
    }

    fn seen(profile: &Profile, us_per_sample: f64) -> Seen<'_> {
        let samples = profile.stacks.iter().map(|stack| stack.samples).sum();
        Seen { profile, operations: 1000.0, samples, cpu_us: None, us_per_sample }
    }

    #[test]
    fn what_differs_is_named_where_it_lies_and_not_on_the_way_there() {
        let base = profile(&[("redis;main;loop;read", 500), ("redis;main;loop;write;send", 500)], &[]);
        let here = profile(
            &[
                ("redis;main;loop;read", 510),
                ("redis;main;loop;write;send", 500),
                ("redis;main;loop;write;send;hook", 400),
            ],
            &[],
        );
        let (base, here) = (seen(&base, 0.01), seen(&here, 0.01));
        let rows = functions(&here, Some(&base));
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["hook"], "{rows:?}");
        assert!((rows[0].difference_us() - 4.0).abs() < 1e-9);
        let whole = scopes(&here, Some(&base));
        assert_eq!((whole[0].name.as_str(), whole[0].difference_us().round()), ("redis", 4.0));
    }

    #[test]
    fn a_function_that_calls_itself_counts_once() {
        let own = profile(&[("redis;main;walk;walk;walk", 100)], &[]);
        assert_eq!(
            functions(&seen(&own, 0.5), None),
            [TimeRow { name: "walk".into(), us_per_op: 50.0, baseline_us_per_op: None }]
        );
    }

    #[test]
    fn calls_are_told_by_operation_those_that_differ_most_first() {
        let base = profile(&[], &[("read", 1000.0), ("write", 1000.0), ("close", 0.1)]);
        let here = profile(&[], &[("read", 1010.0), ("write", 500.0), ("futex", 20.0)]);
        let rows = calls(&seen(&here, 1.0), Some(&seen(&base, 1.0)));
        let told: Vec<(&str, f64, f64)> =
            rows.iter().map(|row| (row.name.as_str(), row.per_op, row.baseline_per_op.unwrap())).collect();
        assert_eq!(told, [("write", 0.5, 1.0), ("futex", 0.02, 0.0), ("read", 1.01, 1.0)]);
        let none = profile(&[], &[]);
        let uncounted = Profile { calls: BTreeMap::new(), ..none };
        assert!(calls(&seen(&uncounted, 1.0), Some(&seen(&base, 1.0))).is_empty(), "not counted is not zero");
    }
}
