//! How long trials take on this machine, and how many blocks fit into a given time: from deployments timed earlier,
//! else from a guess, and from the trials of the run itself. Only durations decide here, never figures.

use crate::chop::{BLOCKS_ALONE, COMPARED, COMPARED_LEAST, alone_for};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tare_core::design::Arrangement;
use tare_core::plan::{PlannedTrial, blocks, plan, rounds_after};
use tare_core::record::{FormState, Record, TrialRecord};
use tare_core::study::Study;
use tare_core::trial::{Outcome, Stage};
use tare_stats::power::Costs;

/// What a trial takes in addition to settling and measuring, such as deployment, until one of its form was timed.
const OVERHEAD_GUESS: Duration = Duration::from_secs(3);
/// The same for a form whose host is emulated.
const OVERHEAD_GUESS_EMULATED: Duration = Duration::from_secs(45);

/// What is known about a form before its first trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FormPace {
    /// Whether its host is emulated.
    pub emulated: bool,
    /// Whether this machine cannot have it. Its trials are then skipped, which takes no time.
    pub unavailable: bool,
    /// What its trials took here in addition to settling and measuring, when last timed.
    pub overhead: Option<Duration>,
}

/// How long trials take on this machine, by form. Nothing is known about a form that is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pace(BTreeMap<String, FormPace>);

impl Pace {
    /// From what is known about each form.
    pub fn new(forms: BTreeMap<String, FormPace>) -> Pace {
        Pace(forms)
    }

    /// From the states of a run's forms, none of which was timed.
    pub fn untimed(forms: &BTreeMap<String, FormState>) -> Pace {
        let pace = |state: &FormState| FormPace {
            emulated: state.emulated.is_some(),
            unavailable: state.unavailable.is_some(),
            overhead: None,
        };
        Pace(forms.iter().map(|(form, state)| (form.clone(), pace(state))).collect())
    }

    /// The forms that are known to be emulated here.
    pub fn emulated(&self) -> Vec<String> {
        self.0.iter().filter(|(_, pace)| pace.emulated).map(|(form, _)| form.clone()).collect()
    }

