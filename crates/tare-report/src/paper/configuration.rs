//! How it was measured: settings of the study, what runs in the forms, and the machine.

use super::document::Piece;
use super::study::Study;
use crate::html::form_facts;
use crate::words;
use std::collections::BTreeSet;
use tare_core::host::Facts;
use tare_core::record::{Header, NOT_COUNTED};
use tare_core::units::show_bytes;
use tare_core::workload::Resources;

/// The chapter of a study.
pub(super) fn pieces(study: &Study<'_>) -> Vec<Piece> {
    let rows = settings(study).into_iter().map(|(name, value)| vec![name, value]).collect();
    let mut pieces = vec![Piece::table("The settings", &["Setting", "Value"], rows)];
    let facts = study.analysis.forms().flat_map(|arm| {
        let facts = form_facts(study.record, &arm.form).into_iter();
        facts.map(|(fact, value)| vec![arm.name.clone(), fact, value])
    });
    let facts: Vec<Vec<String>> = facts.collect();
    if !facts.is_empty() {
        pieces.push(Piece::table("What the forms are made of", &["Form", "Fact", "Value"], facts));
    }
    pieces
}

fn settings(study: &Study<'_>) -> Vec<(String, String)> {
    let (record, analysis) = (study.record, study.analysis);
    let Header { study: of, workload, bundles, .. } = &record.header;
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut say = |name: &str, value: String| rows.push((name.to_owned(), value));
    say("Study", of.name.clone());
    say("Workload", workload.name.clone());
    say("Load", words::load(record));
    say("Design", words::design(record));
    say("Baseline", of.baseline.clone());
    say("A/A control", format!("{}: an identical copy of the baseline, measured like a form", analysis.control));
    if let Some(qos) = &of.qos {
        say("QoS", qos.describe());
    }
    for (option, level) in &of.options {
        say(&format!("Option {option}"), level.clone());
    }
    for service in &workload.services {
        say(&format!("Resources asked for by {}", service.name), resources(service.resources));
    }
    for (service, digest) in bundles {
        say(&format!("Bundle of {service}"), digest.clone());
    }
    for bits in &analysis.bits {
        say(&format!("Same bits of {}", bits.service), words::same_bits(bits));
    }
    for service in &analysis.resources {
        say(&format!("Resources of {}", service.service), words::resources(service));
    }
    rows
}

/// `2 CPUs, at most 1.5 CPUs of time, 512 MiB`.
fn resources(resources: Resources) -> String {
    let Resources { cpus, cpu_quota, memory_bytes } = resources;
    let cpus = if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
    let quota = cpu_quota.map(|quota| format!(", a quota of {quota} CPUs")).unwrap_or_default();
    format!("{cpus}{quota}, {}", show_bytes(memory_bytes))
}

/// Facts of several runs as one table: what is the same in all of them stands once, the others with what they are of.
pub(super) fn machine(facts: &[(String, Facts)]) -> Vec<Piece> {
    let keys: BTreeSet<&String> = facts.iter().flat_map(|(_, facts)| facts.keys()).collect();
    let value = |key: &String| {
        let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
        for (label, facts) in facts {
            let value = facts.get(key).map_or("absent", String::as_str);
            match values.iter_mut().find(|(known, _)| *known == value) {
                Some((_, labels)) => labels.push(label.as_str()),
                None => values.push((value, vec![label.as_str()])),
            }
        }
        match values.as_slice() {
            [(value, _)] => (*value).to_owned(),
            all => {
                let of: Vec<String> =
                    all.iter().map(|(value, labels)| format!("{value} ({})", labels.join("; "))).collect();
                of.join("; ")
            }
        }
    };
    // Why something was not counted is among the limits.
    let shown = keys.into_iter().filter(|key| !key.starts_with(NOT_COUNTED));
    let rows: Vec<Vec<String>> = shown.map(|key| vec![key.clone(), value(key)]).collect();
    if rows.is_empty() { Vec::new() } else { vec![Piece::table("The machine", &["Fact", "Value"], rows)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_machines_share_stands_once() {
        let facts = |kernel: &str| Facts::from([("cpu".to_owned(), "x".to_owned()), ("kernel".into(), kernel.into())]);
        let rows = |of: &[(String, Facts)]| match machine(of).pop() {
            Some(Piece::Table(table)) => table.rows,
            other => panic!("{other:?}"),
        };
        let [a, b] = [("a".to_owned(), facts("6.1")), ("b".to_owned(), facts("6.12"))];
        assert_eq!(rows(&[a.clone(), a.clone()]), [["cpu", "x"], ["kernel", "6.1"]]);
        assert_eq!(rows(&[a, b]), [["cpu", "x"], ["kernel", "6.1 (a); 6.12 (b)"]]);
        assert!(machine(&[]).is_empty());
    }
}
