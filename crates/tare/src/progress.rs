//! Shows a run while it runs: a live line on a terminal, plain lines elsewhere.

use crate::standing;
use crate::terminal::columns;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::Duration;
use tare_core::load::SecondRow;
use tare_core::peak::{PeakWindow, level_text};
use tare_core::plan::PlannedTrial;
use tare_core::record::{COMPLETE, FITTED, PRECISE_ENOUGH};
use tare_core::study::Study;
use tare_core::trial::{Outcome, Stage};
use tare_core::units::show_duration;
use tare_report::{flow, paragraph, plain_quantity};
use tare_runner::{Event, StandingDeployment};
use tare_stats::SoFar;

/// How many of the last lines of what failed are shown, and what is before each.
const LOG_LINES: usize = 5;
const LOG_MARK: &str = "    | ";

/// Shows events as they come.
pub(crate) struct Progress {
    bar: ProgressBar,
    live: bool,
    /// Where lines go if there is no live one.
    out: Box<dyn Write>,
    trial: Option<(PlannedTrial, u32)>,
    stage: Stage,
    last: Option<SecondRow>,
    /// The last level of a search, in words.
    held: Option<String>,
    /// The outcome of a search, in words.
    found: Option<String>,
    ends_in: Duration,
    so_far: SoFar,
    /// The last lines that were shown of what failed.
    log: String,
    /// Columns of a line.
    width: usize,
    began: std::time::Instant,
    /// Whether the number of blocks is not known in advance.
    open_ended: bool,
    /// What an open-ended run may take.
    at_most: Option<Duration>,
    /// When this was made.
    from: std::time::Instant,
}

impl Progress {
    /// For a terminal or a log; on standard error if standard output carries a report for programs.
    pub(crate) fn of(study: &Study, to_stderr: bool) -> Progress {
        let open_ended = study.design.ends_by_itself();
        let at_most = study.at_most.filter(|_| open_ended);
        Progress { open_ended, at_most, ..Progress::new(to_stderr, &study.baseline) }
    }

    /// The same for a run with a known number of blocks. Ratios are to `baseline`.
    fn new(to_stderr: bool, baseline: &str) -> Progress {
        let live = if to_stderr { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        let bar = ProgressBar::new(1);
        let drawn = match (live, to_stderr) {
            (false, _) => ProgressDrawTarget::hidden(),
            (true, true) => ProgressDrawTarget::stderr(),
            (true, false) => ProgressDrawTarget::stdout(),
        };
        bar.set_draw_target(drawn);
        let style = ProgressStyle::with_template("{bar:6.cyan/dim} {wide_msg}");
        bar.set_style(style.expect("the template is well formed"));
        let began = std::time::Instant::now();
        let (stage, ends_in) = (Stage::Provision, Duration::ZERO);
        let out: Box<dyn Write> = if to_stderr { Box::new(std::io::stderr()) } else { Box::new(std::io::stdout()) };
        let width = if to_stderr { columns(std::io::stderr()) } else { columns(std::io::stdout()) };
        let so_far = SoFar::against(baseline);
        let (trial, last, held, found) = (None, None, None, None);
        let (open_ended, at_most, from) = (false, None, began);
        Progress {
            bar,
            live,
            out,
            trial,
            stage,
            last,
            held,
            found,
            ends_in,
            so_far,
            log: String::new(),
            width,
            began,
            open_ended,
            at_most,
            from,
        }
    }

    /// Shows one event.
    pub(crate) fn show(&mut self, event: &Event) {
        match event {
            Event::RunStarted { trials, done } => {
                self.bar.set_length(self.at_most.map_or(u64::from(*trials), |most| most.as_secs()));
                self.bar.set_position(if self.at_most.is_some() { 0 } else { u64::from(*done) });
                if *done > 0 {
                    self.line(&format!("{done} of {trials} trials are already on disk"));
                }
            }
            Event::Fitted { most, blocks, of, trials, round } => {
                self.bar.set_length(u64::from(*trials));
                self.line(&fitted(*blocks, *of, *most, *round));
            }
            Event::TrialStarted { trial, blocks, left } => {
                if self.trial.as_ref().is_some_and(|(last, _)| last.block != trial.block) {
                    self.say_so_far();
                }
                self.trial = Some((trial.clone(), *blocks));
                self.ends_in = *left;
                self.began = std::time::Instant::now();
                self.last = None;
                (self.held, self.found) = (None, None);
            }
            Event::SliceStarted { trial } => {
                if let Some((shown, _)) = &mut self.trial {
                    shown.clone_from(trial);
                }
                self.last = None;
            }
            Event::StageStarted { stage } => {
                self.stage = *stage;
                self.refresh();
            }
            Event::Second { row } => {
                self.last = Some(row.clone());
                self.refresh();
            }
            Event::Held { window, unit } => {
                self.held = Some(held(window, unit));
                self.refresh();
            }
            Event::KeptStanding { deployments } => {
                let blocks = self.trial.as_ref().map_or(0, |(_, blocks)| *blocks);
                let trial = |of: &StandingDeployment| format!("{} {}", self.place(&of.trial, blocks), of.trial.arm());
                let text = standing::describe(deployments, &trial, self.width);
                self.put(&(text + &flow(&standing::how_to_end(), self.width)));
                self.bar.set_message("kept standing");
            }
            Event::LetGo { .. } => self.line("removing what was kept standing"),
            // Who listens to the signal has said so at once.
            Event::EndAsked { .. } => {}
            Event::Searched { words } => self.found = Some(words.clone()),
            Event::TrialEnded { trial, outcome, throughput, p99_us } => {
                if self.at_most.is_none() {
                    self.bar.inc(1);
                }
                let line = self.ended(trial, outcome, *throughput, *p99_us);
                self.line(&line);
                if let Outcome::Failed { why, .. } = outcome {
                    self.tell_log(&why.log);
                }
                self.so_far.note(trial, *throughput);
            }
            Event::RunEnded { how } => match how.as_str() {
                COMPLETE | FITTED => {}
                PRECISE_ENOUGH => self.line("the intervals are as narrow as requested"),
                how => self.line(&format!("the run ended early: {how}")),
            },
        }
    }

    /// Removes the live line.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn refresh(&self) {
        let Some((trial, blocks)) = &self.trial else { return };
        if self.at_most.is_some() {
            self.bar.set_position(self.from.elapsed().as_secs());
        }
        let mut text = format!("{} {} {}", self.place(trial, *blocks), trial.arm(), self.stage);
        match (&self.held, &self.last) {
            // In a search the level says more than the rate.
            (Some(held), _) => text.push_str(&format!("; {held}")),
            (None, Some(row)) if row.operations > 0 => {
                let rate = row.operations as f64 / row.seconds.max(1e-9);
                let (rate, p99) = (plain_quantity(rate, "op/s"), plain_quantity(row.p99_us, "us"));
                text.push_str(&format!(" {rate} p99 {p99}"));
            }
            (None, Some(_)) => text.push_str(" no answers"),
            (None, None) => {}
        }
        let left = self.ends_in.saturating_sub(self.began.elapsed());
        text.push_str(&format!(", {} left", show_duration(left)));
        self.bar.set_message(text);
    }

