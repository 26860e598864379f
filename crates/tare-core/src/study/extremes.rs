//! Every number of a study and of a workload at its extremes: each is either reported as a mistake with place and hint,
//! or handled by everything that is computed before a run.

use super::tests::read_toy;
use crate::plan::plan;

const STUDY: &str = "\
study: s
workload: toy
load: {closed: {connections: 4, pipeline: 2}}
time: {settle: 1s, measure: 8s, timeout: 10s}
until: {half_width: 2%, at_most: 20m, blocks: 40}
margin: 1%
design: {alternate: {slice: 10s, settle: 2s}}
emulated_blocks: 1
seed: 7
qos: {failures: 1%, achieved: 99%, \"*\": {p99: 10ms}}
resources: {cpus: 2, cpu_quota: 1.5, memory: 64MiB}
instances: {toy: 1, tiles: 1}
forms: {plain: [], boxed: {layers: [box], instances: {toy: 1}, resources: {memory: 32MiB, cpu_quota: 0.5}}}
";

const WORKLOAD: &str = "\
workload: toy
services:
  toy:
    bundle: {packages: [toy]}
    command: [/usr/bin/toy, '${{port.main}}']
    user: 999:998
    ports: {main: 7000}
    ready: {port: main, within: 20s}
    volumes: {/data: 64MiB, /more: 32MiB}
    resources: {cpus: 1, cpu_quota: 0.5, memory: 128MiB}
    stop_within: 10s
    instances: 1
load:
  protocol: {null: {}}
";

/// Loads that replace the study's own.
const LOADS: [&str; 6] = [
    "{open: {rate: 1000.5, connections: 3, in_flight: 500}}",
    "{users: {users: 20, think: {normal: {mean: 2s, sd: 3s, min: 1s, max: 9s}}, ramp: 5s}}",
    "{users: {users: 20, cycle: {exponential: {mean: 2s}}, connections: {shared: 4}}}",
    "{steps: {of: {closed: {}}, levels: [1, 22], warm: {level: 2, for: 3s}, ramp: 1s, settle: 2s, measure: 3s}}",
    "{peak: {of: {closed: {}}, start: 2, at_least: 1, at_most: 64, hint: 8, window: 15s, settle: 3s, warm: 9s, \
     windows: 30, half_width: 5%, budget: 1h}}",
    "{replay: {file: trace, connections: 5, in_flight: 10, speed: 2.5}}",
];

/// Numbers that no measure has; each is tried with a unit appended too.
const EXTREMES: [&str; 17] = [
    "0",
    "-1",
    "1ns",
    "nan",
    "-nan",
    "inf",
    "-inf",
    "1e19",
    "1e308",
    "-1e308",
    "1e-308",
    "1e400",
    "10000000000000000000",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "0.000000000000000000000000000000000000000000001",
];

/// The numbers in a text: start, end and unit of each.
fn numbers(text: &str) -> Vec<(usize, usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(|c: char| c.is_ascii_digit()).map(|start| at + start) {
        let number =
            text[start..].find(|c: char| !c.is_ascii_digit() && c != '.').map_or(text.len(), |end| start + end);
        let end =
            text[number..].find(|c: char| !c.is_alphanumeric() && c != '%').map_or(text.len(), |end| number + end);
        if text[..start].ends_with([' ', '[', ':', '=']) {
            found.push((start, end, &text[number..end]));
        }
        at = end.max(start + 1);
    }
    found
}

/// Reads both, and computes everything that is computed before a run.
fn try_out(study: &str, workload: &str) -> Result<(), String> {
    let (study, workload) = read_toy(study, workload)?;
    assert!(!plan(&study, &[], 7).is_empty());
    for form in &study.forms {
        let spelled = form.instances.over(&study.instances).spell_out(&workload);
        let memory: u64 = spelled.services.iter().map(|service| service.resources.memory_bytes).sum();
        let volumes = crate::workload::volume_bytes(&spelled.services);
        assert!(memory.checked_add(volumes).is_some());
    }
    let whole = (study.settle + study.measure + study.timeout) * study.repeat * study.forms.len() as u32;
    assert!(std::time::Instant::now().checked_add(whole).is_some());
    for service in &workload.services {
        assert!(std::time::Instant::now().checked_add(service.stop_within + service.ready.within() * 10).is_some());
    }
    let text = serde_json::to_string(&(&study, &workload)).unwrap() + &study.design.describe() + &study.load.describe();
    assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
    Ok(())
}

#[test]
fn extreme_numbers_are_mistakes_with_a_place_or_borne() {
    let mut refused = 0;
    let (study, workload) = (STUDY.to_owned(), WORKLOAD.to_owned());
    try_out(&study, &workload).unwrap();
    let own = "{closed: {connections: 4, pipeline: 2}}";
    let mut cases: Vec<(String, String, bool)> = vec![(study.clone(), workload.clone(), true)];
    cases.push((study.clone(), workload.clone(), false));
    let blocks = study.replace("design: {alternate: {slice: 10s, settle: 2s}}\n", "");
    let fixed = blocks.replace("until: {half_width: 2%, at_most: 20m, blocks: 40}\n", "repeat: 3\nat_most: 9h\n");
    let mut others: Vec<String> = LOADS.iter().map(|load| fixed.replace(own, load)).collect();
    others.push(blocks.replace("settle: 1s", "settle: {until: steady, at_least: 1s, at_most: 60s}"));
    others.push(fixed.replace("{toy: 1, tiles: 1}", "{toy: 2, tiles: 2}"));
    for other in others {
        try_out(&other, &workload).unwrap_or_else(|why| panic!("{other}: {why}"));
        cases.push((other, workload.clone(), true));
    }
    for (study, workload, of_study) in &cases {
        let text = if *of_study { study } else { workload };
        for (start, end, unit) in numbers(text) {
            for extreme in EXTREMES.iter().flat_map(|extreme| [extreme.to_string(), format!("{extreme}{unit}")]) {
                let bent = format!("{}{extreme}{}", &text[..start], &text[end..]);
                let tried = if *of_study { try_out(&bent, workload) } else { try_out(study, &bent) };
                if let Err(told) = tried {
                    assert!(told.contains(".yaml:"), "{bent}: {told}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 2_000, "{refused}");
}
