//! What a reader must know before believing a figure, in words.

use crate::ceiling;
use crate::probe_cost;
use crate::quantity::{digits, plain_quantity};
use crate::resting;
use crate::warming;
use tare_core::record::{Asker, Record};
use tare_stats::{
    Analysis, Counted, MachineFacts, Missing, Stall, Stalls, Unfinished, Unsteady, Warning, percent_text,
};

/// Of a run that ended because of what it had found.
const ENDED_BY_FINDING: &str = "the run ended because of what it had found: its ratios are biased away from 1, and \
    their intervals are not corrected for the interim looks; the search's own comparison is";

/// Every warning of an analysis, gravest first.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    analysis.warnings.iter().map(words).collect()
}

/// These, and what else must be known before a figure is believed; gravest first.
pub(crate) fn all(analysis: &Analysis) -> Vec<String> {
    with(analysis, warming::lines(analysis))
}

/// Of all only what changes what may be concluded.
pub(crate) fn grave(analysis: &Analysis) -> Vec<String> {
    with(analysis, warming::grave_lines(analysis))
}

fn with(analysis: &Analysis, warming: Vec<String>) -> Vec<String> {
    let others = lines(analysis).into_iter().chain(ceiling::warning(analysis));
    others.chain(resting::lines(analysis)).chain(warming).collect()
}

/// What of a run is not in its record, a sentence each: trials that were never run, and what was measured and is gone.
pub fn missing(record: &Record) -> Vec<String> {
    tare_stats::missing(record).iter().map(missing_words).collect()
}

fn words(warning: &Warning) -> String {
    match warning {
        Warning::Missing { what } => missing_words(what),
        Warning::EmulatedBaseline { baseline } => {
            format!("the baseline {baseline} ran EMULATED: no ratio to it is a claim about the real thing")
        }
        Warning::EqualsDiffer { metric, floor, machine } => format!(
            "the A/A control differs from the baseline in {metric} (by chance alone in at most 1 of 20 runs): {} treats \
             identical forms differently. Verdicts on {metric} are withheld; treat effects below {:.1} % as noise",
            host(machine),
            floor * 100.0
        ),
        Warning::VoidTooOften { arm, void, ran, p } => format!(
            "{arm}: {void} of {ran} trials are void or failed, more than in the other forms (Fisher p = {p:.4}): the \
             cause is in the form, so its verdicts are withheld"
        ),
        Warning::BlocksNotWhole { blocks } => {
            let blocks = if *blocks == 1 { "1 block".to_owned() } else { format!("{blocks} blocks") };
            format!("{blocks} with void trials had void trials again when repeated")
        }
        Warning::OtherBits { service, path, more } => {
            let others = if *more == 0 { String::new() } else { format!(" and {more} more") };
            format!("not the same bits: service {service} has a different {path}{others}")
        }
        Warning::UnequalResources { service, properties } => {
            format!("unequal resources of service {service} may bias the comparison: {}", properties.join(", "))
        }
        Warning::TrimmedApart { arm, metric, ratio, trimmed } => {
            let most = trimmed.map(|most| format!("{most:.3} without its best and worst fifth"));
            let still = || "and one of the two stalled for more than a fifth of it in a trial".to_owned();
            format!(
                "{arm}, {metric}: {ratio:.3} times the baseline over the whole time, {}: a few stalls or bursts make the \
                 difference, so the two are not called equivalent",
                most.unwrap_or_else(still)
            )
        }
        Warning::StoodStill { stalls } => stalled(stalls),
        Warning::NeverSteady { arms } => unsteady(arms),
        Warning::NotNearNormal { arm, metric } => {
            format!("{arm}, {metric}: blocks are not near-normal; look at the trials, not at the mean")
        }
        Warning::Cold { share, slice_ns, longest_ns } => {
            let [slice, longest] = [*slice_ns, *longest_ns].map(|ns| plain_quantity(ns as f64 / 1e3, "us"));
            format!(
                "the service is cold in slices: turns of {slice} are {} slower than turns of {longest}, the length of \
                 slices, so these may still be slower than uninterrupted load, and not equally in all forms. To do: \
                 measure it with --design blocks",
                percent_text(*share)
            )
        }
        Warning::MovesUntold { arms, blocks, of } => {
            let whose = if arms.is_empty() { "a form".to_owned() } else { arms.join(", ") };
            format!(
                "in {blocks} of {of} blocks the turns of {whose} hold too few operations, or lost too many, to tell what a move \
                 costs, so no form's time is corrected for it there: ratios are off where moves cost forms differently. \
                 To do: longer slices"
            )
        }
        Warning::WarmthUnknown { slice_ns } => format!(
            "whether the service is cold in slices of {} is not known: too few turns of different lengths could be compared. \
             To do: measure for longer, or check the ratios with --design blocks",
            plain_quantity(*slice_ns as f64 / 1e3, "us")
        ),
        Warning::ProbeCosts { form, changes, cost } => probe_cost::weighs(form, *changes, *cost),
        Warning::EndedByFinding => ENDED_BY_FINDING.to_owned(),
        Warning::EndedOnRequest { by, there, planned } => ended_on_request(by.as_ref(), *there, *planned),
    }
}

