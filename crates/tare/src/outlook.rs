//! Predicts how long a run will take on this machine and how many blocks fit into a time limit, and makes a study fit
//! into its limit before anything is measured.

use crate::history;
use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::design::Arrangement;
use tare_core::form::Form;
use tare_core::plan::{PlannedTrial, blocks, plan, plan_profiles, rounds_after};
use tare_core::record::FormState;
use tare_core::study::Study;
use tare_core::units::{exact_duration, show_duration};
use tare_core::workload::Workload;
use tare_report::whole;
use tare_runner::{FormPace, Pace};
use tare_stats::power::best_length_s;

/// The number of blocks that intervals need.
const ROUNDS_MIN: u32 = 3;
/// To fit, a trial's measuring time is cut no further than to this time, and to this share of the requested time.
const MEASURE_MIN: Duration = Duration::from_secs(2);
const MEASURE_SHARE_MIN: f64 = 0.25;
/// Slices per deployment, so that the orders of rounds are balanced.
const SLICES_MIN: u32 = 10;

/// How long trials of the study took on this machine before. `forms` says what each form is here; without it, each is
/// assumed to be what it was last time.
pub(crate) fn pace(study: &Study, workload: &Workload, forms: Option<&BTreeMap<String, FormState>>) -> Pace {
    // Without a readable history, all is a guess.
    let timed = history::times(study, workload).unwrap_or_default();
    let of = |form: &String| {
        let state = forms.and_then(|forms| forms.get(form));
        let emulated = state.map(|state| state.emulated.is_some());
        let times = timed.get(form).map(Vec::as_slice).unwrap_or_default();
        let last = emulated.or_else(|| times.first().map(|time| time.emulated)).unwrap_or(false);
        let mut like: Vec<Duration> =
            times.iter().filter(|time| time.emulated == last).map(|time| time.overhead).collect();
        like.sort();
        FormPace {
            emulated: last,
            unavailable: state.is_some_and(|state| state.unavailable.is_some()),
            overhead: like.get(like.len() / 2).copied(),
        }
    };
    Pace::new(study.forms.iter().map(|form| (form.name.clone(), of(&form.name))).collect())
}

/// Makes the study fit into its time limit, as far as can be predicted: emulated forms, about which nothing is claimed,
/// take part in one block only; if too few blocks for intervals fit even so, trials measure for a shorter time; and
/// where load is chopped, which costs next to nothing to begin, they do so if more deployments make intervals narrower.
/// All blocks are alike, so this is decided before the first one. Returns what was changed, in words. `typed` is
/// whether the user typed the measuring time.
pub(crate) fn fit(study: &mut Study, pace: &Pace, typed: bool) -> Option<String> {
    let most = study.at_most.filter(|_| !study.design.ends_by_itself())?;
    let allowed = |study: &Study| rounds_within(study, pace, most);
    let needed = study.repeat.min(ROUNDS_MIN);
    let mut said = Vec::new();
    if study.emulated_blocks > 1 && !pace.emulated().is_empty() && allowed(study) < study.repeat {
        study.emulated_blocks = 1;
        said.push("emulated forms take part in one block only".to_owned());
    }
    let fixed = typed || study.peak.is_some() || study.load.span().is_some();
    let sliced = matches!(study.design.arrangement, Arrangement::Alternate(_) | Arrangement::Chop(_));
    if !fixed && let Arrangement::Chop(chop) = &study.design.arrangement {
        // Percentiles that are held against a limit need the operations that were asked for.
        let least = chop.slice.map_or(Duration::ZERO, |slice| SLICES_MIN * slice);
        if study.qos.is_none() {
            said.extend(measure_more_deployments(study, pace, most, least));
        }
    } else if !fixed && !sliced && allowed(study) < needed {
        let (asked, least) = (study.measure, MEASURE_MIN.max(study.measure.mul_f64(MEASURE_SHARE_MIN)));
        let whole_seconds = (least.as_secs_f64().ceil() as u64..asked.as_secs_f64().ceil() as u64).rev();
        let fits = whole_seconds.map(Duration::from_secs).find(|measure| {
            let shorter = Study { measure: *measure, ..study.clone() };
            allowed(&shorter) >= needed
        });
        if let Some(measure) = fits {
            study.measure = measure;
            let (measure, asked) = (exact_duration(measure), exact_duration(asked));
            said.push(format!("each trial measures {measure} instead of {asked}, so that {needed} blocks fit"));
        }
    }
    (!said.is_empty()).then(|| format!("to fit into {}: {}", exact_duration(most), said.join("; ")))
}

