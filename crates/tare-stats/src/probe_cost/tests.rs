use super::*;
use crate::family::tests::Noise;
use crate::paired::Differences;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use tare_core::load::{TurnUse, TurnsSummary};
use tare_core::plan::PlannedTrial;
use tare_core::record::TrialRecord;
use tare_core::telemetry::RestHalf::{First, Second};
use tare_core::trial::Outcome;

const SECOND: u64 = 1_000_000_000;

/// A trial of 40 s that does `cost` of its rate while it is sampled, on a machine that slows down meanwhile; its
/// sampler rests for two seconds from each of these moments on, in this half of each compared stretch.
fn trial(cost: f64, rests: &[u64], half: RestHalf, noise: &mut Noise) -> TrialData {
    let planned = PlannedTrial { index: 0, block: 0, form: "f".into(), control: false, again: None, profiled: false };
    let is_rest = |second: u64| rests.iter().any(|from| (*from..from + 2).contains(&second));
    let mut seconds = Vec::new();
    for second in 0..40 {
        let sampled = if is_rest(second) { 1.0 } else { cost };
        let rate = 1e6 * (1.0 - 0.01 * second as f64) * sampled * (0.002 * noise.normal()).exp();
        seconds.push(SecondRow {
            at_ns: (second + 1) * SECOND,
            measured: second > 1,
            seconds: 1.0,
            operations: rate as u64,
            ..SecondRow::default()
        });
    }
    let mut rested_s = 0.0;
    let mut telemetry = Vec::new();
    for second in 0..=40 {
        // In the midst of a rest nothing is read.
        if is_rest(second) && second > 0 && is_rest(second - 1) {
            continue;
        }
        rested_s += if second > 1 && is_rest(second - 1) && !is_rest(second) { 2.0 } else { 0.0 };
        telemetry.push(TelemetryRow {
            at_ns: second * SECOND,
            vantage: Vantage::Host,
            scope: PROBE.into(),
            serving: false,
            values: [(RESTED.to_owned(), rested_s)].into(),
        });
    }
    let record = TrialRecord { rest_half: Some(half), ..TrialRecord::new(planned, String::new(), Outcome::Measured) };
    TrialData { record, seconds, telemetry }
}

#[test]
fn a_planted_cost_is_found_in_95_of_100_runs_and_drift_is_none() {
    const RUNS: u32 = 400;
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(28));
    let mut held = 0;
    for _ in 0..RUNS {
        let one = |noise: &mut Noise| trial(0.99, &[10, 28], First, noise);
        let other = |noise: &mut Noise| trial(0.99, &[12, 30], Second, noise);
        let trials: Vec<TrialData> = (0..6).flat_map(|_| [one(&mut noise), other(&mut noise)]).collect();
        let cost = probe_cost(&trials.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((cost.trials, cost.rests), (12, 24));
        assert!((cost.ratio - 0.99).abs() < 3e-3, "{cost:?}");
        held += u32::from(cost.interval.unwrap().contains(0.99));
    }
    let share = f64::from(held) / f64::from(RUNS);
    assert!((0.92..=0.98).contains(&share), "{share}");
}

#[test]
fn a_rest_without_as_much_load_beside_it_says_nothing() {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(2));
    let mut rests = |from: &[u64]| {
        [First, Second].map(|half| {
            let trial = trial(0.99, from, half, &mut noise);
            let samplers = of_samplers(&trial.telemetry);
            of_rests(&trial, half, &together(&samplers.iter().collect::<Vec<_>>())).len()
        })
    };
    assert_eq!(rests(&[]), [0, 0]);
    assert_eq!(rests(&[20]), [1, 1]);
    assert_eq!(rests(&[2]), [1, 0], "before it nothing was measured");
    assert_eq!(rests(&[38]), [0, 1], "after it there is no load");
    assert_eq!(rests(&[10, 13]), [1, 1], "one lies beside the other");
}

#[test]
fn who_always_rests_in_the_same_half_cannot_tell_a_cost_from_a_trend() {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(4));
    let mut cost = |halves: &[RestHalf]| {
        let trials: Vec<TrialData> = halves.iter().map(|half| trial(0.99, &[20], *half, &mut noise)).collect();
        probe_cost(&trials.iter().collect::<Vec<_>>())
    };
    assert_eq!(cost(&[First; 6]), None);
    assert_eq!(cost(&[First, Second]).unwrap().interval, None);
    assert!(cost(&[First, Second, First]).unwrap().interval.is_some());
    let unknown = TrialData {
        record: TrialRecord { rest_half: None, ..trial(0.99, &[20], First, &mut noise).record },
        ..trial(0.99, &[20], First, &mut noise)
    };
    assert_eq!(probe_cost(&[&unknown, &trial(0.99, &[20], Second, &mut noise)]), None, "as in older records");
    assert_eq!(probe_cost(&[&trial(0.99, &[], First, &mut noise)]), None);
}

