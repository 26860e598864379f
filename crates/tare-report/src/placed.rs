//! Where services were put, and where they were seen.

use std::collections::BTreeSet;
use tare_core::placement::Placed;
use tare_core::record::Record;
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

/// The CPUs on which a service was seen in all trials of a form, as they are numbered there.
pub(crate) fn seen(record: &Record, form: &str, service: &str) -> CpuSet {
    let of_form = record.trials.iter().filter(|trial| trial.record.trial.form == form);
    let sets = of_form.filter_map(|trial| trial.record.ran_on.get(service));
    let cpus: BTreeSet<u32> = sets.flat_map(|set| set.cpus().iter().copied()).collect();
    CpuSet::new(cpus)
}