/// Measures each deployment for a shorter time, but no shorter than `least`, if a run of `most` then gives narrower
/// intervals. Returns that in words. What deployments took here before does not count: the same command must measure
/// for as long each time, or runs could not be compared.
fn measure_more_deployments(study: &mut Study, pace: &Pace, most: Duration, least: Duration) -> Option<String> {
    let untimed = |form: &Form| (form.name.clone(), FormPace { overhead: None, ..pace.of(&form.name) });
    // That emulated forms were cut to one block follows from earlier trials as well.
    let alike = Study { emulated_blocks: 1, ..study.clone() };
    let costs = Pace::new(study.forms.iter().map(untimed).collect()).costs(&alike);
    let asked = study.measure;
    let (asked_s, least_s, most_s) = (asked.as_secs_f64(), least.as_secs_f64(), most.as_secs_f64());
    let measure = Duration::from_secs_f64(best_length_s(&costs, asked_s, least_s, most_s, study.repeat)?);
    study.measure = measure;
    let (measure, asked) = (exact_duration(measure), exact_duration(asked));
    Some(format!(
        "each trial measures {measure} instead of {asked}, because more and shorter ones give narrower intervals \
         (--measure keeps it)"
    ))
}

/// How many rounds of the study fit into `most`.
fn rounds_within(study: &Study, pace: &Pace, most: Duration) -> u32 {
    let plan = plan(study, &pace.emulated(), 0);
    rounds(study, &plan, pace.blocks_within(study, &plan, most))
}

/// The number of complete rounds in the first `begun` blocks.
fn rounds(study: &Study, plan: &[PlannedTrial], begun: u32) -> u32 {
    begun.checked_sub(1).map_or(0, |last| rounds_after(plan, study, last))
}

/// How many trials a run has, and how long they will take.
pub(crate) struct Outlook<'a> {
    study: &'a Study,
    plan: &'a [PlannedTrial],
    pace: &'a Pace,
    profiles: Vec<PlannedTrial>,
    /// Blocks that will be run.
    blocks: u32,
}

