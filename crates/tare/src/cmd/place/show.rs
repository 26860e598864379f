//! What `tare place` prints: the ranking, the outcome and the settings.

use super::placing::Placing;
use super::settings::settings;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::path::Path;
use tare_core::placement::{Candidate, Manner, Placement};
use tare_core::record::Record;
use tare_core::study::Study;
use tare_core::units::CpuSet;
use tare_core::workload::Workload;
use tare_report::{paragraph, ratio_figure, whole, why_undecided};
use tare_runner::Ending;
use tare_stats::{Contest, Lead, percent_text};

/// The version of the JSON. Fields may be added within a version.
const PLACE_SCHEMA: u32 = 1;
/// Lines of a ranking: it fits on a screen together with the command.
const LINES_MAX: usize = 20;

/// The ranking, in lines of at most `width` columns and no more of them than fit on a screen. A star marks what is
/// measured.
pub(super) fn ranking(
    study: &Study,
    form: &str,
    ranked: &[Candidate],
    measured: &[&Candidate],
    width: usize,
) -> String {
    let about = format!(
        "study {}, form {form}: where its services could run, ranked by a model that estimates how many CPUs are lost; \
         * is measured",
        study.name
    );
    let mut text = paragraph("", 0, &about, width);
    text += &format!("\n  {:<9} {:>6} {:>8} {:>9} {:>6} {:>7}\n", "", "lost", "waiting", "distance", "cores", "caches");
    let row = |candidate: &Candidate| {
        let (cost, star) = (candidate.cost, if measured.contains(&candidate) { "*" } else { " " });
        let row = format!(
            "{star} {:<9} {:>6.2} {:>8.2} {:>9.2} {:>6.2} {:>7.2}\n",
            candidate.name,
            cost.total(),
            cost.waiting,
            cost.distance,
            cost.cores,
            cost.caches
        );
        row + &paragraph("    ", 4, &where_to(candidate), width)
    };
    let rows: Vec<String> = ranked.iter().map(row).collect();
    let kept: usize = rows.iter().filter(|row| row.starts_with('*')).map(|row| row.lines().count()).sum();
    let mut room = LINES_MAX.saturating_sub(text.lines().count() + kept);
    let mut left = 0;
    for row in rows {
        let lines = row.lines().count();
        if row.starts_with('*') {
            text += &row;
        } else if left == 0 && lines <= room {
            room -= lines;
            text += &row;
        } else {
            left += 1;
        }
    }
    if left > 0 {
        text += &format!("  and {left} more\n");
    }
    text
}

fn where_to(candidate: &Candidate) -> String {
    match candidate.manner {
        Manner::Free => {
            let all = &candidate.placement.system_under_test;
            format!("any of CPUs {all}: what the kernel does by itself")
        }
        _ => Placing::ranked(candidate).describe(),
    }
}

/// Why nothing is measured if there is only one placement.
pub(super) fn nothing_to_choose(only: &Candidate) -> String {
    let Placement { system_under_test: all, generator, hypervisor, interrupts, .. } = &only.placement;
    let aside = generator.len() + hypervisor.len() + interrupts.len();
    let cpus = if all.len() == 1 { "CPU" } else { "CPUs" };
    format!(
        "There is nothing to choose here: {aside} of {} CPUs are kept aside for load, hypervisors and interrupts, and on \
         the rest, {cpus} {all}, the model rates all placements alike. Nothing was measured.",
        all.len() + aside
    )
}

/// The recommendation of the model alone.
pub(super) fn by_model(best: &Candidate) -> String {
    let name = whole(&best.name);
    format!("According to the model, {name} is the best; nothing was measured.")
}

/// Which placement is recommended, and why.
pub(super) struct Choice {
    pub(super) name: String,
    pub(super) words: String,
}