    /// The available forms of the study that were never timed.
    pub fn untimed_of<'a>(&self, study: &'a Study) -> Vec<&'a str> {
        let names = study.forms.iter().map(|form| form.name.as_str());
        names.filter(|form| self.of(form).overhead.is_none() && !self.of(form).unavailable).collect()
    }

    /// How long a trial of `form` takes.
    pub fn of_trial(&self, study: &Study, form: &str) -> Duration {
        let pace = self.of(form);
        if pace.unavailable {
            return Duration::ZERO;
        }
        load(study) + pace.overhead.unwrap_or_else(|| self.guess(form))
    }

    /// What a trial of `form` is assumed to take in addition to settling and measuring if none was timed.
    pub fn guess(&self, form: &str) -> Duration {
        if self.of(form).emulated { OVERHEAD_GUESS_EMULATED } else { OVERHEAD_GUESS }
    }

    /// How long a planned trial takes: in the first blocks of a chopped load, more than [`Pace::of_trial`].
    pub fn of_planned(&self, study: &Study, trial: &PlannedTrial) -> Duration {
        self.of_trial(study, &trial.form) + self.once(study, trial)
    }

    /// How long a planned trial is under load for what only the first blocks of a chopped load do.
    fn once(&self, study: &Study, trial: &PlannedTrial) -> Duration {
        match &study.design.arrangement {
            Arrangement::Chop(chop) if chop.pieces.is_none() && !self.of(&trial.form).unavailable => {
                let (settles, lasts) = alone_for(study);
                let alone = if trial.block < BLOCKS_ALONE { settles + lasts } else { Duration::ZERO };
                let compared = trial.block == 0 && chop.slice.is_none();
                alone + if compared { compared_for(study) } else { Duration::ZERO }
            }
            _ => Duration::ZERO,
        }
    }

    /// How long these trials take.
    pub fn of_trials<'a>(&self, study: &Study, trials: impl IntoIterator<Item = &'a PlannedTrial>) -> Duration {
        trials.into_iter().map(|trial| self.of_planned(study, trial)).sum()
    }

    /// How many blocks of the plan fit into `most`. The first round is always carried out, however long it takes.
    pub fn blocks_within(&self, study: &Study, plan: &[PlannedTrial], most: Duration) -> u32 {
        fitting(study, plan, 0, most, &mut |trial| self.of_planned(study, trial)).max(end_of_round(study, plan, 0))
    }

    /// The costs of the study's rounds. All rounds cost the same, except for work that is done only in the first ones:
    /// trials of emulated forms, and loading each form alone.
    pub fn costs(&self, study: &Study) -> Costs {
        let emulated = self.emulated();
        let early = if emulated.is_empty() { 0 } else { study.emulated_blocks };
        let of_rounds = |repeat| plan(&Study { repeat, ..study.clone() }, &emulated, 0);
        let first = of_rounds(early);
        // A round's order follows from its number, so the first rounds of both plans are the same.
        let later = of_rounds(early + 1).split_off(first.len());
        let there = later.iter().filter(|trial| !self.of(&trial.form).unavailable).count() as f64;
        let plain = |trials: &[PlannedTrial]| -> f64 {
            trials.iter().map(|trial| self.of_trial(study, &trial.form).as_secs_f64()).sum()
        };
        let round_s = plain(&later);
        let once_s = match &study.design.arrangement {
            Arrangement::Chop(chop) => {
                let (settles, lasts) = alone_for(study);
                let alone = BLOCKS_ALONE * (settles + lasts);
                // The first block finds how long slices must be; that a cold service needs longer ones is not foreseen.
                let compared = if chop.slice.is_none() { compared_for(study) } else { Duration::ZERO };
                there * (alone + compared).as_secs_f64()
            }
            _ => 0.0,
        };
        let measure_s = study.measure.as_secs_f64();
        // Each slice settles, so measuring takes longer than the time that counts.
        let deployments = match study.design.arrangement {
            Arrangement::Alternate(slices) => {
                there * (1.0 + slices.settle.as_secs_f64() / slices.measure.as_secs_f64())
            }
            _ => there,
        };
        Costs {
            begin_s: plain(&first) - f64::from(early) * round_s + once_s,
            round_s: (round_s - deployments * measure_s).max(0.0),
            deployments,
        }
    }

    /// What is known about a form.
    pub fn of(&self, form: &str) -> FormPace {
        self.0.get(form).copied().unwrap_or_default()
    }
}

/// How long a trial of the study is under load; the maximum if it settles until it is steady. A search for the peak
/// states an expected length, which it may exceed.
fn load(study: &Study) -> Duration {
    let Arrangement::Alternate(slices) = study.design.arrangement else {
        return study.settle.max(study.design.steady_within.unwrap_or_default()) + study.measure;
    };
    study.settle + slices.rounds(study.measure) * (slices.settle + slices.measure)
}

/// The first block after the round of `block`: the blocks of a round are carried out together or not at all.
pub(crate) fn end_of_round(study: &Study, plan: &[PlannedTrial], block: u32) -> u32 {
    let whole = (block..blocks(plan)).find(|block| rounds_after(plan, study, *block) > 0);
    whole.map_or(blocks(plan), |last| last + 1)
}

/// How many blocks of the plan will be done if no round is started that would end later than `left` from now: the first
/// `done`, and those of as many whole rounds as fit.
pub(crate) fn fitting(
    study: &Study,
    plan: &[PlannedTrial],
    done: u32,
    left: Duration,
    expected: &mut dyn FnMut(&PlannedTrial) -> Duration,
) -> u32 {
    let (mut fit, mut spent) = (done, Duration::ZERO);
    while fit < blocks(plan) {
        let end = end_of_round(study, plan, fit);
        spent += plan.iter().filter(|trial| (fit..end).contains(&trial.block)).map(&mut *expected).sum::<Duration>();
        if spent > left {
            break;
        }
        fit = end;
    }
    fit
}