impl Outlook<'_> {
    pub(crate) fn of<'a>(study: &'a Study, plan: &'a [PlannedTrial], pace: &'a Pace) -> Outlook<'a> {
        let most = study.at_most.filter(|_| !study.design.ends_by_itself());
        let blocks = most.map_or(blocks(plan), |most| pace.blocks_within(study, plan, most));
        Outlook { study, plan, pace, profiles: plan_profiles(study), blocks }
    }

    /// The number of trials that will be run, including profiled ones.
    pub(crate) fn trials(&self) -> usize {
        self.counted().count() + self.profiles.len()
    }

    /// How long they will take. A time limit applies to those that count.
    pub(crate) fn time(&self) -> Duration {
        let counted = self.pace.of_trials(self.study, self.counted());
        let most = self.study.at_most.filter(|_| self.study.design.ends_by_itself());
        most.map_or(counted, |most| counted.min(most)) + self.profiling()
    }

    /// How long the profiled trials take.
    fn profiling(&self) -> Duration {
        self.pace.of_trials(self.study, &self.profiles)
    }

    fn counted(&self) -> impl Iterator<Item = &PlannedTrial> {
        self.plan.iter().filter(|trial| trial.block < self.blocks)
    }

    /// In words: `22 trials in 5 blocks, about 4m 48s (based on earlier trials)`.
    pub(crate) fn describe(&self) -> String {
        match self.limit() {
            // The limit alone decides: nothing was predicted.
            Some(_) if self.profiles.is_empty() => self.amount(),
            _ => format!("{} ({})", self.amount(), self.basis()),
        }
    }

    /// The time limit of a study that runs until its intervals are narrow, if all of its blocks would take longer.
    fn limit(&self) -> Option<Duration> {
        self.study.design.half_width?;
        self.study.at_most.filter(|most| self.pace.of_trials(self.study, self.counted()) > *most)
    }

    /// The same without the basis of the prediction.
    pub(crate) fn amount(&self) -> String {
        let (study, all) = (self.study, blocks(self.plan));
        let trials = plural(self.counted().count() as u32, "trial");
        let profiled = match self.profiles.len() {
            0 => String::new(),
            profiled => format!(" and {profiled} profiled after them"),
        };
        let time = whole(&show_duration(self.time()));
        let until =
            study.design.half_width.map(|share| format!("until intervals reach {} either way, ", percent(share)));
        let until = until.unwrap_or_default();
        if let Some(most) = self.limit() {
            let profiled = match self.profiles.len() as u32 {
                0 => String::new(),
                profiled => {
                    let more = whole(&show_duration(self.profiling()));
                    format!(", then {}, about {more} more", plural(profiled, "profiled trial"))
                }
            };
            return format!("{until}{} at most{profiled}", whole(&exact_duration(most)));
        }
        match study.at_most.filter(|_| self.blocks < all) {
            Some(most) => {
                let (most, blocks) = (whole(&exact_duration(most)), self.blocks);
                format!("about {blocks} of {all} blocks fit into {most}: {trials}{profiled}, about {time}")
            }
            None => {
                let at_most = if study.design.ends_by_itself() { "at most " } else { "" };
                format!("{until}{at_most}{trials} in {}{profiled}, about {time}", plural(all, "block"))
            }
        }
    }

    /// The basis of the predicted time.
    fn basis(&self) -> String {
        let mut untimed = self.pace.untimed_of(self.study);
        if self.limit().is_some() {
            // The limit says how long the blocks take.
            untimed.retain(|form| self.profiles.iter().any(|trial| trial.form == *form));
        }
        let mut guesses: Vec<Duration> = untimed.iter().map(|form| self.pace.guess(form)).collect();
        guesses.sort();
        guesses.dedup();
        let guesses: Vec<String> = guesses.into_iter().map(|guess| whole(&exact_duration(guess))).collect();
        let guessed = format!("guessed to take {} in addition to its load", guesses.join(" or "));
        let names: Vec<String> = untimed.iter().map(|form| whole(form)).collect();
        match names.len() {
            0 => "based on earlier trials".to_owned(),
            all if all == self.study.forms.len() => format!("a trial is {guessed}: no earlier trials"),
            _ => format!("a trial of {} is {guessed}: no earlier trials", names.join(", ")),
        }
    }

    /// A warning if too few blocks for intervals fit into the time limit.
    pub(crate) fn too_short(&self) -> Option<String> {
        let Outlook { study, plan, pace, .. } = self;
        let most = study.at_most?;
        let (begun, all) = (pace.blocks_within(study, plan, most), blocks(plan));
        if begun == all || rounds(study, plan, begun) >= ROUNDS_MIN {
            return None;
        }
        let time_of = |blocks: u32| pace.of_trials(study, plan.iter().filter(|trial| trial.block < blocks));
        let first = time_of(begun);
        let first = if first > most {
            format!(", which is run although it takes about {}", show_duration(first))
        } else {
            String::new()
        };
        let enough = (1..=all).find(|blocks| rounds(study, plan, *blocks) >= ROUNDS_MIN).map(time_of);
        let enough = enough.map(|time| format!("; about {} would suffice", show_duration(time))).unwrap_or_default();
        let most = exact_duration(most);
        Some(format!(
            "warning: {most} is time for about {begun} of {all} blocks{first}; intervals need {ROUNDS_MIN}{enough}"
        ))
    }
}