fn ended_on_request(by: Option<&Asker>, there: usize, planned: usize) -> String {
    let who = by.map_or_else(|| "a user".to_owned(), Asker::to_string);
    format!(
        "{who} asked the run to end early, after {there} of {planned} planned trials; if its figures were the reason, its \
         intervals are too narrow"
    )
}

fn missing_words(missing: &Missing) -> String {
    match missing {
        Missing::Unfinished { why, there, planned } => {
            let why = match why {
                Unfinished::NoEnd => "it still runs, or was killed",
                Unfinished::Interrupted => "it was interrupted",
                Unfinished::BudgetSpent => "its time budget was spent",
            };
            format!("the run is not complete: {why} ({there} of {planned} trials)")
        }
        Missing::TrialsLost { trials, planned } => {
            let (count, one) = (trials.len(), trials.len() == 1);
            let (word, are) = if one { ("trial", "is") } else { ("trials", "are") };
            format!(
                "the record is not whole: {count} {word} that the run carried out {are} gone from it ({} of the {planned} \
                 planned). Put the missing folders back below 'trials', or let `tare resume` run them again",
                numbers(trials)
            )
        }
        Missing::Emptied { file, trials } => format!(
            "the record is not whole: {file} is empty in {}, which measured something; only what trial.json says of it \
             is left",
            numbers(trials)
        ),
    }
}

/// `trial 3`, `trials 3, 4 and 17`, `trials 3, 4, 17 and 9 more`.
fn numbers(trials: &[u32]) -> String {
    const SHOWN: usize = 8;
    let mut shown: Vec<String> = trials.iter().take(SHOWN).map(u32::to_string).collect();
    let last = match trials.len() {
        0 | 1 => None,
        2..=SHOWN => shown.pop(),
        all => Some(format!("{} more", all - SHOWN)),
    };
    let word = if trials.len() == 1 { "trial" } else { "trials" };
    format!("{word} {}{}", shown.join(", "), last.map(|last| format!(" and {last}")).unwrap_or_default())
}

/// `this host (a processor, Linux 6.12)`.
fn host(machine: &MachineFacts) -> String {
    let kernel = machine.kernel.as_ref().map(|kernel| format!("Linux {kernel}"));
    let known: Vec<String> = [machine.cpu.clone(), kernel].into_iter().flatten().collect();
    if known.is_empty() { "this host".to_owned() } else { format!("this host ({})", known.join(", ")) }
}

fn stalled(stalls: &Stalls) -> String {
    let Stalls { arm, seconds, measured_s, in_turns, spells, longest } = stalls;
    let told: Vec<String> = longest.iter().map(spell).collect();
    let (most, told) = (if *spells as usize > told.len() { "; the longest: " } else { ": " }, told.join(", "));
    let did = if *in_turns { "stalled" } else { "did less than half of its usual rate" };
    let seconds = length(*seconds);
    format!("{arm} {did} for {seconds} of {measured_s:.0} s, which its figures include{most}{told}")
}