/// How a simulated block is measured.
struct Made {
    /// For so long.
    seconds: u64,
    /// When its stretches of four seconds begin, ms.
    stretches_ms: Vec<u64>,
    /// By how much its forms are slower at first; that is over after some seconds, e to the minus one in two.
    warm_up: f64,
    /// The noise of the machine in each second, which falls on all forms alike.
    machine: f64,
}

impl Made {
    fn long() -> Made {
        Made {
            seconds: 36,
            stretches_ms: (0..6).map(|rest| 5_000 * rest + 3_300).collect(),
            warm_up: 0.0,
            machine: 0.01,
        }
    }

    /// Four deployments of three seconds each.
    fn short() -> Made {
        Made { seconds: 12, stretches_ms: vec![1_400, 6_700], warm_up: 0.3, machine: 0.005 }
    }
}

/// A block whose forms take turns; by form the share of its rate that it does, and of its CPU time by operation that it
/// takes, while all are sampled. All samplers rest in one half of each stretch, which is another one in the next block;
/// those in guests, and of later forms, a little later.
fn block(number: u32, forms: &[(&str, f64, f64)], made: &Made, noise: &mut Noise) -> Vec<TrialData> {
    const SPAN: u64 = SECOND / 4;
    let half = if number.is_multiple_of(2) { First } else { Second };
    let rests = made.stretches_ms.len() as u64;
    let later_ms = if half == First { 0 } else { 2_000 };
    let begins = |rest: u64| (made.stretches_ms[rest as usize] + later_ms) * 1_000_000;
    let is_sampled = |at_ns: u64| !(0..rests).any(|rest| (begins(rest)..begins(rest) + 2 * SECOND).contains(&at_ns));
    let machine: Vec<f64> = (0..made.seconds).map(|_| (made.machine * noise.normal()).exp()).collect();
    let trial = |(at, (form, rate, cpu)): (usize, &(&str, f64, f64))| {
        let later_ns = 20_000_000 * at as u64;
        let mut spans = Vec::new();
        // Deployments differ in how slow they are at first.
        let cold = made.warm_up * (0.15 * noise.normal()).exp();
        for from_ns in (0..made.seconds * SECOND).step_by(SPAN as usize) {
            let (rate, cpu) = if is_sampled(from_ns) { (*rate, *cpu) } else { (1.0, 1.0) };
            let (active_ns, to_ns) = (SPAN / 3, from_ns + SPAN - 10_000_000);
            let warmth = 1.0 - cold * (-0.5 * from_ns as f64 / SECOND as f64).exp();
            let answers =
                10_000.0 * rate * warmth * machine[(from_ns / SECOND) as usize] * (0.005 * noise.normal()).exp();
            let cpu_ns = active_ns as f64 * answers / warmth.powi(2) / 10_000.0 * cpu * (0.005 * noise.normal()).exp();
            let used = TurnUse { cpu_ns: (0.5 * cpu_ns) as u64, during_ns: active_ns / 2 };
            spans.push(TurnSpan { from_ns, to_ns, answers: answers as u64, active_ns, used });
        }
        let row = |at_ns: u64, vantage: Vantage, rested_s: u64| TelemetryRow {
            at_ns,
            vantage,
            scope: if vantage == Vantage::Host { PROBE.into() } else { format!("{PROBE} of guest 1") },
            serving: false,
            values: (rested_s > 0).then(|| (RESTED.to_owned(), rested_s as f64)).into_iter().collect(),
        };
        let of_sampler = |(vantage, later_ns): (Vantage, u64)| {
            (0..rests).flat_map(move |rest| {
                let at_ns = begins(rest) + later_ns;
                [row(at_ns, vantage, 2 * rest), row(at_ns + 2 * SECOND + 9_000_000, vantage, 2 * rest + 2)]
            })
        };
        let samplers = [(Vantage::Host, later_ns), (Vantage::Guest, later_ns + 30_000_000)];
        let telemetry = samplers.into_iter().flat_map(of_sampler).collect();
        let form = (*form).to_owned();
        let planned = PlannedTrial { index: 0, block: number, form, control: false, again: None, profiled: false };
        let mut record = TrialRecord::new(planned, String::new(), Outcome::Measured);
        record.rest_half = Some(half);
        let turns = Some(TurnsSummary { turns: 100, active_ns: SECOND, ..TurnsSummary::default() });
        record.load =
            Some(LoadSummary { measure_end_ns: made.seconds * SECOND, turns, spans, ..LoadSummary::default() });
        TrialData { record, seconds: Vec::new(), telemetry }
    };
    forms.iter().enumerate().map(trial).collect()
}

/// How often intervals held the truth, and lay wholly below it.
#[derive(Default)]
struct Found {
    held: u32,
    below_one: u32,
    no_detail: u32,
}

