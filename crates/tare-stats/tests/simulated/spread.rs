//! Forms that differ in spread, and noise with heavy tails: each interval must hold by itself, and no form may borrow
//! the steadiness of the others.

use crate::records;
use crate::simulated::noise::Random;
use crate::simulated::{error, many};
use tare_core::plan::plan;
use tare_core::record::{Record, TrialData, TrialRecord};
use tare_core::trial::Outcome;
use tare_stats::{Ratio, Verdict, analyse};

/// How one deployment's luck falls out; on average nothing, in a normal stretch about one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Luck {
    Normal,
    /// Student's t with 3 degrees of freedom.
    Heavy,
    /// One deployment in ten has five times the spread of the others.
    Odd,
}

impl Luck {
    pub(crate) fn draw(self, random: &mut Random) -> f64 {
        match self {
            Luck::Normal => random.normal(),
            Luck::Heavy => {
                let squares: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
                random.normal() / (squares / 3.0).sqrt()
            }
            Luck::Odd => random.normal() * if random.uniform() < 0.1 { 5.0 } else { 1.0 },
        }
    }
}

/// A record of arms with noise of 1 % times their spread: the baseline, its second copy, the forms. `effects` are the
/// forms' log ratios.
pub(crate) fn carry_out(luck: Luck, spreads: &[f64], effects: &[f64], blocks: u32, random: &mut Random) -> Record {
    let names: Vec<String> = (0..=effects.len()).map(|form| format!("f{form}")).collect();
    let study = records::study(&names.iter().map(String::as_str).collect::<Vec<_>>(), blocks);
    let plan = plan(&study, &[], (random.uniform() * 1e15) as u64);
    let shared: Vec<f64> = (0..blocks).map(|_| 0.03 * random.normal()).collect();
    let trials = plan.iter().map(|planned| {
        let form: usize = planned.form[1..].parse().expect("forms are numbered");
        let arm = if planned.control { 1 } else { form + usize::from(form > 0) };
        let effect = if form == 0 { 0.0 } else { effects[form - 1] };
        let log = shared[planned.block as usize] + effect + 0.01 * spreads[arm] * luck.draw(random);
        let mut record = TrialRecord::new(planned.clone(), String::new(), Outcome::Measured);
        record.metrics.insert("throughput".into(), 1e5 * log.exp());
        TrialData { record, seconds: Vec::new(), telemetry: Vec::new() }
    });
    let trials = trials.collect();
    records::record(study, plan, trials)
}

/// Shares of experiments.
#[derive(Debug, Default)]
struct Shares {
    /// All intervals of forms hold the truth.
    all: f64,
    /// That of the last form does.
    last: f64,
    /// The A/A control's alarm is silent.
    silent: f64,
    /// A form got a verdict.
    verdict: f64,
    /// The last form was called equivalent.
    equivalent: f64,
}

fn simulate(luck: Luck, spreads: &[f64], effects: &[f64], blocks: u32, experiments: u32) -> Shares {
    let (mut random, mut shares) = (Random::new(101), Shares::default());
    for _ in 0..experiments {
        let analysis = analyse(&carry_out(luck, spreads, effects, blocks, &mut random));
        let metric = &analysis.metrics[0];
        let forms: Vec<&Ratio> = metric.ratios.iter().filter(|ratio| ratio.arm != analysis.control).collect();
        let held: Vec<bool> = forms
            .iter()
            .zip(effects)
            .map(|(ratio, effect)| ratio.interval.expect("there are three blocks").contains(effect.exp()))
            .collect();
        let one = 1.0 / f64::from(experiments);
        let share = |holds: bool| if holds { one } else { 0.0 };
        shares.all += share(held.iter().all(|held| *held));
        shares.last += share(held.last() == Some(&true));
        shares.silent += share(!metric.control_differs);
        shares.verdict += share(forms.iter().any(|r| matches!(r.verdict, Verdict::Better | Verdict::Worse)));
        shares.equivalent += share(forms.last().is_some_and(|ratio| ratio.equivalent == Some(true)));
    }
    eprintln!("{luck:?}, spreads {spreads:?}, {blocks} blocks, effects {effects:?}: {shares:.4?}");
    shares
}

const SPREADS: [&[f64]; 4] = [&[1.0, 1.0, 1.0], &[1.0, 1.0, 3.0], &[1.0, 1.0, 1.0, 1.0, 5.0], &[5.0, 5.0, 1.0]];

#[test]
fn a_noisy_form_is_covered_as_often_as_a_steady_one() {
    let experiments = many(1_000);
    let slack = error(0.05, f64::from(experiments));
    for luck in [Luck::Normal, Luck::Heavy, Luck::Odd] {
        for blocks in [4, 5] {
            for spreads in SPREADS {
                let forms = spreads.len() - 2;
                let shares = simulate(luck, spreads, &vec![0.0; forms], blocks, experiments);
                let what = format!("{luck:?} {spreads:?} {blocks} blocks: {shares:?}");
                assert!(shares.all >= 0.95 - slack, "{what}");
                // Heavy tails make Student's interval wider than it need be, never narrower.
                assert!(luck != Luck::Normal || shares.all <= 0.97 + slack, "{what}");
                // Each form's own share of the family's 5 %.
                let own = 1.0 - 0.95_f64.powf(1.0 / forms as f64);
                assert!(shares.last >= 1.0 - own - error(own, f64::from(experiments)), "{what}");
                assert!(shares.verdict <= 0.05 + slack, "{what}");
                // The alarm is shared out over four metrics, and only one is simulated.
                assert!(shares.silent >= 0.9875 - error(0.0125, f64::from(experiments)), "{what}");
            }
        }
    }
}

#[test]
fn a_noisy_form_that_differs_by_the_margin_is_not_called_equivalent() {
    // A margin of 1 %, and a form that is off by just as much: of such runs at most 5 % may call it equivalent. Noise
    // is a fifth of what it is above, or nothing would ever be called so.
    let experiments = many(1_000);
    for luck in [Luck::Normal, Luck::Heavy, Luck::Odd] {
        for blocks in [4, 5, 10] {
            for spreads in SPREADS {
                let spreads: Vec<f64> = spreads.iter().map(|spread| 0.2 * spread).collect();
                let mut effects = vec![0.0; spreads.len() - 2];
                *effects.last_mut().expect("there is a form") = 1.01_f64.ln();
                let shares = simulate(luck, &spreads, &effects, blocks, experiments);
                let most = 0.05 + error(0.05, f64::from(experiments));
                assert!(shares.equivalent <= most, "{luck:?} {spreads:?} {blocks} blocks: {shares:?}");
            }
        }
    }
}
