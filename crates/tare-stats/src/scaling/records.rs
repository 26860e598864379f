//! Sweeps out of records: the levels of one record's load, or a record for each number of instances.

use super::caution::Caution;
use super::sweep::{LevelValue, Pairing, Scaling, scaling};
use serde::Serialize;
use std::collections::BTreeMap;
use tare_core::load::{LoadProfile, WindowRow};
use tare_core::record::{Record, TrialData};
use tare_core::trial::Outcome;

/// A form's sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FormScaling {
    /// The form.
    pub form: String,
    /// What the levels count: `connections`, `users` or `instances`.
    pub of: String,
    /// The sweep.
    pub scaling: Scaling,
}

/// The sweeps of a record whose load goes up in steps of connections or users, in the order of the study; emulated
/// forms are left out. Windows in which the generator may have been the limit do not count.
///
/// # Errors
/// When the load has no such steps, in words that fit after "error: ".
pub fn scaling_of_steps(record: &Record) -> Result<Vec<FormScaling>, String> {
    let LoadProfile::Steps { of, .. } = &record.header.study.load else {
        return Err("the load of this record has no steps".to_owned());
    };
    let of = match **of {
        LoadProfile::Closed { .. } => "connections",
        LoadProfile::Users { .. } => "users",
        _ => {
            return Err(
                "steps of a rate ask for a throughput; only users and connections can show how it scales".into()
            );
        }
    };
    Ok(by_form(record, Pairing::Blocks, of, |trial| {
        let load = trial.record.load.as_ref();
        let windows = load.into_iter().flat_map(|load| &load.windows).filter(|window| window.saturated.is_none());
        windows.filter_map(|window| Some((window.level, throughput(window)?))).collect()
    }))
}

/// The sweeps of several records, each measured with so many instances, connections or users: every form that all of
/// them have. `of` names what the levels count. The blocks of several records with one number count together, each as
/// one of its own, and a caution says so.
pub fn scaling_of_records(records: &[(f64, Record)], of: &str) -> Vec<FormScaling> {
    let mut values: BTreeMap<String, Vec<LevelValue>> = BTreeMap::new();
    let mut forms: Vec<String> = Vec::new();
    for (at, (level, record)) in records.iter().enumerate() {
        // Block 0 of one record has nothing to do with block 0 of another.
        let before = records[..at].iter().filter(|(other, _)| other == level);
        let first_block: u32 = before.map(|(_, record)| blocks_in(record)).sum();
        for (form, trials) in measured(record) {
            if !forms.contains(&form) {
                forms.push(form.clone());
            }
            let of_trial = |trial: &&TrialData| {
                let throughput = *trial.record.metrics.get("throughput")?;
                Some(LevelValue { level: *level, block: first_block + trial.record.trial.block, throughput })
            };
            values.entry(form).or_default().extend(trials.iter().filter_map(of_trial));
        }
    }
    let everywhere =
        |form: &String| records.iter().all(|(_, record)| measured(record).iter().any(|(name, _)| name == form));
    let common = forms.into_iter().filter(everywhere);
    let together = together(records, of);
    let sweep = |form: String| {
        let mut scaling = scaling(values.get(&form).map(Vec::as_slice).unwrap_or_default(), Pairing::Independent);
        scaling.cautions.extend(together.iter().cloned());
        FormScaling { of: of.to_owned(), scaling, form }
    };
    common.map(sweep).collect()
}

/// How many blocks a record has, those that were run again included.
fn blocks_in(record: &Record) -> u32 {
    record.trials.iter().map(|trial| trial.record.trial.block + 1).max().unwrap_or(0)
}

/// Of which numbers there are several records.
fn together(records: &[(f64, Record)], of: &str) -> Vec<Caution> {
    let mut several = Vec::new();
    for (at, (level, _)) in records.iter().enumerate() {
        let count = records.iter().filter(|(other, _)| other == level).count();
        if count > 1 && !records[..at].iter().any(|(other, _)| other == level) {
            several.push(Caution::RecordsTogether { records: count, level: *level, of: of.to_owned() });
        }
    }
    several
}

/// Correct answers to what was planned in the window, by its length.
fn throughput(window: &WindowRow) -> Option<f64> {
    let seconds = window.to_ns.saturating_sub(window.from_ns) as f64 / 1e9;
    let answered: u64 = window.operations.values().map(|counts| counts.answered).sum();
    (seconds > 0.0).then(|| answered as f64 / seconds)
}

/// Measured trials by form, the A/A control and emulated forms left out.
fn measured(record: &Record) -> Vec<(String, Vec<&TrialData>)> {
    let header = &record.header;
    let emulated = |form: &str| header.forms.get(form).is_some_and(|state| state.emulated.is_some());
    let of_form = |form: &str| -> Vec<&TrialData> {
        let counts = |trial: &&TrialData| {
            let trial = &trial.record;
            trial.outcome == Outcome::Measured && trial.trial.form == form && !trial.trial.control && !trial.emulated
        };
        record.trials.iter().filter(counts).collect()
    };
    let forms = header.study.forms.iter().map(|form| form.name.clone()).filter(|form| !emulated(form));
    forms.map(|form| (form.clone(), of_form(&form))).filter(|(_, trials)| !trials.is_empty()).collect()
}

fn by_form(
    record: &Record,
    pairing: Pairing,
    of: &str,
    levels: impl Fn(&TrialData) -> Vec<(f64, f64)>,
) -> Vec<FormScaling> {
    let sweep = |(form, trials): (String, Vec<&TrialData>)| {
        let values: Vec<LevelValue> = trials
            .iter()
            .flat_map(|trial| {
                let block = trial.record.trial.block;
                levels(trial).into_iter().map(move |(level, throughput)| LevelValue { level, block, throughput })
            })
            .collect();
        FormScaling { form, of: of.to_owned(), scaling: scaling(&values, pairing) }
    };
    measured(record).into_iter().map(sweep).collect()
}