/// How long the forms take in which a rung's feature stands in another place, in words: `about 4m 10s of all blocks go
/// to 5 forms with rungs in other places`. None if there are no such forms.
pub(crate) fn of_orders(study: &Study, pace: &Pace, seed: u64) -> Option<String> {
    let ladder = study.ladder.as_ref().filter(|ladder| !ladder.turned.is_empty())?;
    let is_turned = |name: &str| ladder.turned.iter().any(|turned| turned.form == name);
    let is_extra = |form: &Form| is_turned(&form.name) && !ladder.rungs.iter().any(|rung| rung.form == form.name);
    let extra = study.forms.iter().filter(|form| is_extra(form)).count() as u32;
    let kept: Vec<Form> = study.forms.iter().filter(|form| !is_extra(form)).cloned().collect();
    let plain = Study { forms: kept, ..study.clone() };
    // A time limit is ignored here: this is the difference between whole plans.
    let time = |study: &Study| pace.of_trials(study, &plan(study, &pace.emulated(), seed));
    let more = whole(&show_duration(time(study).saturating_sub(time(&plain))));
    Some(format!("about {more} of all blocks go to {} with rungs in other places", plural(extra, "form")))
}

/// The sum over the parts of a study.
#[derive(Default)]
pub(crate) struct Total {
    parts: u32,
    trials: usize,
    time: Duration,
    /// Parts with a form that was never timed here.
    guessed: u32,
}

impl Total {
    pub(crate) fn add(&mut self, part: &Outlook) {
        self.parts += 1;
        self.trials += part.trials();
        self.time += part.time();
        self.guessed += u32::from(!part.pace.untimed_of(part.study).is_empty());
    }

    /// In words: `8 parts, 96 trials, about 10m 30s (based on earlier trials)`.
    pub(crate) fn describe(&self) -> String {
        let basis = match self.guessed {
            0 => "based on earlier trials".to_owned(),
            all if all == self.parts => "a guess: each part has a form without earlier trials".to_owned(),
            some => format!("partly a guess: {} without earlier trials", plural(some, "part")),
        };
        let (parts, trials) = (plural(self.parts, "part"), plural(self.trials as u32, "trial"));
        format!("{parts}, {trials}, about {} ({basis})", whole(&show_duration(self.time)))
    }
}

/// A share as a study writes it.
fn percent(share: f64) -> String {
    whole(&format!("{} %", (share * 1e4).round() / 100.0))
}