impl Found {
    fn add(&mut self, found: ProbeRatio, truth: f64, changes: ProbeEffect) {
        let interval = found.interval.unwrap();
        self.held += u32::from(interval.contains(truth));
        self.below_one += u32::from(interval.high < 1.0);
        self.no_detail += u32::from(found.costs_more_than(NO_DETAIL, changes));
    }
}

#[test]
fn by_turns_a_planted_cost_of_two_per_cent_is_found_and_none_is_not() {
    const RUNS: u32 = 150;
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(280));
    let (mut weighed, mut free, mut cpu) = (Found::default(), Found::default(), Found::default());
    for _ in 0..RUNS {
        let forms = [("free", 1.0, 1.0), ("weighed", 0.98, 1.03)];
        let blocks = (0..6).flat_map(|number| block(number, &forms, &Made::long(), &mut noise));
        let trials: Vec<TrialData> = blocks.collect();
        let cost = probe_cost(&trials.iter().collect::<Vec<_>>()).unwrap();
        // Both forms have the same rests.
        assert_eq!((cost.trials, cost.rests, cost.forms.len()), (12, 36, 2));
        assert!((cost.ratio - 0.99).abs() < 0.01, "{cost:?}");
        let [of_free, of_weighed] = cost.forms.as_slice() else { panic!("{cost:?}") };
        assert_eq!((of_free.form.as_str(), of_free.trials, of_weighed.rests), ("free", 6, 36));
        free.add(of_free.throughput, 1.0, ProbeEffect::Throughput);
        weighed.add(of_weighed.throughput, 0.98, ProbeEffect::Throughput);
        cpu.add(of_weighed.cpu_per_op.unwrap(), 1.03, ProbeEffect::CpuPerOp);
    }
    let share = |count: u32| f64::from(count) / f64::from(RUNS);
    for found in [&free, &weighed, &cpu] {
        // Four intervals hold together, each with 98.7 %.
        assert!(share(found.held) > 0.95, "{} of {RUNS}", found.held);
    }
    assert!(share(weighed.below_one) > 0.95 && share(weighed.no_detail) > 0.95, "{}", weighed.no_detail);
    assert!(share(free.below_one) < 0.08 && share(free.no_detail) < 0.02, "{} {}", free.below_one, free.no_detail);
    assert!(share(cpu.no_detail) > 0.95, "{}", cpu.no_detail);
}

#[test]
fn a_rest_counts_where_all_samplers_take_it() {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(3));
    let mut trials = block(0, &[("one", 1.0, 1.0), ("other", 1.0, 1.0)], &Made::long(), &mut noise);
    // As many as those of another block, which rests in the other half.
    let beside = block(7, &[("one", 1.0, 1.0)], &Made::long(), &mut noise);
    let rests = |trials: &[TrialData]| {
        let cost = probe_cost(&trials.iter().chain(&beside).collect::<Vec<_>>());
        cost.map_or(0, |cost| cost.rests - 6)
    };
    assert_eq!(rests(&trials), 6);
    // The guest of one of them takes no rest after the third, and the other form, too, is sampled by it.
    let is_rest = |row: &TelemetryRow| row.vantage == Vantage::Guest && row.at_ns > 16 * SECOND;
    trials[1].telemetry.retain(|row| !is_rest(row));
    assert_eq!(rests(&trials), 3);
    trials[1].telemetry.iter_mut().filter(|row| row.vantage == Vantage::Guest).for_each(|row| row.values.clear());
    assert_eq!(rests(&trials), 0);
    // Who stands in another block samples nobody here, and an emulated form says nothing.
    trials[1].record.trial.block = 1;
    assert_eq!(rests(&trials), 6);
    trials[0].record.emulated = true;
    assert_eq!(rests(&trials), 0);
}

#[test]
fn of_all_forms_only_those_count_that_rested_in_both_halves() {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(6));
    let made = Made { warm_up: 0.3, ..Made::short() };
    let both = [("one", 1.0, 1.0)];
    let mut trials: Vec<TrialData> = (0..6).flat_map(|number| block(number, &both, &made, &mut noise)).collect();
    let without = probe_cost(&trials.iter().collect::<Vec<_>>()).unwrap();
    // All of these rest in the first half.
    trials.extend([6, 8].into_iter().flat_map(|number| block(number, &[("other", 0.9, 1.0)], &made, &mut noise)));
    let cost = probe_cost(&trials.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(cost, without);
    assert_eq!((cost.trials, cost.forms.len()), (6, 1));
}

