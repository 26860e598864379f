//! Counters of known differences in, what is said of them out; and nothing where equals were measured.

use crate::records;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tare_core::load::{LoadSummary, OperationSummary};
use tare_core::plan::plan;
use tare_core::record::{Record, TrialData, TrialRecord};
use tare_core::telemetry::{TelemetryRow, Vantage, WHOLE_MACHINE};
use tare_core::trial::Outcome;
use tare_stats::{Contrast, analyse, changes_explained};

const SECOND: u64 = 1_000_000_000;
const OPERATIONS: u64 = 100_000;

/// A scope's counters, by second or, with `/op`, by operation.
type Scope = (&'static str, Vec<(&'static str, f64)>);

/// What a form's scopes count in a second.
fn usual() -> Vec<Scope> {
    let machine = vec![("context_switches", 300_000.0), ("cpu_softirq_s@0", 0.2), ("net_rx_packets", 200_000.0)];
    let server = vec![
        ("cpu_user_s", 0.3),
        ("cpu_system_s", 0.6),
        ("cpu_total_s", 0.9),
        ("context_switches_voluntary", 90_000.0),
        ("run_queue_wait_s", 0.05),
        ("throttled_s", 0.0),
        ("major_faults", 0.0),
    ];
    vec![(WHOLE_MACHINE, machine), ("server", server)]
}

/// A record of ten seconds a trial, in which each arm's scopes count as `of(arm)` says, with noise of 3 %.
fn record(seed: u64, repeat: u32, of: impl Fn(&str) -> Vec<Scope>) -> Record {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut noise = move || {
        let sum: f64 = (0..4).map(|_| random.next_u64() as f64 / u64::MAX as f64 - 0.5).sum();
        (0.05 * sum).exp()
    };
    let study = records::study(&["plain", "box"], repeat);
    let plan = plan(&study, &[], seed);
    let trials = plan.iter().map(|planned| {
        let mut record = TrialRecord::new(planned.clone(), String::new(), Outcome::Measured);
        record.metrics = [("throughput".to_owned(), 1e4 * noise())].into();
        let operation = OperationSummary { count: OPERATIONS, ..OperationSummary::default() };
        record.load = Some(LoadSummary {
            operations: [("get".to_owned(), operation)].into(),
            measure_start_ns: SECOND,
            measure_end_ns: 11 * SECOND,
            ..LoadSummary::default()
        });
        let mut telemetry = Vec::new();
        for (scope, counters) in of(&planned.arm()) {
            let rates: Vec<(String, f64)> =
                counters.iter().map(|(name, rate)| ((*name).to_owned(), rate * noise())).collect();
            for at in [0, 6, 12_u64] {
                let values = rates.iter().map(|(name, rate)| (name.clone(), rate * at as f64)).collect();
                let serving = scope != WHOLE_MACHINE;
                let (at_ns, vantage) = (at * SECOND, Vantage::Host);
                telemetry.push(TelemetryRow { at_ns, vantage, scope: scope.to_owned(), serving, values });
            }
        }
        TrialData { record, seconds: Vec::new(), telemetry }
    });
    let trials = trials.collect();
    records::record(study, plan, trials)
}

/// The same with some of the counters of a form changed, or new.
fn with(form: &str, arm: &str, scope: &'static str, counters: &[(&'static str, f64)]) -> Vec<Scope> {
    let mut scopes = usual();
    if arm != form {
        return scopes;
    }
    if !scopes.iter().any(|(name, _)| *name == scope) {
        scopes.push((scope, Vec::new()));
    }
    let (_, of_scope) = scopes.iter_mut().find(|(name, _)| *name == scope).expect("it is there now");
    for (name, rate) in counters {
        of_scope.retain(|(known, _)| known != name);
        of_scope.push((*name, *rate));
    }
    scopes
}

fn contrasts(record: &Record) -> Vec<Contrast> {
    analyse(record).contrasts
}

#[test]
fn equals_are_not_said_to_differ() {
    // Twenty figures, 200 records: all intervals of a record hold together in 95 of 100, before the control is asked.
    for repeat in [3, 5, 10] {
        let found = (0..200).filter(|seed| !contrasts(&record(*seed, repeat, |_| usual())).is_empty()).count();
        assert!(found <= 10, "{found} of 200 records of equals with {repeat} blocks");
    }
}

