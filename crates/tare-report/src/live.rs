//! Drawings of a run that goes on, by the code that draws its report, and what pages need to show either.

use crate::html::SCRIPT_DIGEST;
use crate::svg::{Limits, Look, Row, Subject, forest_of, timeline};
use tare_core::load::SecondRow;
use tare_core::study::Study;
use tare_stats::SoFar;

/// The unit of rates by second.
pub(crate) const RATE: &str = "op/s";

/// The digest by which a report's own script, of flame graphs, may run.
pub fn script_digest() -> &'static str {
    SCRIPT_DIGEST
}

/// How the arms of a study are drawn while it runs, as its report will draw them.
#[derive(Debug, Clone)]
pub struct LiveLooks(Vec<Look>);

impl LiveLooks {
    /// Of a study, in which these forms are emulated.
    pub fn of(study: &Study, emulated: impl Fn(&str) -> bool) -> LiveLooks {
        let look = |name: String, form: &str, colour, hollow| Look { name, colour, hollow, hatched: emulated(form) };
        let baseline = study.baseline.as_str();
        let others = study.forms.iter().map(|form| form.name.as_str()).filter(|form| *form != baseline);
        let mut looks = vec![
            look(baseline.to_owned(), baseline, 0, false),
            look(tare_core::plan::control_arm(baseline), baseline, 0, true),
        ];
        looks.extend(others.enumerate().map(|(place, form)| look(form.to_owned(), form, place + 1, false)));
        LiveLooks(looks)
    }

    /// The names of the arms, in the order in which they are drawn.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|look| look.name.as_str())
    }

    /// The class that sets an arm's colour, and those that fill or hatch its key.
    pub fn key_class(&self, arm: &str) -> String {
        let Some(look) = self.look(arm) else { return String::new() };
        let hollow = if look.hollow { " hollow" } else { "" };
        let hatched = if look.hatched { " hatched" } else { "" };
        format!("{}{hollow}{hatched}", look.class())
    }

    /// Whether an arm is emulated.
    pub fn is_emulated(&self, arm: &str) -> bool {
        self.look(arm).is_some_and(|look| look.hatched)
    }

    /// How an arm is drawn.
    pub(crate) fn look(&self, arm: &str) -> Option<&Look> {
        self.0.iter().find(|look| look.name == arm)
    }

    /// Ratios of throughput so far, with the intervals that there are, as SVG; empty while there is no ratio.
    pub fn ratios(&self, so_far: &SoFar) -> String {
        let ratios = so_far.ratios();
        let rows = self.0.iter().filter_map(|look| {
            let ratio = ratios.iter().find(|ratio| ratio.arm == look.name)?;
            Some(Row { look, ratio: ratio.ratio, interval: ratio.interval, text: ratio.text(), strong: false })
        });
        let rows: Vec<Row> = rows.collect();
        let subject = Subject { title: "throughput", more_is_better: true, noise_floor: None };
        if rows.is_empty() { String::new() } else { forest_of(&subject, &rows) }
    }

    /// Throughput and p99 of an arm's trials, second by second, as SVG, on scales that hold `all` rows of these arms:
    /// those of real forms share theirs, an emulated one has its own.
    pub fn seconds<'a>(
        &self,
        arm: &str,
        trials: &[Vec<SecondRow>],
        all: impl Iterator<Item = (&'a str, &'a [Vec<SecondRow>])>,
    ) -> String {
        let Some(look) = self.look(arm) else { return String::new() };
        let limits = if look.hatched {
            Limits::default().including(trials)
        } else {
            let real = all.filter(|(arm, _)| !self.is_emulated(arm));
            real.fold(Limits::default(), |limits, (_, trials)| limits.including(trials))
        };
        timeline(look, trials, limits, RATE)
    }
}