#[test]
fn the_baseline_counts_where_its_control_stands() {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(8));
    let made = Made::short();
    let mut trials: Vec<TrialData> = Vec::new();
    for number in 0..4 {
        let forms = [("plain", 1.0, 1.0), ("plain", 1.0, 1.0), ("box", 1.0, 1.0)];
        trials.extend(block(number, &forms, &made, &mut noise));
    }
    for control in (1..trials.len()).step_by(3) {
        trials[control].record.trial.control = true;
    }
    for number in 4..8 {
        trials.extend(block(number, &[("plain", 1.0, 1.0), ("apart", 1.0, 1.0)], &made, &mut noise));
    }
    let counts = |trials: &[TrialData]| {
        let cost = probe_cost(&trials.iter().collect::<Vec<_>>()).unwrap();
        cost.forms.into_iter().map(|form| (form.form, form.trials)).collect::<Vec<_>>()
    };
    let of = |form: &str, trials| (form.to_owned(), trials);
    assert_eq!(counts(&trials), [of("apart", 4), of("box", 4), of("plain", 8)]);
    trials.iter_mut().for_each(|trial| trial.record.trial.control = false);
    assert_eq!(counts(&trials), [of("apart", 4), of("box", 4), of("plain", 12)], "without a control all do");
}

/// Of so many runs of eight short blocks: in how many a cost is named, of any form.
fn named(runs: u32, forms: &[(&str, f64, f64)], made: &Made, seed: u64) -> BTreeMap<String, u32> {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(seed));
    let mut named: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..runs {
        let trials: Vec<TrialData> = (0..8).flat_map(|number| block(number, forms, made, &mut noise)).collect();
        let cost = probe_cost(&trials.iter().collect::<Vec<_>>()).unwrap();
        let slower = |form: &&FormProbeCost| {
            let cpu = form.cpu_per_op.is_some_and(|cpu| cpu.costs_more_than(NO_DETAIL, ProbeEffect::CpuPerOp));
            cpu || form.throughput.costs_more_than(NO_DETAIL, ProbeEffect::Throughput)
        };
        let slower: Vec<&FormProbeCost> = cost.forms.iter().filter(slower).collect();
        slower.iter().for_each(|form| *named.entry(form.form.clone()).or_default() += 1);
        *named.entry("any".to_owned()).or_default() += u32::from(!slower.is_empty());
    }
    named
}

#[test]
fn in_short_deployments_a_slow_start_is_no_cost_of_the_probe() {
    const RUNS: u32 = 200;
    let forms = [("a", 1.0, 1.0), ("b", 1.0, 1.0), ("c", 1.0, 1.0)];
    for (warm_up, seed) in [(0.0, 31), (0.3, 32), (0.6, 33)] {
        let found = named(RUNS, &forms, &Made { warm_up, ..Made::short() }, seed);
        assert!(f64::from(found["any"]) < 0.05 * f64::from(RUNS), "{warm_up}: {found:?}");
    }
}

#[test]
fn in_short_deployments_a_planted_cost_of_two_per_cent_is_found_beside_a_slow_start() {
    const RUNS: u32 = 100;
    let forms = [("a", 1.0, 1.0), ("b", 0.98, 1.0), ("c", 1.0, 1.0)];
    let found = named(RUNS, &forms, &Made::short(), 34);
    let of = |form: &str| found.get(form).copied().unwrap_or_default();
    assert!(of("b") > 90 && of("a") < 5 && of("c") < 5, "{found:?}");
}

/// By rest: the log of the rate in the two seconds before and after it, by that in it.
fn around(trial: &TrialData) -> Vec<f64> {
    let samplers = of_samplers(&trial.telemetry);
    let log = |rest: &Rest| {
        let rate = |from_ns: u64, to_ns: u64| Some(seen(trial, (from_ns, to_ns))?.throughput);
        let (before, after) =
            (rate(rest.begins_ns - 2 * SECOND, rest.begins_ns)?, rate(rest.ends_ns, rest.ends_ns + 2 * SECOND)?);
        Some((0.5 * (before + after) / rate(rest.from_ns, rest.to_ns)?).ln())
    };
    together(&samplers.iter().collect::<Vec<_>>()).iter().filter_map(log).collect()
}

#[test]
fn at_the_same_moments_of_all_blocks_a_slow_start_would_look_like_a_cost() {
    const RUNS: u32 = 100;
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(35));
    let made = Made { warm_up: 0.6, ..Made::short() };
    let mut named = 0;
    for _ in 0..RUNS {
        let value = |number: u32| {
            // All of these rest in the second half.
            let trials = block(2 * number + 1, &[("free", 1.0, 1.0)], &made, &mut noise);
            let logs = around(&trials[0]);
            (number, logs.iter().sum::<f64>() / logs.len() as f64)
        };
        let (blocks, values) = (0..8).map(value).unzip();
        let differences = Differences { blocks, values };
        let interval = differences.precision(0.975).unwrap().interval(differences.mean());
        named += u32::from(interval.high < 1.0 - NO_DETAIL);
    }
    assert!(named > 90, "{named} of {RUNS}");
}
