//! Where services were put, and where they were seen.

use std::collections::BTreeSet;
use tare_core::placement::Placed;
use tare_core::record::Record;
use tare_core::trial::Outcome;
use tare_core::units::CpuSet;

/// Where the services of some forms were, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// The forms, all that have it so.
    pub(crate) forms: Vec<String>,
    /// `redis: CPUs 0-3, memory of node 0`.
    pub(crate) services: Vec<String>,
}

/// Where services were planned to run, forms that have it the same way together, in the order of the study.
pub(crate) fn places(record: &Record) -> Vec<Places> {
    let mut all: Vec<Places> = Vec::new();
    for form in &record.header.study.forms {
        let state = record.header.forms.get(&form.name).filter(|state| state.unavailable.is_none());
        let Some(placement) = state.and_then(|state| state.placement.as_ref()) else { continue };
        let services: Vec<String> =
            placement.services.iter().map(|(service, placed)| format!("{service}: {}", words(placed))).collect();
        match all.iter_mut().find(|places| places.services == services) {
            Some(same) => same.forms.push(form.name.clone()),
            None => all.push(Places { forms: vec![form.name.clone()], services }),
        }
    }
    all
}

/// The same in a sentence for each group of forms.
pub(crate) fn lines(record: &Record) -> Vec<String> {
    let all = places(record);
    let single = all.len() == 1;
    let line = |places: &Places| {
        let services = places.services.join("; ");
        if single { services } else { format!("{services} (in {})", places.forms.join(", ")) }
    };
    all.iter().map(line).collect()
}

/// `CPUs 0-3, memory of node 0`.
pub(crate) fn words(placed: &Placed) -> String {
    let memory = match placed.memory.as_slice() {
        [] => String::new(),
        nodes => format!(", memory of node {}", CpuSet::new(nodes.iter().copied())),
    };
    format!("{}CPUs {}{memory}", if placed.free { "any of " } else { "" }, placed.cpus)
}

/// How much a counter of a service grew in each second that was measured, mean of the measured trials of a form; none
/// where nobody counted.
pub(crate) fn growth(record: &Record, form: &str, service: &str, counter: &str) -> Option<f64> {
    let of_form = record.trials.iter().filter(|trial| trial.record.trial.form == form);
    let grown = of_form.filter(|trial| trial.record.outcome == Outcome::Measured).filter_map(|trial| {
        let load = trial.record.load.as_ref()?;
        let measured = load.measure_start_ns..=load.measure_end_ns;
        let rows = trial.telemetry.iter().filter(|row| row.scope == service && measured.contains(&row.at_ns));
        let mut seen = rows.filter_map(|row| Some((row.at_ns, *row.values.get(counter)?)));
        let (first, last) = (seen.next()?, seen.next_back()?);
        Some((last.1 - first.1) / ((last.0 - first.0) as f64 / 1e9))
    });
    let grown: Vec<f64> = grown.collect();
    (!grown.is_empty()).then(|| grown.iter().sum::<f64>() / grown.len() as f64)
}

/// The CPUs on which a service was seen in all trials of a form, as they are numbered there.
pub(crate) fn seen(record: &Record, form: &str, service: &str) -> CpuSet {
    let of_form = record.trials.iter().filter(|trial| trial.record.trial.form == form);
    let sets = of_form.filter_map(|trial| trial.record.ran_on.get(service));
    let cpus: BTreeSet<u32> = sets.flat_map(|set| set.cpus().iter().copied()).collect();
    CpuSet::new(cpus)
}