/// By form, what its measured trials took in addition to settling and measuring: the median of all but the first, which
/// also prepares things for the others. This is what a later run can expect.
pub fn overheads(record: &Record) -> BTreeMap<String, Duration> {
    let mut timed: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for trial in record.trials.iter().filter(|trial| trial.record.outcome == Outcome::Measured) {
        let overhead = overhead(&record.header.study, &trial.record);
        timed.entry(&trial.record.trial.form).or_default().push(overhead);
    }
    let usual = |mut times: Vec<Duration>| {
        let later = if times.len() > 1 { &mut times[1..] } else { &mut times[..] };
        later.sort();
        later[later.len() / 2]
    };
    timed.into_iter().map(|(form, times)| (form.to_owned(), usual(times))).collect()
}

fn overhead(study: &Study, trial: &TrialRecord) -> Duration {
    let (load_s, other_s): (Vec<_>, Vec<_>) =
        trial.stages.iter().partition(|(stage, _)| [Stage::Settle, Stage::Measure].contains(stage));
    let sum = |stages: Vec<(&Stage, &f64)>| stages.into_iter().map(|(_, took_s)| *took_s).sum::<f64>();
    let (load_s, other_s) = (sum(load_s), sum(other_s));
    // Some loads end when they have found what they look for; others deviate somewhat from their plan. In pieces a load
    // starts several times, which runs do not do.
    let pieces = matches!(&study.design.arrangement, Arrangement::Chop(chop) if chop.pieces.is_some());
    let open = study.peak.is_some() || study.design.steady_within.is_some() || pieces;
    let planned_s = load(study).as_secs_f64() + once_s(study, trial);
    let beside_s = if open { 0.0 } else { (load_s - planned_s).max(0.0) };
    Duration::from_secs_f64((other_s + beside_s).max(0.0))
}

/// How long a deployment was under load for what only the first blocks do, see [`Pace::costs`], s.
pub(crate) fn once_s(study: &Study, trial: &TrialRecord) -> f64 {
    let (settles, lasts) = alone_for(study);
    let alone_s = trial.alone.as_ref().map_or(0.0, |_| (settles + lasts).as_secs_f64());
    let compared_s = if trial.lengths.is_empty() { 0.0 } else { compared_for(study).as_secs_f64() };
    alone_s + compared_s
}

/// How long each load of a block is active while turns of several lengths are compared.
fn compared_for(study: &Study) -> Duration {
    study.settle + study.measure.clamp(COMPARED_LEAST, COMPARED[0].1)
}

/// How long the trials of each form took in this run, each with its block.
#[derive(Default)]
pub(crate) struct Timed(BTreeMap<String, Vec<(u32, Duration)>>);

impl Timed {
    /// Notes the duration of a form's trial in a block, without what only the first blocks do.
    pub(crate) fn note(&mut self, form: &str, block: u32, took: Duration) {
        self.0.entry(form.to_owned()).or_default().push((block, took));
    }

    /// Whether nothing was timed yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How long the next planned trial will take; `pace` is what was known before the run. The first trial of a form
    /// also reads its resources and prepares things for later ones, so its duration is an upper bound.
    pub(crate) fn next(&self, study: &Study, pace: &Pace, trial: &PlannedTrial) -> Duration {
        let (known, form) = (pace.of_trial(study, &trial.form), trial.form.as_str());
        let usual = match self.usual(pace, form).as_slice() {
            [] => known,
            [first] if pace.of(form).overhead.is_some() => known.min(*first),
            [first] => *first,
            [_, later @ ..] => later.iter().sum::<Duration>() / later.len() as u32,
        };
        usual + pace.once(study, trial)
    }