fn plural(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;
    use std::path::Path;
    use tare_core::profile::Profiled;

    fn study(more: &str) -> Study {
        let design = if more.contains("design:") { "" } else { "design: blocks\n" };
        let text = format!(
            "study: s\nworkload: redis\nload: {{closed: {{}}}}\ntime: {{settle: 1s, measure: 8s}}\n\
             forms: {{plain: [], guest: [vm: {{}}]}}\n{design}{more}\n"
        );
        let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
        files::only_part(files::read_suite_text(&text, "s", Some(&workloads)).unwrap(), "run").unwrap().0
    }

    /// A plain process that takes a second to deploy, and an emulated guest that takes 51 s.
    fn slow() -> Pace {
        let of =
            |emulated, seconds| FormPace { emulated, unavailable: false, overhead: Some(Duration::from_secs(seconds)) };
        Pace::new([("plain".to_owned(), of(false, 1)), ("guest".to_owned(), of(true, 51))].into())
    }

    #[test]
    fn emulated_blocks_are_cut_first_and_the_measuring_time_last() {
        // Five blocks of 20 s and 60 s for each guest.
        let fit_within = |most: &str, more: &str, typed| {
            let mut study = study(&format!("at_most: {most}\nemulated_blocks: 5\n{more}"));
            let said = fit(&mut study, &slow(), typed).unwrap_or_default();
            let plan = plan(&study, &slow().emulated(), 0);
            let blocks = slow().blocks_within(&study, &plan, study.at_most.unwrap());
            (study.emulated_blocks, study.measure.as_secs(), blocks, said)
        };
        let cut = |most| {
            let (emulated, measure, blocks, _) = fit_within(most, "", false);
            (emulated, measure, blocks)
        };
        assert_eq!(cut("400s"), (5, 8, 5), "it fits as it is");
        assert_eq!(cut("399s"), (1, 8, 5));
        assert_eq!(cut("150s"), (1, 8, 4));
        assert_eq!(cut("120s"), (1, 8, 3));
        assert_eq!(cut("119s"), (1, 7, 3), "intervals need three blocks");
        assert_eq!(cut("78s"), (1, 2, 3));
        assert_eq!(cut("77s"), (1, 8, 1), "three do not fit, so the measuring time stays as requested");
        let (.., said) = fit_within("119s", "", false);
        let wanted = "to fit into 119 s: emulated forms take part in one block only; each trial measures 7 s instead of \
                      8 s, so that 3 blocks fit";
        assert_eq!(said, wanted);
        assert_eq!(fit_within("119s", "", true).1, 8, "what was typed is kept");
        assert_eq!(fit_within("119s", "design: {alternate: {slice: 4s, settle: 1s}}", false).1, 8);
    }

    #[test]
    fn a_short_chopped_run_measures_more_deployments_for_a_shorter_time() {
        let fit_within = |most: &str, typed| {
            let mut study = study(&format!("at_most: {most}\ndesign: chop\nrepeat: 100\nruler: 1 %"));
            study.forms.retain(|form| form.name == "plain");
            let said = fit(&mut study, &slow(), typed).unwrap_or_default();
            (study.measure.as_secs(), said)
        };
        let (measure, said) = fit_within("120s", false);
        assert!((2..=3).contains(&measure) && said.contains("instead of 8 s"), "{measure}: {said}");
        assert_eq!(fit_within("120s", true), (8, String::new()), "what was typed is kept");
        assert_eq!(fit_within("2h", false), (8, String::new()), "there is time for all blocks");
    }

    #[test]
    fn a_study_that_runs_until_its_intervals_are_narrow_is_not_cut() {
        let mut study = study("until: {half_width: 2%, at_most: 60s}\nemulated_blocks: 5");
        let before = study.clone();
        assert_eq!(fit(&mut study, &slow(), false), None);
        assert_eq!(study, before);
        let plan = plan(&study, &slow().emulated(), 0);
        let words = Outlook::of(&study, &plan, &slow()).describe();
        assert_eq!(words.replace('\u{a0}', " "), "until intervals reach 2 % either way, 60 s at most");
        // The limit applies to blocks only.
        study.profile = Some(Profiled::All);
        let pace = slow();
        let outlook = Outlook::of(&study, &plan, &pace);
        let wanted = "until intervals reach 2 % either way, 60 s at most, then 2 profiled trials, about 1m 10s more \
                      (based on earlier trials)";
        assert_eq!(outlook.describe().replace('\u{a0}', " "), wanted);
        assert_eq!(outlook.time(), Duration::from_secs(130));
        study.profile = Some(Profiled::Forms(vec!["plain".to_owned()]));
        let timed = Pace::new([("plain".to_owned(), slow().of("plain"))].into());
        let words = Outlook::of(&study, &plan, &timed).describe().replace('\u{a0}', " ");
        assert!(words.ends_with("then 1 profiled trial, about 10 s more (based on earlier trials)"), "{words}");
        study.profile = None;
        study.at_most = None;
        let words = Outlook::of(&study, &plan, &slow()).describe();
        let wanted = "until intervals reach 2 % either way, at most 85 trials in 40 blocks, about 18m 20s (based on \
                      earlier trials)";
        assert_eq!(words.replace('\u{a0}', " "), wanted);
    }
}
