//! Findings of what was recorded on a real machine: planted causes, and equals.

use super::rule::RULES;
use super::*;
use crate::analyse;
use crate::contrast::pairs;
use crate::figures::Evidence;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tare_core::plan::{control_arm, plan};
use tare_core::record::{TrialData, TrialRecord};
use tare_core::trial::Outcome;

#[path = "../../tests/records/mod.rs"]
mod records;

/// A trial's metrics, and what the kernel counted.
#[derive(Debug, Clone, Default)]
struct Seen {
    metrics: BTreeMap<String, f64>,
    evidence: BTreeMap<String, Evidence>,
}

/// By arm and block.
type Run = BTreeMap<String, BTreeMap<u32, Seen>>;

/// A run as `tare report RECORD --format csv` wrote it; columns that are not asked for may be absent.
fn recorded(name: &str) -> Run {
    let path = format!("{}/tests/recorded/{name}.csv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|known| *known == name).unwrap();
    let [block, arm, metric, unit, value] = ["block", "arm", "metric", "unit", "value"].map(column);
    let mut run = Run::new();
    for cells in lines.map(|line| line.split(',').collect::<Vec<&str>>()) {
        let Ok(number) = cells[value].parse::<f64>() else { continue };
        let seen = run.entry(cells[arm].to_owned()).or_default();
        let seen: &mut Seen = seen.entry(cells[block].parse().unwrap()).or_default();
        match cells[metric].strip_prefix("evidence.") {
            Some(name) => {
                let unit = ["us", "share"].into_iter().find(|known| *known == cells[unit]).unwrap_or("");
                let found = Evidence { title: name.to_owned(), unit, value: number };
                seen.evidence.insert(name.to_owned(), found);
            }
            None => drop(seen.metrics.insert(cells[metric].to_owned(), number)),
        }
    }
    run
}

/// What is said of a run with these forms, the first being the baseline.
fn explained(run: &Run, forms: &[&str]) -> Vec<Explanation> {
    let blocks = run[forms[0]].len() as u32;
    let study = records::study(forms, blocks);
    let planned = plan(&study, &[], 1);
    let number = |block: u32, arm: &str| run.get(arm)?.values().nth(block as usize);
    let trial = |planned: &tare_core::plan::PlannedTrial| {
        let seen = number(planned.block, &planned.arm())?;
        let mut record = TrialRecord::new(planned.clone(), String::new(), Outcome::Measured);
        record.metrics = seen.metrics.clone();
        Some(TrialData { record, seconds: Vec::new(), telemetry: Vec::new() })
    };
    let trials = planned.iter().filter_map(trial).collect();
    let analysis = analyse(&records::record(study, planned.clone(), trials));
    let mut cells: BTreeMap<String, Cell> = BTreeMap::new();
    for planned in &planned {
        if let Some(seen) = number(planned.block, &planned.arm()) {
            cells.entry(planned.arm()).or_default().insert(planned.block, seen.evidence.clone());
        }
    }
    let pairs = pairs(forms[0], &analysis.arms, None, None);
    explanations(&cells, &pairs, forms[0], &analysis.arms, &analysis.metrics, (None, None))
}

/// The rules that speak of a form, in their order; none where its performance does not differ.
fn rules_of(explained: &[Explanation], form: &str) -> Option<Vec<String>> {
    let explanation = explained.iter().find(|explanation| explanation.form == form)?;
    Some(explanation.findings.iter().map(|finding| finding.rule.clone()).collect())
}

#[test]
fn a_planted_cause_is_the_first_finding() {
    let run = recorded("planted");
    let causes = [
        ("quota", "cpu-quota"),
        ("neighbour", "busy-neighbour"),
        ("sleeps", "sleeps"),
        ("backlog", "full-backlog"),
        ("syncs", "synchronous-writes"),
        ("reads", "memory-limit"),
    ];
    let forms: Vec<&str> = ["plain"].into_iter().chain(causes.map(|(form, _)| form)).collect();
    let explained = explained(&run, &forms);
    for (form, rule) in causes {
        let rules = rules_of(&explained, form).unwrap_or_else(|| panic!("{form} does not differ"));
        assert_eq!(rules.first().map(String::as_str), Some(rule), "{form}: {explained:#?}");
        assert!(explained.iter().all(|explanation| explanation.slower == explanation.form), "{explained:#?}");
    }
}

/// Two forms of equals and the control, of so many blocks, in each block dealt anew.
fn dealt(run: &Run, blocks_wanted: u32, seed: u64) -> Run {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut blocks: Vec<u32> = run["plain"].keys().copied().collect();
    let mut dealt = Run::new();
    for at in 0..blocks_wanted {
        let block = blocks.swap_remove(random.next_u64() as usize % blocks.len());
        let mut arms: Vec<&Seen> = run.values().filter_map(|arm| arm.get(&block)).collect();
        for arm in ["plain", &control_arm("plain"), "same"] {
            let seen = arms.swap_remove(random.next_u64() as usize % arms.len());
            dealt.entry(arm.to_owned()).or_default().insert(at, seen.clone());
        }
    }
    dealt
}

#[test]
fn equals_have_no_finding() {
    let run = recorded("equals");
    for blocks in [3, 5, 10] {
        let explained = |seed: u64| explained(&dealt(&run, blocks, seed), &["plain", "same"]);
        let found = |seed: &u64| explained(*seed).iter().any(|explanation| !explanation.findings.is_empty());
        let wrong: Vec<u64> = (0..100).filter(found).collect();
        println!("{} of 100 pairs of equals with {blocks} blocks have a finding", wrong.len());
        assert!(wrong.len() <= 5, "{blocks} blocks: {wrong:?}");
    }
}

/// Equals of which one was made slower, and the figures of a rule's conditions larger by `size` times what it asks.
fn made(run: &Run, rule: &Rule, size: f64) -> Run {
    let mut run = run.clone();
    let asked: Vec<&Condition> = rule.when.iter().chain(rule.any.first()).collect();
    let plain = run["plain"].clone();
    for (block, seen) in run.get_mut("same").unwrap() {
        let before = &plain[block];
        for (name, value) in &mut seen.metrics {
            let factor = if name == "throughput" { 0.5 } else { 2.0 };
            *value = before.metrics[name] * factor;
        }
        for condition in &asked {
            let there = before.evidence.get(&condition.figure).map_or(0.0, |evidence| evidence.value);
            // What is asked for as a ratio is asked for besides.
            let more = (condition.by * size).max((condition.times - 1.0) * there * size);
            let value = there + more;
            let evidence = Evidence { title: condition.figure.clone(), unit: "", value };
            seen.evidence.insert(condition.figure.clone(), evidence);
        }
    }
    for arm in run.values_mut() {
        for seen in arm.values_mut() {
            for condition in &asked {
                // Figures that this machine does not have were nothing on it.
                let evidence = Evidence { title: condition.figure.clone(), unit: "", value: 0.0 };
                seen.evidence.entry(condition.figure.clone()).or_insert(evidence);
            }
        }
    }
    run
}

#[test]
fn every_rule_fires_where_it_should_and_not_where_it_nearly_should() {
    // Dealt so that equals are equal in every block of every figure that no rule is asked about.
    let mut run = dealt(&recorded("equals"), 5, 7);
    let plain = run["plain"].clone();
    run.values_mut().for_each(|arm| arm.clone_from(&plain));
    for rule in RULES.iter() {
        let says = |size: f64| {
            let explained = explained(&made(&run, rule, size), &["plain", "same"]);
            rules_of(&explained, "same").unwrap_or_else(|| panic!("{}: it does not differ", rule.name))
        };
        assert!(says(1.1).contains(&rule.name), "{} is silent: {:?}", rule.name, says(1.1));
        assert!(!says(0.9).contains(&rule.name), "{} fires too early: {:?}", rule.name, says(0.9));
    }
}