    /// The durations of a form's trials. Beside emulated forms, all others are under load for longer: such blocks are
    /// few, so they do not count where the form was timed in another.
    fn usual(&self, pace: &Pace, form: &str) -> Vec<Duration> {
        let all = self.0.get(form).map(Vec::as_slice).unwrap_or_default();
        let took = |timed: &[(u32, Duration)]| timed.iter().map(|(_, took)| *took).collect::<Vec<Duration>>();
        if pace.of(form).emulated {
            return took(all);
        }
        let emulated = self.0.iter().filter(|(other, _)| pace.of(other).emulated);
        let blocks: BTreeSet<u32> = emulated.flat_map(|(_, timed)| timed.iter().map(|(block, _)| *block)).collect();
        let others: Vec<(u32, Duration)> = all.iter().copied().filter(|(block, _)| !blocks.contains(block)).collect();
        if others.is_empty() { took(all) } else { took(&others) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::design::Chop;
    use tare_core::form::Form;
    use tare_core::load::LoadProfile;

    /// Of a plain process and a box, chopped into slices of this length, or of one that the run is to find.
    fn study(measure_s: u64, slice: Option<Duration>) -> Study {
        let forms = ["plain", "box"].map(|name| Form { name: name.to_owned(), ..Form::default() });
        let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
        let (settle, measure) = (Duration::from_secs(1), Duration::from_secs(measure_s));
        let mut study = Study { settle, measure, ..Study::of("s", "w", closed, forms.into()) };
        study.design.arrangement = Arrangement::Chop(Chop { slice, ..Chop::default() });
        study
    }

    #[test]
    fn what_only_the_first_blocks_of_a_chopped_load_have_is_spent_once() {
        let (found, asked) = (None, Some(Duration::from_millis(20)));
        let once_s = |pace: &Pace, study: &Study| pace.costs(study).begin_s;
        let pace = Pace::default();
        // Three deployments, each alone for 2.3 s in three blocks; and once for 1 s and 3.3 to 5 s to compare lengths.
        for (study, wanted_s) in [(study(2, asked), 20.7), (study(2, found), 33.6), (study(60, found), 38.7)] {
            assert!((once_s(&pace, &study) - wanted_s).abs() < 1e-6, "{}", once_s(&pace, &study));
        }
        let boxless = FormPace { unavailable: true, ..FormPace::default() };
        let boxless = Pace::new([("box".to_owned(), boxless)].into());
        assert!((once_s(&boxless, &study(2, asked)) - 13.8).abs() < 1e-6, "{}", once_s(&boxless, &study(2, asked)));
        let blocks = Study { design: Default::default(), ..study(2, found) };
        assert!(once_s(&pace, &blocks).abs() < 1e-6, "one after the other, blocks are alike");
        assert_eq!(pace.costs(&study(2, found)).round_s, pace.costs(&blocks).round_s);
    }

    #[test]
    fn what_only_the_first_blocks_have_is_expected_of_no_later_one() {
        let study = study(2, None);
        let planned = |block| {
            let form = "plain".to_owned();
            PlannedTrial { index: 0, block, form, control: false, again: None, profiled: false }
        };
        let mut timed = Timed::default();
        // A block of 3 s and its baseline twice; the first is also alone for 2.3 s and compares for 3.3 s.
        timed.note("plain", 0, Duration::from_secs(4));
        timed.note("plain", 0, Duration::from_secs(3));
        let next_s = |block| timed.next(&study, &Pace::default(), &planned(block)).as_secs_f64();
        assert!(next_s(1) > 5.0 && (next_s(5) - 3.0).abs() < 1e-9, "{} {}", next_s(1), next_s(5));
    }

    #[test]
    fn what_a_block_beside_an_emulated_form_took_is_expected_of_no_other() {
        let (study, emulated) =
            (study(2, Some(Duration::from_millis(20))), FormPace { emulated: true, ..FormPace::default() });
        let pace = Pace::new([("box".to_owned(), emulated)].into());
        let next_s = |timed: &Timed, form: &str| {
            let planned = PlannedTrial {
                index: 0,
                block: 5,
                form: form.to_owned(),
                control: false,
                again: None,
                profiled: false,
            };
            timed.next(&study, &pace, &planned).as_secs_f64()
        };
        let mut timed = Timed::default();
        timed.note("plain", 1, Duration::from_secs(25));
        timed.note("box", 1, Duration::from_secs(60));
        assert_eq!((next_s(&timed, "plain"), next_s(&timed, "box")), (25.0, 60.0), "nothing else was timed");
        timed.note("plain", 2, Duration::from_secs(3));
        timed.note("plain", 3, Duration::from_secs(3));
        assert_eq!(next_s(&timed, "plain"), 3.0);
    }
}
