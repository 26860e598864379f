//! What a run looks like while it runs: a live line on a terminal, plain lines elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;
use tare_core::load::SecondRow;
use tare_core::peak::PeakWindow;
use tare_core::plan::PlannedTrial;
use tare_core::trial::{Outcome, Stage};
use tare_core::units::show_duration;
use tare_runner::Event;

/// Shows events as they come.
pub(crate) struct Progress {
    bar: ProgressBar,
    live: bool,
    to_stderr: bool,
    trial: Option<(PlannedTrial, u32)>,
    stage: Stage,
    last: Option<SecondRow>,
    /// The last level of a search, in words.
    held: Option<String>,
    /// What a search came to, in words.
    found: Option<String>,
    ends_in: Duration,
    began: std::time::Instant,
}

impl Progress {
    /// For a person at a terminal, or for a log; to standard error when standard output carries a report for a
    /// program.
    pub(crate) fn new(to_stderr: bool) -> Progress {
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
        Progress { bar, live, to_stderr, trial: None, stage, last: None, held: None, found: None, ends_in, began }
    }

    /// Shows one event.
    pub(crate) fn show(&mut self, event: &Event) {
        match event {
            Event::RunStarted { trials, done } => {
                self.bar.set_length(u64::from(*trials));
                self.bar.set_position(u64::from(*done));
                if *done > 0 {
                    self.line(&format!("{done} of {trials} trials are on disk already"));
                }
            }
            Event::TrialStarted { trial, blocks, left } => {
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
            Event::Searched { words } => self.found = Some(words.clone()),
            Event::TrialEnded { trial, outcome, throughput, p99_us } => {
                self.bar.inc(1);
                let line = self.ended(trial, outcome, *throughput, *p99_us);
                self.line(&line);
            }
            Event::RunEnded { how } => {
                if how != "complete" {
                    self.line(&format!("the run ended early: {how}"));
                }
            }
        }
    }

    /// Takes the live line away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn refresh(&self) {
        let Some((trial, blocks)) = &self.trial else { return };
        let mut text = format!("block {}/{blocks} {} {}", trial.block + 1, trial.arm(), self.stage);
        if let Some(row) = &self.last {
            let rate = row.operations as f64 / row.seconds.max(1e-9);
            text.push_str(&format!(" {} op/s p99 {:.0} us", grouped(rate), row.p99_us));
        }
        if let Some(held) = &self.held {
            text.push_str(&format!("; {held}"));
        }
        let left = self.ends_in.saturating_sub(self.began.elapsed());
        text.push_str(&format!(", {} left", show_duration(left)));
        self.bar.set_message(text);
    }

    fn ended(&self, trial: &PlannedTrial, outcome: &Outcome, throughput: Option<f64>, p99_us: Option<f64>) -> String {
        let blocks = self.trial.as_ref().map_or(0, |(_, blocks)| *blocks);
        let mut text = format!("block {}/{blocks}  {:<20}", trial.block + 1, trial.arm());
        match (throughput, p99_us) {
            (Some(rate), Some(p99)) => text.push_str(&format!(" {:>9} op/s  p99 {p99:>7.0} us", grouped(rate))),
            (Some(rate), None) => text.push_str(&format!(" {:>9} op/s", grouped(rate))),
            (None, _) if self.found.is_some() && *outcome == Outcome::Measured => {
                text.push_str(&format!(" peak {}", self.found.as_deref().unwrap_or_default()));
            }
            (None, _) => {
                let why = outcome.why().map(ToString::to_string).unwrap_or_default();
                let stage =
                    if let Outcome::Failed { stage, .. } = outcome { format!(" in {stage}") } else { "".into() };
                text.push_str(&format!(" {}{stage}: {why}", outcome.word().to_uppercase()));
            }
        }
        text
    }

    fn line(&self, text: &str) {
        if self.live {
            self.bar.println(text);
        } else if self.to_stderr {
            eprintln!("{text}");
        } else {
            println!("{text}");
        }
    }
}

/// The last level of a search: `staircase: 1,250 users, kept`.
fn held(window: &PeakWindow, unit: &str) -> String {
    let phase = format!("{:?}", window.phase).to_lowercase();
    let kept = if window.passed { "kept" } else { "broken" };
    format!("{phase}: {} {unit}, QoS {kept}", grouped(window.level))
}

/// `81234.5` as `81,234`.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 && digit.is_ascii_digit() && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(81234.4), "81,234");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(1_000_000.0), "1,000,000");
    }
}
