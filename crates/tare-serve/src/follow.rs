//! What a run has come to, by its events: told once to who comes, and then as it changes.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tare_core::load::SecondRow;
use tare_core::peak::level_text;
use tare_core::plan::PlannedTrial;
use tare_core::record::Header;
use tare_core::trial::{Outcome, Stage};
use tare_core::units::show_duration;
use tare_report::{LiveLooks, how_ended, plain_quantity};
use tare_runner::Event;
use tare_stats::SoFar;

/// Trials of an arm that are drawn second by second: the last ones.
const TRIALS_DRAWN: usize = 5;
/// Lines that are kept for who comes later: the last ones.
const LINES_KEPT: usize = 300;
/// Bytes that are kept of a line, of the end of a log, and of a time.
const TEXT_MOST: usize = 4 << 10;
const LOG_MOST: usize = 16 << 10;
const TIME_MOST: usize = 40;
/// Seconds of a trial that are drawn: the first ones.
const SECONDS_MOST: usize = 20_000;
/// Blocks of which ratios are made: the first ones.
const BLOCKS_MOST: u32 = 10_000;
/// Trials whose warnings are told: the last ones.
const WARNED: usize = 50;
/// Last lines of a log that are told of what failed.
const LOG_LINES: usize = 8;

/// A line of `events.jsonl`.
#[derive(Debug, Deserialize)]
struct EventLine {
    at: String,
    event: Event,
}

/// Where a run is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Whereabouts {
    /// Such as `block 3 of 5`.
    pub(crate) place: String,
    pub(crate) arm: String,
    /// The class of its key.
    pub(crate) class: String,
    pub(crate) stage: String,
    /// When the time left was told, RFC 3339, and what it was, s.
    pub(crate) told_at: String,
    pub(crate) left_s: f64,
    pub(crate) trials: u32,
    pub(crate) done: u32,
    /// Whether it was asked to end after this block.
    pub(crate) ends_after_block: bool,
    /// How it ended; none while it goes on.
    pub(crate) ended: Option<String>,
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Said {
    /// RFC 3339.
    pub(crate) at: String,
    /// `told`, `warning` or `failed`.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    /// The end of a log, or nothing.
    pub(crate) log: String,
}

/// What has changed since it was told last.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) is_elsewhere: bool,
    pub(crate) has_ratios: bool,
    /// The arms of which there are new seconds.
    pub(crate) seconds: BTreeSet<String>,
    pub(crate) said: VecDeque<Said>,
    /// The last trials that have ended, by their numbers, and when: their warnings are in the record now.
    pub(crate) ended: VecDeque<(u32, String)>,
}

/// A run that is followed.
pub(crate) struct Followed {
    pub(crate) looks: LiveLooks,
    pub(crate) so_far: SoFar,
    pub(crate) at: Whereabouts,
    open_ended: bool,
    /// The block that is measured; none while what runs does not count.
    block: Option<u32>,
    /// By arm, the seconds of its last trials, each with its block.
    seconds: BTreeMap<String, VecDeque<(u32, Vec<SecondRow>)>>,
    /// The blocks and arms of the trials that have ended.
    ended: BTreeSet<(u32, String)>,
    said: VecDeque<Said>,
    news: News,
}

impl Followed {
    /// Nothing has happened yet.
    pub(crate) fn of(header: &Header) -> Followed {
        let emulated = |form: &str| header.forms.get(form).is_some_and(|state| state.emulated.is_some());
        Followed {
            looks: LiveLooks::of(&header.study, emulated),
            so_far: SoFar::against(&header.study.baseline),
            at: Whereabouts { trials: header.plan.len() as u32, ..Whereabouts::default() },
            open_ended: header.study.design.ends_by_itself(),
            block: None,
            seconds: BTreeMap::new(),
            ended: BTreeSet::new(),
            said: VecDeque::new(),
            news: News::default(),
        }
    }