    fn ended(&self, trial: &PlannedTrial, outcome: &Outcome, throughput: Option<f64>, p99_us: Option<f64>) -> String {
        let blocks = self.trial.as_ref().map_or(0, |(_, blocks)| *blocks);
        let label = format!("{}  {:<20} ", self.place(trial, blocks), trial.arm());
        let text = match throughput {
            Some(rate) => return format!("{label}{}", figures(rate, p99_us)),
            None if self.found.is_some() && *outcome == Outcome::Measured => {
                format!("peak: {}", self.found.as_deref().unwrap_or_default())
            }
            None => {
                let why = outcome.why().map(ToString::to_string).unwrap_or_default();
                let stage =
                    if let Outcome::Failed { stage, .. } = outcome { format!(" in {stage}") } else { "".into() };
                format!("{}{stage}: {why}", outcome.word().to_uppercase())
            }
        };
        paragraph(&label, 4, &text, self.width)
    }

    /// The place of a trial in its run.
    fn place(&self, trial: &PlannedTrial, blocks: u32) -> String {
        let block = trial.block + 1;
        match (trial.profiled, self.open_ended) {
            (true, _) => "profile".to_owned(),
            (false, true) => format!("block {block}"),
            (false, false) => format!("block {block}/{blocks}"),
        }
    }

    fn say_so_far(&mut self) {
        if let Some(text) = self.so_far.line() {
            let text = paragraph("so far  ", 8, &text, self.width);
            self.line(&text);
        }
    }

    /// The last lines of what failed, unless the same were shown for another trial.
    fn tell_log(&mut self, log: &str) {
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
        let room = self.width.saturating_sub(LOG_MARK.len());
        // A service may print anything, and this is a terminal.
        let shown = |line: &&str| line.replace(char::is_control, " ").chars().take(room).collect::<String>();
        let text = last.iter().map(|line| format!("{LOG_MARK}{}", shown(line))).collect::<Vec<_>>().join("\n");
        if !text.is_empty() && text != self.log {
            self.put(&text);
            self.log = text;
        }
    }

    fn line(&mut self, text: &str) {
        let text = flow(text, self.width);
        self.put(&text);
    }

    /// Shows lines that fit already. A closed pipe (`| head`) must not end the run, which has to clean up the machine.
    fn put(&mut self, text: &str) {
        let text = text.trim_end();
        if self.live {
            self.bar.println(text);
        } else {
            let _ = writeln!(self.out, "{text}");
        }
    }
}

/// Such as `98,200 op/s  p99 1.23 ms`, in columns.
fn figures(rate: f64, p99_us: Option<f64>) -> String {
    let p99 = p99_us.map(|us| format!("  p99 {:>7}", plain_quantity(us, "us"))).unwrap_or_default();
    format!("{:>14}{p99}", plain_quantity(rate, "op/s"))
}

