//! Findings of what was recorded on a real machine: planted causes, and equals.

use super::rule::RULES;
use super::*;
use crate::analyse;
use crate::contrast::pairs;
use crate::evidence::Evidence;
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
    run.values_mut().flat_map(|arm| arm.values_mut()).for_each(add_busy_cpus);
    run
}

/// Adds the CPUs kept busy, which were not a figure when trials were recorded.
fn add_busy_cpus(seen: &mut Seen) {
    let busy = seen.metrics["cpu_us_per_op"] * 1e-6 * seen.metrics["throughput"];
    seen.evidence.entry("busy_cpus".to_owned()).or_insert(figure("busy_cpus", busy));
}

fn figure(name: &str, value: f64) -> Evidence {
    Evidence { title: name.to_owned(), unit: "", value }
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

/// By form, the rule that should come first.
const CAUSES: [(&str, &str); 6] = [
    ("quota", "cpu-quota"),
    ("neighbour", "busy-neighbour"),
    ("sleeps", "sleeps"),
    ("backlog", "full-backlog"),
    ("syncs", "synchronous-writes"),
    ("reads", "memory-limit"),
];

#[test]
fn a_planted_cause_is_the_first_finding() {
    let run = recorded("planted");
    let forms: Vec<&str> = ["plain"].into_iter().chain(CAUSES.map(|(form, _)| form)).collect();
    let explained = explained(&run, &forms);
    for (form, rule) in CAUSES {
        let rules = rules_of(&explained, form).unwrap_or_else(|| panic!("{form} does not differ"));
        assert_eq!(rules.first().map(String::as_str), Some(rule), "{form}: {explained:#?}");
        assert!(explained.iter().all(|explanation| explanation.slower == explanation.form), "{explained:#?}");
    }
}

/// The same of a server of several workers.
const HIDDEN: [(&str, &str); 12] = [
    ("pieces", "late-acknowledgments"),
    ("lock", "locks"),
    ("workers", "fewer-threads"),
    ("forks", "new-processes"),
    ("touches", "page-faults"),
    ("hands", "hand-overs"),
    ("spins", "other-code"),
    ("pauses", "other-code"),
    ("calls", "kernel-work"),
    ("writes", "more-written"),
    ("closes", "new-connections"),
    ("stops", "stopped"),
];

#[test]
fn a_cause_hidden_among_several_workers_is_the_first_finding_of_three_blocks() {
    let run = recorded("hidden");
    let forms: Vec<&str> = ["plain", "paced"].into_iter().chain(HIDDEN.map(|(form, _)| form)).collect();
    let explained = explained(&run, &forms);
    for (form, rule) in HIDDEN {
        let rules = rules_of(&explained, form).unwrap_or_else(|| panic!("{form} does not differ"));
        println!("{form}: {rules:?}");
        assert_eq!(rules.first().map(String::as_str), Some(rule), "{form}: {explained:#?}");
    }
    assert_eq!(rules_of(&explained, "paced"), None, "an equal");
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
    for blocks in [3, 4, 5, 10] {
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
            let value = if condition.falls {
                there - (condition.by * size).max((1.0 - 1.0 / condition.times) * there * size)
            } else {
                there + (condition.by * size).max((condition.times - 1.0) * there * size)
            };
            seen.evidence.insert(condition.figure.clone(), figure(&condition.figure, value));
        }
    }
    for arm in run.values_mut() {
        for seen in arm.values_mut() {
            for condition in &asked {
                // Figures that this machine does not have were nothing on it.
                seen.evidence.entry(condition.figure.clone()).or_insert(figure(&condition.figure, 0.0));
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

#[test]
fn a_cause_is_told_only_of_what_the_report_stands_by() {
    let mut run = dealt(&recorded("equals"), 5, 7);
    let plain = run["plain"].clone();
    run.values_mut().for_each(|arm| arm.clone_from(&plain));
    let rule = RULES.iter().find(|rule| rule.name == "user-work").unwrap();
    let mut run = made(&run, rule, 1.1);
    let told = |run: &Run| {
        let explained = explained(run, &["plain", "same"]);
        explained.iter().any(|told| [Differs::BeyondNoise, Differs::InEveryTrial].contains(&told.differs))
    };
    assert!(told(&run));
    // Equals that lie apart by 30 %, in every block: verdicts are withheld, and so is what they would come from.
    for seen in run.get_mut(&control_arm("plain")).unwrap().values_mut() {
        seen.metrics.values_mut().for_each(|value| *value *= 1.3);
    }
    assert!(!told(&run));
}

/// A planted cause in so many of its blocks.
fn in_blocks(run: &Run, form: &str, blocks: &[u32]) -> Run {
    let arms = ["plain".to_owned(), control_arm("plain"), form.to_owned()];
    let of = |arm: &String| blocks.iter().map(|block| (*block, run[arm][block].clone())).collect();
    arms.iter().map(|arm| (arm.clone(), of(arm))).collect()
}

#[test]
fn three_blocks_suffice_for_a_planted_cause() {
    let run = recorded("planted");
    let blocks: Vec<u32> = run["plain"].keys().copied().collect();
    let threes = (0..1_u32 << blocks.len()).filter(|set| set.count_ones() == 3);
    let of = |set: u32| (0..).zip(&blocks).filter(|(at, _)| set & (1 << at) != 0).map(|(_, block)| *block).collect();
    let threes: Vec<Vec<u32>> = threes.map(of).collect();
    assert!(threes.len() >= 10, "{blocks:?}");
    for (form, rule) in CAUSES {
        let first = |three: &Vec<u32>| {
            let explained = explained(&in_blocks(&run, form, three), &["plain", form]);
            rules_of(&explained, form).and_then(|rules| rules.first().cloned())
        };
        let firsts: Vec<Option<String>> = threes.iter().map(first).collect();
        let right = firsts.iter().filter(|first| first.as_deref() == Some(rule)).count();
        println!("{form}: {rule} comes first in {right} of {}", threes.len());
        assert_eq!(right, threes.len(), "{form}: {firsts:?}");
    }
}

/// Equals in three arms, made by `seen` from what chance gives each trial.
fn simulated(blocks: u32, seed: u64, seen: impl Fn(&mut dyn FnMut() -> f64) -> Seen) -> Run {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut uniform = move || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let arms = ["plain".to_owned(), control_arm("plain"), "same".to_owned()];
    let mut run = Run::new();
    for block in 0..blocks {
        for arm in &arms {
            run.entry(arm.clone()).or_default().insert(block, seen(&mut uniform));
        }
    }
    run
}

/// A trial beside which, in one of three cases, somebody else takes up to half of the CPU: it is slower, and everything
/// that could be a cause goes with it.
fn disturbed(uniform: &mut dyn FnMut() -> f64) -> Seen {
    let taken = if uniform() < 0.33 { 0.5 * uniform() } else { 0.0 };
    let mut noise = || 1.0 + 0.1 * (uniform() + uniform() + uniform() - 1.5);
    let throughput = 1e5 * (1.0 - taken) * noise();
    let (us_per_op, late) = (9.0 * noise(), noise() / (1.0 - taken));
    let metrics = [
        ("throughput", throughput),
        ("p50_us", 400.0 * late),
        ("p99_us", 900.0 * late * noise()),
        ("cpu_us_per_op", us_per_op),
    ];
    let figures = [
        ("others_share", taken * noise()),
        ("run_queue_share", 0.02 * noise() + taken * noise()),
        ("busy_cpus", us_per_op * 1e-6 * throughput),
        ("psi_io_share", 0.2 * taken * noise()),
        ("disk_share", 0.1 * taken * noise()),
        ("major_faults_per_op", 0.004 * taken * noise()),
        ("system_us_per_op", 0.6 * us_per_op * noise()),
        ("user_us_per_op", 0.4 * us_per_op * noise()),
        ("lock_share", 2.0 + taken * noise()),
        ("waits_per_op", 0.5 * late * noise()),
    ];
    Seen {
        metrics: metrics.map(|(name, value)| (name.to_owned(), value)).into(),
        evidence: figures.map(|(name, value)| (name.to_owned(), figure(name, value))).into(),
    }
}

#[test]
fn somebody_who_comes_and_goes_is_no_cause_of_a_difference_between_equals() {
    for blocks in [3, 4, 5] {
        let explained = |seed: u64| explained(&simulated(blocks, seed, disturbed), &["plain", "same"]);
        let found = |seed: &u64| explained(*seed).iter().any(|explanation| !explanation.findings.is_empty());
        let wrong = (0..1000).filter(found).count();
        println!("{wrong} of 1000 pairs of equals with {blocks} blocks have a finding");
        assert!(wrong <= 10, "{blocks} blocks: {wrong}");
    }
}

/// Equals, of which `same` was held back by a quota for so much of each trial, and had such a throughput by that of the
/// others.
fn held_back(shares: &[f64], throughput: &[f64]) -> Run {
    let mut run = simulated(shares.len() as u32, 5, |uniform| {
        let mut seen = disturbed(uniform);
        seen.evidence.retain(|name, _| ["others_share", "run_queue_share"].contains(&name.as_str()));
        seen
    });
    for ((seen, share), of) in run.get_mut("same").unwrap().values_mut().zip(shares).zip(throughput) {
        *seen.metrics.get_mut("throughput").unwrap() *= of;
        seen.evidence.insert("throttled_share".to_owned(), figure("throttled_share", *share));
    }
    run
}

#[test]
fn a_cause_that_is_there_in_every_trial_needs_no_even_size() {
    // As the kernel counted it once, in a run in which throughput was halved.
    let explained = explained(&held_back(&[0.038, 0.39, 0.030], &[0.3; 3]), &["plain", "same"]);
    assert_eq!(rules_of(&explained, "same").unwrap()[0], "cpu-quota", "{explained:#?}");
    let figure = &explained[0].findings[0].evidence[0];
    assert!(figure.apart, "{explained:#?}");
    assert_eq!((figure.interval.low, figure.interval.high), (0.030, 0.39));
}

#[test]
fn a_limit_is_told_where_no_difference_can_be_detected() {
    let limited = |shares: &[f64]| explained(&held_back(shares, &[1.0; 3]), &["plain", "same"]);
    let told = limited(&[0.03, 0.09, 0.05]);
    assert_eq!(rules_of(&told, "same").unwrap(), ["cpu-quota"], "{told:#?}");
    assert!(
        told[0].differs == Differs::NotDetectably && told[0].slower == "same" && told[0].metric == "throughput",
        "{told:#?}"
    );
    assert_eq!(limited(&[0.03, 0.0, 0.05]), [], "not in every trial");
    assert_eq!(limited(&[0.03, 0.004, 0.05]), [], "in one for less than matters");
}

#[test]
fn trials_stand_apart_where_chance_would_hardly_put_them_so() {
    let cell = |values: &[f64]| -> Cell {
        let trial = |(block, value): (usize, &f64)| (block as u32, [("f".to_owned(), figure("f", *value))].into());
        values.iter().enumerate().map(trial).collect()
    };
    let low = cell(&[1.0, 2.0, 3.0]);
    let between =
        |here: &Cell, there: &[&Cell]| apart("f", &[here], there).map(|interval| (interval.low, interval.high));
    let high = cell(&[4.0, 5.0, 9.0]);
    assert_eq!(between(&high, &[&low, &low]), Some((1.0, 8.0)));
    assert_eq!(between(&low, &[&high, &high]), Some((-8.0, -1.0)));
    assert_eq!(between(&high, &[&low]), None, "1 of 20 orders");
    // Where nobody has a quota, nobody is held back by one: that is no chance.
    let held = |values: &[f64]| -> Cell {
        let trial = |(block, value): (usize, &f64)| {
            (block as u32, [("throttled_share".to_owned(), figure("throttled_share", *value))].into())
        };
        values.iter().enumerate().map(trial).collect()
    };
    let quota = |here: &[f64], there: &[f64]| {
        apart("throttled_share", &[&held(here)], &[&held(there)]).map(|interval| (interval.low, interval.high))
    };
    assert_eq!(quota(&[0.03, 0.39, 0.04], &[0.0; 3]), Some((0.03, 0.39)));
    assert_eq!(quota(&[0.0; 3], &[0.03, 0.39, 0.04]), Some((-0.39, -0.03)));
    assert_eq!(quota(&[0.03, 0.0, 0.04], &[0.0; 3]), None, "not in every trial");
    assert_eq!(quota(&[0.03, 0.39, 0.04], &[0.01, 0.0, 0.02]), None, "both have one");
    assert_eq!(between(&cell(&[3.0, 5.0, 9.0]), &[&low, &low]), None, "they meet");
    assert_eq!(between(&high, &[&low, &cell(&[1.0, 4.5, 1.0])]), None, "not above the equal of the baseline");
    let (four, five) = (cell(&[1.0, 2.0, 3.0, 3.0]), cell(&[4.0, 5.0, 9.0, 4.0]));
    assert_eq!(between(&five, &[&four]), Some((1.0, 8.0)), "1 of 70 orders");
}