    /// Takes a line in. One that is no event says nothing: it may be torn, or a newer version's.
    pub(crate) fn note(&mut self, line: &str) {
        if let Ok(EventLine { at, event }) = serde_json::from_str(line) {
            self.happened(&at, event);
        }
    }

    /// What has changed since this was called last.
    pub(crate) fn news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// All that was said, as far as it is kept.
    pub(crate) fn said(&self) -> impl Iterator<Item = &Said> {
        self.said.iter()
    }

    /// The arms that have seconds.
    pub(crate) fn arms(&self) -> impl Iterator<Item = &String> {
        self.seconds.keys()
    }

    /// The seconds of an arm's last trials, drawn.
    pub(crate) fn drawn(&self, arm: &str) -> String {
        let rows = |of: &VecDeque<(u32, Vec<SecondRow>)>| of.iter().map(|(_, rows)| rows.clone()).collect::<Vec<_>>();
        let all: BTreeMap<&str, Vec<Vec<SecondRow>>> =
            self.seconds.iter().map(|(arm, of)| (arm.as_str(), rows(of))).collect();
        let own = all.get(arm).map(Vec::as_slice).unwrap_or_default();
        self.looks.seconds(arm, own, all.iter().map(|(arm, of)| (*arm, of.as_slice())))
    }

    /// Says something that is not in the events.
    pub(crate) fn say(&mut self, at: &str, kind: &'static str, text: &str, log: &str) {
        let said = Said { at: cut(at, TIME_MOST), kind, text: cut(text, TEXT_MOST), log: cut(log, LOG_MOST) };
        keep_last(&mut self.said, said.clone(), LINES_KEPT);
        keep_last(&mut self.news.said, said, LINES_KEPT);
    }

    /// Whether the header has this arm; others are kept nowhere.
    fn is_known(&self, arm: &str) -> bool {
        self.looks.names().any(|name| name == arm)
    }

    fn happened(&mut self, at: &str, event: Event) {
        match event {
            Event::RunStarted { trials, done } => {
                (self.at.trials, self.at.done, self.at.ended) = (trials, done, None);
                self.at.ends_after_block = false;
                self.news.is_elsewhere = true;
                self.forget_killed();
                let continued = format!("continued: {done} of {trials} trials are on disk");
                let text = if done > 0 { continued } else { "started".to_owned() };
                self.say(at, "told", &text, "");
            }
            Event::Fitted { most, blocks, of, trials, round } => {
                self.at.trials = trials;
                self.news.is_elsewhere = true;
                let (most, round) = (show_duration(most), show_duration(round));
                let text = format!("{blocks} of {of} blocks fit into {most}; another one takes about {round}");
                self.say(at, "told", &text, "");
            }
            Event::TrialStarted { trial, blocks, left } => {
                self.is_at(&trial, Some(blocks));
                (self.at.told_at, self.at.left_s) = (cut(at, TIME_MOST), left.as_secs_f64());
                self.at.stage = Stage::Provision.to_string();
            }
            Event::StageStarted { stage } => {
                self.at.stage = stage.to_string();
                self.news.is_elsewhere = true;
            }
            Event::SliceStarted { trial } => self.is_at(&trial, None),
            Event::Second { row } => self.second(row),
            Event::Held { window, unit } => {
                let kept = if window.passed { "kept" } else { "broken" };
                self.say(at, "told", &format!("{} {unit}: QoS {kept}", level_text(window.level)), "");
            }
            Event::Searched { words } => self.say(at, "told", &format!("peak: {words}"), ""),
            Event::TrialEnded { trial, outcome, throughput, p99_us } => {
                self.trial_ended(at, &trial, &outcome, throughput, p99_us);
            }
            Event::EndAsked { by } => {
                self.say(at, "told", &format!("{by} asked the run to end after this block"), "");
                self.at.ends_after_block = true;
                self.news.is_elsewhere = true;
            }
            Event::RunEnded { how } => {
                let how = how_ended(&how);
                self.say(at, "told", &format!("ended: {how}"), "");
                self.at.ended = Some(cut(how, TEXT_MOST));
                self.news.is_elsewhere = true;
            }
            // Of the terminal that runs it.
            Event::KeptStanding { .. } | Event::LetGo { .. } => {}
        }
    }