/// How many blocks fit into a time, of which fewer or more did before.
fn fitted(blocks: u32, of: u32, most: Duration, round: Duration) -> String {
    let (most, round) = (show_duration(most), show_duration(round));
    if blocks < of {
        format!("only {blocks} of {of} blocks fit into {most}: another one takes about {round}")
    } else {
        format!("all {of} blocks fit into {most} after all")
    }
}

/// The last level of a search, such as `staircase: 1,250 users, QoS kept`.
fn held(window: &PeakWindow, unit: &str) -> String {
    let phase = format!("{:?}", window.phase).to_lowercase();
    let kept = if window.passed { "kept" } else { "broken" };
    format!("{phase}: {} {unit}, QoS {kept}", level_text(window.level))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::io;
    use std::rc::Rc;
    use tare_core::fault::Fault;

    /// A reader that goes away after this many lines.
    struct Head(Rc<RefCell<Vec<String>>>, usize);

    impl Write for Head {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.borrow().len() >= self.1 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            // One line comes in several pieces.
            self.0.borrow_mut().extend(String::from_utf8_lossy(bytes).lines().map(str::to_owned));
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn outcomes_of_trials_fit_into_eighty_columns() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let mut progress =
            Progress { live: false, out: Box::new(Head(seen.clone(), 99)), ..Progress::new(false, "native") };
        let (form, control) = ("container-hostnet".to_owned(), false);
        let trial = PlannedTrial { index: 0, block: 0, form, control, again: None, profiled: false };
        let mut ended = |outcome, throughput: Option<f64>| {
            let (trial, p99_us) = (trial.clone(), throughput.map(|_| 1_234.5));
            progress.show(&Event::TrialStarted { trial: trial.clone(), blocks: 5, left: Duration::ZERO });
            progress.show(&Event::TrialEnded { trial, outcome, throughput, p99_us });
        };
        ended(Outcome::Measured, Some(9_999_999.0));
        let why =
            Fault::new("redis ended with exit code 1 before it was ready to answer anything").remedy("see its log");
        ended(Outcome::Failed { stage: Stage::Deploy, why }, None);
        // Line feeds are written separately.
        let seen: Vec<String> = seen.borrow().iter().filter(|line| !line.is_empty()).cloned().collect();
        assert_eq!(seen[0], "block 1/5  container-hostnet    10,000,000 op/s  p99 1.23 ms");
        assert!(seen.len() > 2 && seen.iter().all(|line| line.chars().count() <= 80), "{seen:#?}");
        assert!(seen[1].contains("FAILED in deploy: redis") && seen[2].starts_with("    "), "{seen:#?}");
    }

    #[test]
    fn the_last_lines_of_what_failed_are_shown_once() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let mut progress =
            Progress { live: false, out: Box::new(Head(seen.clone(), 99)), ..Progress::new(false, "native") };
        for log in ["1\n2\n3\n\n4\n5\nno \u{1b}such file\n", "1\n2\n3\n\n4\n5\nno \u{1b}such file\n", "other\n"] {
            let why = Fault::new("redis ended before it was ready").with_log(log);
            let outcome = Outcome::Failed { stage: Stage::Deploy, why };
            let (form, control) = ("native".to_owned(), false);
            let trial = PlannedTrial { index: 0, block: 0, form, control, again: None, profiled: false };
            progress.show(&Event::TrialEnded { trial, outcome, throughput: None, p99_us: None });
        }
        let shown = seen.borrow();
        let shown: Vec<&str> = shown.iter().filter_map(|line| line.strip_prefix("    | ")).collect();
        assert_eq!(shown, ["2", "3", "4", "5", "no  such file", "other"]);
    }

    #[test]
    fn as_many_blocks_as_were_planned_are_not_only_some() {
        let told = |blocks| fitted(blocks, 5, Duration::from_secs(60), Duration::from_secs(9));
        assert!(told(3).starts_with("only 3 of 5 blocks fit into "), "{}", told(3));
        assert!(told(5).starts_with("all 5 blocks fit into "), "{}", told(5));
    }

    #[test]
    fn an_open_ended_run_shows_no_total_of_blocks() {
        let progress = |open_ended| Progress { open_ended, ..Progress::new(false, "native") };
        let trial = |profiled| {
            let (form, control) = ("native".to_owned(), false);
            PlannedTrial { index: 0, block: 7, form, control, again: None, profiled }
        };
        assert_eq!(progress(false).place(&trial(false), 40), "block 8/40");
        assert_eq!(progress(true).place(&trial(false), 40), "block 8");
        assert_eq!(progress(true).place(&trial(true), 40), "profile");
    }

    #[test]
    fn a_reader_that_goes_away_ends_nothing() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let mut progress =
            Progress { live: false, out: Box::new(Head(seen.clone(), 1)), ..Progress::new(false, "native") };
        for done in 1..4 {
            progress.show(&Event::RunStarted { trials: 9, done });
        }
        assert_eq!(*seen.borrow(), ["1 of 9 trials are already on disk"]);
    }
}