#[test]
fn what_was_planted_is_found_and_stands_first() {
    let cases = [
        ("server", ("throttled_s", 0.4), "throttled_share"),
        ("server", ("run_queue_wait_s", 0.5), "run_queue_us_per_op"),
        ("server", ("major_faults", 2000.0), "major_faults_per_op"),
        (WHOLE_MACHINE, ("cpu_softirq_s@0", 0.5), "softirq_us_per_op"),
        ("port proxy", ("cpu_total_s", 0.8), "cpu_us_per_op:port proxy"),
    ];
    for (scope, counter, wanted) in cases {
        for seed in 0..20 {
            let found = contrasts(&record(seed, 6, |arm| with("box", arm, scope, &[counter])));
            assert_eq!(found.len(), 1, "{wanted}, seed {seed}: {found:#?}");
            assert_eq!((found[0].form.as_str(), found[0].against.as_str()), ("box", "plain"));
            assert!(found[0].figures.iter().any(|figure| figure.name == wanted), "{wanted}, seed {seed}: {found:#?}");
            assert_eq!(found[0].figures[0].name, wanted, "seed {seed}");
        }
    }
}

#[test]
fn figures_are_by_operation_and_by_second() {
    let found = contrasts(&record(1, 8, |arm| {
        let mut scopes = with("box", arm, "port proxy", &[("cpu_total_s", 0.8)]);
        if arm == "box" {
            scopes[1].1.retain(|(name, _)| *name != "throttled_s");
            scopes[1].1.push(("throttled_s", 0.4));
        }
        scopes
    }));
    let figure = |name: &str| found[0].figures.iter().find(|figure| figure.name == name).unwrap();
    // 0.8 s of CPU time in each of ten seconds, over 100,000 operations: 80 us each.
    let proxy = figure("cpu_us_per_op:port proxy");
    assert!((proxy.here / 80.0 - 1.0).abs() < 0.05 && proxy.there == 0.0, "{proxy:?}");
    assert!(proxy.interval.contains(80.0), "{proxy:?}");
    assert!((figure("throttled_share").here / 0.4 - 1.0).abs() < 0.05, "{found:#?}");
}

#[test]
fn what_equals_differ_by_too_is_nobodys() {
    // The baseline's second copy was held back as well: by the order of things, not by the form.
    let found = contrasts(&record(1, 8, |arm| match arm {
        "plain" => usual(),
        other => with(other, other, "server", &[("throttled_s", 0.4)]),
    }));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn two_blocks_say_nothing() {
    let planted = |arm: &str| with("box", arm, "server", &[("throttled_s", 0.4)]);
    assert!(contrasts(&record(1, 2, planted)).is_empty());
}

/// The same record on a day when everything was half as fast.
fn halved(mut record: Record) -> Record {
    for trial in &mut record.trials {
        trial.record.metrics.values_mut().for_each(|value| *value *= 0.5);
    }
    record
}

#[test]
fn a_change_between_runs_is_explained_and_equals_are_not() {
    let before = record(1, 5, |_| usual());
    // A quota in every form, the baseline too: no ratio to it changes.
    let after = halved(record(2, 5, |arm| with(arm, arm, "server", &[("throttled_s", 0.4)])));
    let found = changes_explained(&before, &after);
    let forms: Vec<&str> = found.iter().map(|explanation| explanation.form.as_str()).collect();
    assert_eq!(forms, ["plain", "box"], "{found:#?}");
    for explanation in &found {
        assert_eq!((explanation.slower.as_str(), explanation.one_feature), ("after", false));
        assert!((explanation.ratio / 0.5 - 1.0).abs() < 0.1, "{explanation:#?}");
        assert_eq!(explanation.findings[0].rule, "cpu-quota", "{explanation:#?}");
    }
    let back = changes_explained(&after, &before);
    assert!(back.iter().all(|explanation| explanation.slower == "before"), "{back:#?}");
    let says = |seed: &u64| {
        let found = changes_explained(&record(2 * seed, 5, |_| usual()), &record(2 * seed + 1, 5, |_| usual()));
        found.iter().any(|explanation| !explanation.findings.is_empty())
    };
    let wrong = (100..200).filter(says).count();
    assert!(wrong <= 5, "{wrong} of 100 pairs of equal runs have a finding");
}