impl Choice {
    /// What the record supports. If no placement can be told apart from the others, the kernel's own.
    pub(super) fn of(record: &Record, contest: Option<&Contest>, ending: Ending) -> Choice {
        let free = record.header.study.baseline.clone();
        let none = |why: &str| Choice { name: free.clone(), words: format!("No conclusion yet: {why}.") };
        let Some(contest) = contest else {
            return none("fewer than two placements were measured in the same block");
        };
        if let Some(why) = &contest.withheld {
            return none(&why_undecided(why));
        }
        if contest.leads.iter().any(|lead| lead.interval.is_none()) {
            let why = format!("{} block(s) were measured, and intervals need 3", contest.blocks);
            return none(&why);
        }
        let leader = &contest.leader;
        if contest.decided {
            let words = format!(
                "{} is better than every other placement measured; if all were equal, at most 1 in 20 searches would \
                 say so.",
                whole(leader)
            );
            return Choice { name: leader.clone(), words };
        }
        let open: Vec<&Lead> = contest.leads.iter().filter(|lead| !lead.clear).collect();
        let names = open.iter().map(|lead| whole(&lead.over)).collect::<Vec<_>>().join(", ");
        let least = open.iter().filter_map(|lead| lead.smallest_detectable).reduce(f64::max);
        let found = least.map(|least| {
            format!("four of five such searches would have found a difference of {}", percent_text(least))
        });
        let bounded = open.iter().any(|lead| lead.bound.is_some());
        let bounded = bounded.then(|| {
            "where only a bound is known, because the generator was the limit or operations failed, more blocks do not \
             help"
                .to_owned()
        });
        let notes: Vec<String> = found.into_iter().chain(bounded).collect();
        // The first among bounds may not be the first.
        let first = if open.iter().any(|lead| lead.bound.is_some()) { "has the best figure" } else { "did best" };
        let told = if contest.leads.len() == open.len() { "None stands out" } else { "Not all can be told apart" };
        let spent = match ending {
            Ending::BudgetSpent => "The time is up",
            Ending::OnRequest => "The search ended on request",
            _ => "All blocks are done",
        };
        let words =
            format!("{told}: {} {first}, and {names} may be as good. {spent}; {}. ", whole(leader), notes.join("; "));
        let beaten = contest.leads.iter().any(|lead| lead.over == free && lead.clear);
        match beaten {
            true => {
                let words = format!("{words}{} is better than what the kernel does by itself.", whole(leader));
                Choice { name: leader.clone(), words }
            }
            false => {
                Choice { words: words + "Leave it to the kernel: no placement was shown to be better.", name: free }
            }
        }
    }
}

/// A contest for programs; why it decides nothing is in words, beside the data.
fn in_words(contest: &Contest) -> Value {
    let mut value = json!(contest);
    value["withheld"] = contest.withheld.as_ref().map(why_undecided).into();
    value
}

/// The outcome of a search.
pub(super) struct Finding<'a> {
    pub(super) study: &'a Study,
    pub(super) workload: &'a Workload,
    /// What was measured, or would be.
    pub(super) placings: Vec<Placing<'a>>,
    pub(super) contest: Option<&'a Contest>,
    pub(super) choice: Choice,
    /// All CPUs of the machine.
    pub(super) machine: CpuSet,
}

impl Finding<'_> {
    fn chosen(&self) -> Option<&Placing<'_>> {
        self.placings.iter().find(|placing| placing.name == self.choice.name)
    }

    /// For people, in lines of at most `width` columns.
    pub(super) fn text(&self, width: usize) -> String {
        let mut text = String::new();
        if let Some(contest) = self.contest {
            let metric = &contest.metric;
            let about =
                format!("{metric} of {}, relative to each other placement, {} blocks:", contest.leader, contest.blocks);
            text += &format!("\n{}", paragraph("", 2, &about, width));
            for lead in &contest.leads {
                let word = if lead.clear { "better" } else { "may be as good" };
                let line = format!("{}  {word}", ratio_figure(lead.bound, lead.ratio, lead.interval));
                text += &paragraph(&format!("  {:<9} ", lead.over), 12, &line, width);
            }
            for name in &contest.left_out {
                text += &paragraph("  ", 2, &format!("{name} was measured in too few blocks"), width);
            }
        }
        text += &format!("\n{}", paragraph("", 0, &self.choice.words, width));
        let Some(chosen) = self.chosen() else { return text };
        let settings = settings(chosen, &self.workload.services, &self.machine);
        if settings.is_empty() {
            return text + &paragraph("", 0, "'free' needs no settings.", width);
        }
        text += &paragraph("", 0, &format!("Settings for {}:", whole(chosen.name)), width);
        for of_system in settings {
            text += &format!("\n{}", of_system.show(width));
        }
        text
    }

    /// For programs, as JSON.
    pub(super) fn json(&self, ranked: Option<&[Candidate]>, record: Option<&Path>) -> Result<String> {
        let measured: Vec<&str> = self.placings.iter().map(|placing| placing.name).collect();
        let row = |candidate: &Candidate| {
            json!({
                "name": candidate.name,
                "manner": candidate.manner,
                "lost": candidate.cost.total(),
                "cost": candidate.cost,
                "services": candidate.placement.services,
                "measured": measured.contains(&candidate.name.as_str()),
            })
        };
        let ranking = ranked.map(|ranked| ranked.iter().map(row).collect::<Vec<_>>());
        let settings = self.chosen().map(|chosen| settings(chosen, &self.workload.services, &self.machine));
        let settings: Map<String, Value> = settings
            .into_iter()
            .flatten()
            .map(|of| (of.name.to_owned(), json!({ "about": of.about, "text": of.text })))
            .collect();
        let value = json!({
            "place_schema": PLACE_SCHEMA,
            "study": self.study.name,
            "workload": self.workload.name,
            "metric": self.study.design.best_in,
            "ranking": ranking,
            "contest": self.contest.map(in_words),
            "choice": { "name": self.choice.name, "words": self.choice.words.replace('\u{a0}', " ") },
            "settings": settings,
            "record": record,
        });
        Ok(serde_json::to_string_pretty(&value)?)
    }
}
