//! A closed loop whose generator is about as fast as the services: two stations with exponential times, and a fixed
//! number of operations that go round between them. Its throughput is known (J. R. Jackson, Operations Research 5
//! (1957)): with r the generator's time over the service's, the generator is idle for (1 - r) / (1 - r^(n + 1)) of it.

use crate::records;

use tare_core::load::{GeneratorHealth, LoadSummary};
use tare_core::plan::plan;
use tare_core::record::{TrialData, TrialRecord};
use tare_core::trial::Outcome;
use tare_stats::{Analysis, BoundCause, Ratio, Remedy, Side, Verdict, analyse};

/// Throughput, by the generator's own speed, and the generator's share of not being idle, where the service is so many
/// times as fast as the generator and `in_flight` operations go round.
fn loop_of(service: f64, in_flight: i32) -> (f64, f64) {
    let awake = 1.0 - (1.0 - service) / (1.0 - service.powi(in_flight + 1));
    (awake, awake)
}

/// Five blocks of a baseline and a form whose services are so many times as fast as the generator.
fn analysed(plain: f64, boxed: f64) -> Analysis {
    analysed_of(|_| plain, boxed)
}

/// The same where the baseline's service is so many times as fast by block.
fn analysed_of(plain: impl Fn(u32) -> f64, boxed: f64) -> Analysis {
    let study = records::study(&["plain", "box"], 5);
    let plan = plan(&study, &[], 1);
    let trials = plan.iter().map(|planned| {
        let mut record = TrialRecord::new(planned.clone(), String::new(), Outcome::Measured);
        let (throughput, awake) = loop_of(if planned.form == "box" { boxed } else { plain(planned.block) }, 50);
        let noise = 1.0 + 1e-3 * f64::from(planned.index * 7 % 5);
        record.metrics = [("throughput", 1e5 * throughput * noise), ("cpu_us_per_op", 10.0 * noise)]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        let health = GeneratorHealth { awake: vec![0.5, awake], ..GeneratorHealth::default() };
        record.load = Some(LoadSummary { health: Some(health), ..LoadSummary::default() });
        TrialData { record, seconds: Vec::new(), telemetry: Vec::new() }
    });
    let trials = trials.collect();
    analyse(&records::record(study, plan, trials))
}

fn ratio<'a>(analysis: &'a Analysis, metric: &str) -> &'a Ratio {
    let metric = analysis.metrics.iter().find(|candidate| candidate.name == metric).unwrap();
    metric.ratios.iter().find(|ratio| ratio.arm == "box").unwrap()
}

#[test]
fn a_server_that_outruns_the_generator_makes_the_ratio_a_bound() {
    // The form is at 0.90 of a baseline that is 8 % faster than the generator.
    let analysis = analysed(1.08, 0.9 * 1.08);
    let throughput = ratio(&analysis, "throughput");
    assert!((throughput.ratio - 0.965).abs() < 1e-3, "what is read, of 0.90: {}", throughput.ratio);
    let bound = throughput.bound.unwrap();
    assert_eq!((bound.side, bound.cause), (Side::AtMost, BoundCause::Generator));
    // That it is slower holds all the more.
    assert_eq!((throughput.verdict, throughput.equivalent), (Verdict::Worse, Some(false)));
    assert!(throughput.text().starts_with("<=0.96"), "{}", throughput.text());
    assert_eq!(ratio(&analysis, "cpu_us_per_op").bound, None, "what it costs has nothing to do with that");
    let ceilings = analysis.ceilings.unwrap();
    assert!(ceilings.straddle());
    assert_eq!(ceilings.arms.iter().map(|arm| arm.limited).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(ceilings.remedies, [Remedy::FixedRate], "the machine is not known to have a CPU to spare");
}

#[test]
fn two_that_outrun_the_generator_cannot_be_told_apart() {
    let analysis = analysed(1.5, 1.2);
    let throughput = ratio(&analysis, "throughput");
    assert!((throughput.ratio - 1.0).abs() < 1e-3, "what is read, of 0.80: {}", throughput.ratio);
    assert_eq!(throughput.bound.map(|bound| bound.side), Some(Side::Either));
    assert_eq!(throughput.verdict, Verdict::Withheld, "they are not called equivalent: {}", throughput.text());
}

#[test]
fn a_generator_that_is_the_limit_in_some_blocks_makes_a_bound_and_says_in_how_many() {
    // On average it is not idle for 94 % of the time.
    let analysis = analysed_of(|block| if block < 2 { 1.2 } else { 0.9 }, 0.8);
    let plain = analysis.ceilings.as_ref().unwrap().arms.iter().find(|arm| arm.arm == "plain").unwrap();
    assert!(plain.awake < 0.98, "{plain:?}");
    assert_eq!((plain.limited, plain.limited_trials, plain.trials), (true, 2, 5));
    assert_eq!(ratio(&analysis, "throughput").bound.map(|bound| bound.side), Some(Side::AtMost));
}

#[test]
fn a_generator_that_waits_is_no_limit() {
    let analysis = analysed(0.9, 0.8);
    let throughput = ratio(&analysis, "throughput");
    assert_eq!((throughput.bound, throughput.verdict), (None, Verdict::Worse));
    assert!((throughput.ratio / (0.8 / 0.9) - 1.0).abs() < 0.01, "{}", throughput.ratio);
    let ceilings = analysis.ceilings.unwrap();
    assert!(!ceilings.straddle() && ceilings.remedies.is_empty(), "{ceilings:?}");
}
