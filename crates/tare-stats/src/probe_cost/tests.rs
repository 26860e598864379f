use super::*;
use crate::family::tests::Noise;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use tare_core::load::{TurnUse, TurnsSummary};
use tare_core::plan::PlannedTrial;
use tare_core::record::TrialRecord;
use tare_core::trial::Outcome;

const SECOND: u64 = 1_000_000_000;

/// A trial of 40 s that does `cost` of its rate while it is sampled, on a machine that slows down meanwhile; its
/// sampler rests for two seconds from each of these moments on.
fn trial(cost: f64, rests: &[u64], noise: &mut Noise) -> TrialData {
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
    let record = TrialRecord::new(planned, String::new(), Outcome::Measured);
    TrialData { record, seconds, telemetry }
}

#[test]
fn a_planted_cost_is_found_in_95_of_100_runs_and_drift_is_none() {
    const RUNS: u32 = 400;
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(28));
    let mut held = 0;
    for _ in 0..RUNS {
        let trials: Vec<TrialData> = (0..12).map(|_| trial(0.99, &[10, 28], &mut noise)).collect();
        let cost = probe_cost(&trials.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((cost.trials, cost.rests), (12, 24));
        assert!((cost.ratio - 0.99).abs() < 3e-3, "{cost:?}");
        held += u32::from(cost.interval.unwrap().contains(0.99));
    }
    let share = f64::from(held) / f64::from(RUNS);
    assert!((0.92..=0.98).contains(&share), "{share}");
}

#[test]
fn a_rest_without_as_much_load_around_it_says_nothing() {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(2));
    let rests = |from: &[u64], noise: &mut Noise| {
        let trial = trial(0.99, from, noise);
        let samplers = of_samplers(&trial.telemetry);
        of_rests(&trial, &together(&samplers.iter().collect::<Vec<_>>())).len()
    };
    assert_eq!(rests(&[], &mut noise), 0);
    assert_eq!(rests(&[20], &mut noise), 1);
    assert_eq!(rests(&[2], &mut noise), 0, "before it nothing was measured");
    assert_eq!(rests(&[38], &mut noise), 0, "after it there is no load");
    assert_eq!(rests(&[10, 13], &mut noise), 0, "each lies beside the other");
    let two: Vec<TrialData> = (0..2).map(|_| trial(0.99, &[20], &mut noise)).collect();
    assert_eq!(probe_cost(&two.iter().collect::<Vec<_>>()).unwrap().interval, None);
    assert_eq!(probe_cost(&[&trial(0.99, &[], &mut noise)]), None);
}

/// A block whose forms take turns for 36 s; by form the share of its rate that it does, and of its CPU time by
/// operation that it takes, while all are sampled. All samplers rest for two seconds of every five, those in guests and
/// of later forms a little later. What the machine does by the way falls on all of them alike.
fn block(number: u32, forms: &[(&str, f64, f64)], noise: &mut Noise) -> Vec<TrialData> {
    const SPAN: u64 = SECOND / 4;
    let begins = |rest: u64| (5 * rest + 3) * SECOND + 300_000_000;
    let is_sampled = |at_ns: u64| !(0..6).any(|rest| (begins(rest)..begins(rest) + 2 * SECOND).contains(&at_ns));
    let machine: Vec<f64> = (0..36).map(|_| (0.01 * noise.normal()).exp()).collect();
    let trial = |(at, (form, rate, cpu)): (usize, &(&str, f64, f64))| {
        let later_ns = 20_000_000 * at as u64;
        let mut spans = Vec::new();
        for from_ns in (0..36 * SECOND).step_by(SPAN as usize) {
            let (rate, cpu) = if is_sampled(from_ns) { (*rate, *cpu) } else { (1.0, 1.0) };
            let (active_ns, to_ns) = (SPAN / 3, from_ns + SPAN - 10_000_000);
            let answers = 10_000.0 * rate * machine[(from_ns / SECOND) as usize] * (0.005 * noise.normal()).exp();
            let cpu_ns = active_ns as f64 * answers / 10_000.0 * cpu * (0.005 * noise.normal()).exp();
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
            (0..6).flat_map(move |rest| {
                let at_ns = begins(rest) + later_ns;
                [row(at_ns, vantage, 2 * rest), row(at_ns + 2 * SECOND + 9_000_000, vantage, 2 * rest + 2)]
            })
        };
        let samplers = [(Vantage::Host, later_ns), (Vantage::Guest, later_ns + 30_000_000)];
        let telemetry = samplers.into_iter().flat_map(of_sampler).collect();
        let form = (*form).to_owned();
        let planned = PlannedTrial { index: 0, block: number, form, control: false, again: None, profiled: false };
        let mut record = TrialRecord::new(planned, String::new(), Outcome::Measured);
        let turns = Some(TurnsSummary { turns: 100, active_ns: SECOND, ..TurnsSummary::default() });
        record.load = Some(LoadSummary { measure_end_ns: 36 * SECOND, turns, spans, ..LoadSummary::default() });
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
        let blocks =
            (0..6).flat_map(|number| block(number, &[("free", 1.0, 1.0), ("weighed", 0.98, 1.03)], &mut noise));
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
        assert!((0.89..=0.995).contains(&share(found.held)), "{} of {RUNS}", found.held);
    }
    assert!(share(weighed.below_one) > 0.95 && share(weighed.no_detail) > 0.95, "{}", weighed.no_detail);
    assert!(share(free.below_one) < 0.08 && share(free.no_detail) < 0.02, "{} {}", free.below_one, free.no_detail);
    assert!(share(cpu.no_detail) > 0.95, "{}", cpu.no_detail);
}

#[test]
fn a_rest_counts_where_all_samplers_take_it() {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(3));
    let mut trials = block(0, &[("one", 1.0, 1.0), ("other", 1.0, 1.0)], &mut noise);
    let rests = |trials: &[TrialData]| probe_cost(&trials.iter().collect::<Vec<_>>()).map_or(0, |cost| cost.rests);
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