/// `trial 3 for 12 s from 84 s on (time throttled by a CPU quota 0.90, on average 0.08)`.
fn spell(stall: &Stall) -> String {
    let counted = stall.counted.iter().map(|counted| {
        let Counted { title, then, on_average } = counted;
        format!("{title} {then:.2}, on average {on_average:.2}")
    });
    let counted: Vec<String> = counted.collect();
    let counted = if counted.is_empty() { String::new() } else { format!(" ({})", counted.join("; ")) };
    let from = stall.from_s.map(|from_s| format!(" from {} s on", length(from_s))).unwrap_or_default();
    format!("trial {} for {} s{from}{counted}", stall.trial, length(stall.seconds))
}

/// A time in s, in whole seconds unless it is short.
fn length(seconds: f64) -> String {
    if seconds < 10.0 { digits(seconds) } else { format!("{seconds:.0}") }
}

fn unsteady(arms: &[Unsteady]) -> String {
    let counts: Vec<String> =
        arms.iter().map(|Unsteady { arm, trials, measured, .. }| format!("{arm} {trials} of {measured}")).collect();
    let oftener = arms.iter().filter_map(|Unsteady { arm, p, .. }| {
        Some(format!(
            "; {arm} more often than the others (Fisher p = {:.4}): its ratios depend on how long it ran",
            (*p)?
        ))
    });
    format!(
        "never steady (throughput changes by more than 3 %): {} trials{}",
        counts.join(", "),
        oftener.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_counted_up_and_then_only_counted() {
        assert_eq!(numbers(&[3]), "trial 3");
        assert_eq!(numbers(&[3, 4, 17]), "trials 3, 4 and 17");
        assert_eq!(numbers(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), "trials 1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
    }

    #[test]
    fn who_is_never_steady_is_said_in_one_sentence() {
        let unsteady = |arm: &str, p| Unsteady { arm: arm.into(), trials: 4, measured: 4, p };
        let begin = "never steady (throughput changes by more than 3 %): ";
        let all = Warning::NeverSteady { arms: ["plain", "box"].map(|arm| unsteady(arm, None)).into() };
        assert_eq!(words(&all), format!("{begin}plain 4 of 4, box 4 of 4 trials"));
        let one = Warning::NeverSteady { arms: vec![unsteady("box", Some(0.00202))] };
        let why = "; box more often than the others (Fisher p = 0.0020): its ratios depend on how long it ran";
        assert_eq!(words(&one), format!("{begin}box 4 of 4 trials{why}"));
    }

    #[test]
    fn who_asked_a_run_to_end_is_said() {
        let asked = |by| words(&Warning::EndedOnRequest { by, there: 8, planned: 20 });
        let why = "asked the run to end early, after 8 of 20 planned trials; if its figures were the reason, its \
                   intervals are too narrow";
        assert_eq!(asked(Some(Asker { user: 0, program: Some("bash".into()) })), format!("root (bash) {why}"));
        assert_eq!(asked(None), format!("a user {why}"));
    }

    #[test]
    fn the_machine_that_treats_equals_differently_is_named() {
        let of = |cpu: Option<&str>, kernel: Option<&str>| {
            let machine = MachineFacts { cpu: cpu.map(str::to_owned), kernel: kernel.map(str::to_owned) };
            words(&Warning::EqualsDiffer { metric: "throughput".into(), floor: 0.0213, machine })
        };
        let named = of(Some("a slow one"), Some("6"));
        assert!(named.contains("this host (a slow one, Linux 6) treats identical forms differently"), "{named}");
        assert!(named.ends_with("Verdicts on throughput are withheld; treat effects below 2.1 % as noise"), "{named}");
        assert!(of(None, None).contains("runs): this host treats"));
    }
}