    /// The trials in which a run was killed are repeated: what they had comes again.
    fn forget_killed(&mut self) {
        let ended = &self.ended;
        self.seconds.retain(|arm, trials| {
            trials.retain(|(block, _)| ended.contains(&(*block, arm.clone())));
            !trials.is_empty()
        });
        self.block = None;
        self.at.arm.clear();
        self.at.stage.clear();
        self.at.told_at.clear();
    }

    fn is_at(&mut self, trial: &PlannedTrial, blocks: Option<u32>) {
        let (arm, block) = (trial.arm(), trial.block.saturating_add(1));
        self.at.class = self.looks.key_class(&arm);
        self.at.place = match (trial.profiled, blocks) {
            (true, _) => "profile".to_owned(),
            (false, Some(blocks)) if !self.open_ended => format!("block {block} of {blocks}"),
            (false, Some(_)) => format!("block {block}"),
            (false, None) => std::mem::take(&mut self.at.place),
        };
        self.news.is_elsewhere = true;
        self.block = (!trial.profiled).then_some(trial.block);
        self.at.arm = arm;
    }

    fn second(&mut self, row: SecondRow) {
        let Some(block) = self.block.filter(|_| self.is_known(&self.at.arm)) else { return };
        let trials = self.seconds.entry(self.at.arm.clone()).or_default();
        match trials.back_mut().filter(|(of, _)| *of == block) {
            Some((_, rows)) if rows.len() >= SECONDS_MOST => return,
            Some((_, rows)) => rows.push(row),
            None => trials.push_back((block, vec![row])),
        }
        if trials.len() > TRIALS_DRAWN {
            trials.pop_front();
        }
        self.news.seconds.insert(self.at.arm.clone());
    }

    fn trial_ended(
        &mut self,
        at: &str,
        trial: &PlannedTrial,
        outcome: &Outcome,
        throughput: Option<f64>,
        p99_us: Option<f64>,
    ) {
        self.at.done = self.at.done.saturating_add(1);
        if self.is_known(&trial.arm()) && trial.block < BLOCKS_MOST {
            if !trial.profiled {
                self.ended.insert((trial.block, trial.arm()));
            }
            self.so_far.note(trial, throughput);
        }
        (self.news.has_ratios, self.news.is_elsewhere) = (true, true);
        keep_last(&mut self.news.ended, (trial.index, cut(at, TIME_MOST)), WARNED);
        let label = format!("block {}, {}", trial.block.saturating_add(1), trial.arm());
        let p99 = p99_us.map(|us| format!(", p99 {}", plain_quantity(us, "us"))).unwrap_or_default();
        let (kind, text) = match (outcome, throughput) {
            (Outcome::Measured, Some(rate)) => ("told", format!("{}{p99}", plain_quantity(rate, "op/s"))),
            (Outcome::Measured, None) => ("told", "measured".to_owned()),
            (Outcome::Failed { stage, why }, _) => ("failed", format!("FAILED in {stage}: {why}")),
            (Outcome::Invalid { why }, _) => ("failed", format!("INVALID: {why}")),
            (Outcome::Skipped { why }, _) => ("warning", format!("SKIPPED: {why}")),
        };
        let log = outcome.why().map(|why| last_lines(&why.log)).unwrap_or_default();
        self.say(at, kind, &format!("{label}: {text}"), &log);
    }
}

/// Adds to a queue; the first of it goes if there are more than so many.
fn keep_last<T>(queue: &mut VecDeque<T>, new: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(new);
}

/// The beginning of a text.
fn cut(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
