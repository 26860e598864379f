//! How the trials of a study are arranged, how they settle, and when there are enough of them.

use crate::config::{Fields, Node, NodeKind, Problems};
use crate::form::percent;
use crate::units::exact_duration;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The most blocks of a study that stops by itself: at twice the precision a run takes four times as long.
pub const BLOCKS_MAX_DEFAULT: u32 = 40;

/// Blocks after which a study that stops by itself first checks its intervals. The rule is in `tare-stats`; a runner
/// test keeps the two in step.
pub const FIRST_LOOK: u32 = 6;

/// The margin of equivalence of a study that names none, as a share.
const MARGIN_DEFAULT: f64 = 0.01;

/// How the trials of a study are arranged, how they settle, and when there are enough of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Design {
    /// How the forms of a block are arranged.
    #[serde(default)]
    pub arrangement: Arrangement,
    /// Who chose it.
    #[serde(default, skip_serializing_if = "Chosen::is_asked")]
    pub chosen: Chosen,
    /// Blocks continue until the intervals of all forms' ratios, in the deciding metrics, reach no farther than this
    /// from the estimate, as a share; none runs the planned blocks, whatever they show.
    #[serde(default)]
    pub half_width: Option<f64>,
    /// Blocks continue until one form is better than every other in this metric beyond chance. Studies cannot ask for
    /// this; a search for the best placement does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_in: Option<String>,
    /// Settling continues until the load is steady, for at most this long; none settles for a fixed time.
    #[serde(default)]
    pub steady_within: Option<Duration>,
    /// Forms that differ by no more than this, as a share, count as equivalent; none in records of older versions, see
    /// [`Design::margin`].
    #[serde(default)]
    pub margin: Option<f64>,
    /// How idle CPUs rest.
    #[serde(default, skip_serializing_if = "Idle::is_any")]
    pub idle: Idle,
}

impl Design {
    /// Forms that differ by no more than this, as a share, count as equivalent.
    pub fn margin(&self) -> f64 {
        self.margin.unwrap_or(MARGIN_DEFAULT)
    }

    /// Whether blocks continue until a result is found; otherwise all planned blocks are run.
    pub fn ends_by_itself(&self) -> bool {
        self.half_width.is_some() || self.best_in.is_some()
    }

    /// Whether load takes turns and forms waiting for theirs are kept from running.
    pub fn freezes(&self) -> bool {
        matches!(&self.arrangement, Arrangement::Chop(chop) if chop.freeze)
    }

    /// In words: `blocks, until intervals reach 2 % either way`.
    pub fn describe(&self) -> String {
        let frozen = |freeze: bool| if freeze { ", who waits frozen" } else { "" };
        let arrangement = match &self.arrangement {
            Arrangement::Blocks => "blocks".to_owned(),
            Arrangement::Alternate(slices) => {
                let slice = exact_duration(slices.settle + slices.measure);
                let settle = exact_duration(slices.settle);
                format!("side by side, load alternating in slices of {slice}, the first {settle} of each to settle")
            }
            Arrangement::Chop(Chop { slice: Some(slice), freeze, .. }) => {
                format!("side by side, load chopped into slices of {}{}", exact_duration(*slice), frozen(*freeze))
            }
            Arrangement::Chop(Chop { slice: None, freeze, .. }) => {
                format!("side by side, load chopped into slices of ten response times or more{}", frozen(*freeze))
            }
            Arrangement::Duet => "duets, two forms loaded at the same moment on disjoint CPUs".to_owned(),
        };
        let arrangement = match &self.chosen {
            Chosen::Instead(why) => format!("{arrangement}, not chopped ({why})"),
            Chosen::Asked | Chosen::Usual => arrangement,
        };
        let arrangement = match self.idle {
            Idle::Any => arrangement,
            Idle::Shallow => format!("{arrangement}, CPUs in no deep idle state"),
        };
        match self.half_width {
            Some(share) => {
                format!("{arrangement}, until intervals reach {} % either way", percent(share))
            }
            None => match &self.best_in {
                Some(metric) => format!("{arrangement}, until one form is better in {metric} than every other"),
                None => arrangement,
            },
        }
    }
}

/// How idle CPUs rest. The deeper they rest, the longer they take to wake, and forms differ in how often they wake one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// As this machine is set up.
    #[default]
    Any,
    /// In the state that they leave immediately, for the duration of the run.
    Shallow,
}

impl Idle {
    fn is_any(&self) -> bool {
        *self == Idle::Any
    }

    /// Reads `idle: shallow`, or `any`.
    pub(crate) fn read(fields: &mut Fields, problems: &mut Problems) -> Idle {
        match fields.choice("idle", &["any", "shallow"], problems) {
            Some("shallow") => Idle::Shallow,
            _ => Idle::Any,
        }
    }
}

/// Who chose how the forms of a block are arranged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chosen {
    /// The user, in a file or on the command line.
    #[default]
    Asked,
    /// Nobody: it is the default for such a load.
    Usual,
    /// Nobody: a closed loop would be chopped, were it not for the reason given here.
    Instead(String),
}

impl Chosen {
    fn is_asked(&self) -> bool {
        *self == Chosen::Asked
    }
}

/// How the forms of a block are arranged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrangement {
    /// One after the other, each on a fresh deployment that has the machine to itself.
    #[default]
    Blocks,
    /// Deployed together, all but one frozen; the load moves between them in short slices, in random order.
    Alternate(Slices),
    /// Two at a time, loaded at the same moment on disjoint CPUs.
    Duet,
    /// Deployed together; one generator holds connections to all of them and moves a closed loop from one to the next
    /// every few milliseconds, faster than other work on the machine comes and goes.
    Chop(Chop),
}

impl Arrangement {
    /// All of them, each with its default settings.
    pub fn all() -> [Arrangement; 4] {
        let (alternate, chop) = (Arrangement::Alternate(Slices::default()), Arrangement::Chop(Chop::default()));
        [Arrangement::Blocks, alternate, chop, Arrangement::Duet]
    }

    /// Its name in studies and commands.
    pub fn name(&self) -> &'static str {
        match self {
            Arrangement::Blocks => "blocks",
            Arrangement::Alternate(_) => "alternate",
            Arrangement::Chop(_) => "chop",
            Arrangement::Duet => "duet",
        }
    }
}

/// How a load is chopped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Chop {
    /// How long the load stays with a form; none means ten response times of the slowest form, from 10 ms to 1 s, and
    /// no shorter than the service needs to be as fast as in long slices.
    pub slice: Option<Duration>,
    /// Forms that cannot stand beside all others and so have blocks of their own, with the baseline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<String>,
    /// The number of consecutive pieces in which each deployment is measured. Each is kept as a slice of its trial, to
    /// show what varies within deployments. None means one piece, kept as no slice; studies cannot set this, a
    /// calibration does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<u32>,
    /// Whether forms that are not loaded are frozen, so that their own background work does not fall into other forms'
    /// slices.
    #[serde(default, skip_serializing_if = "is_false")]
    pub freeze: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Chop {
    /// The range of slices that may be set. Shorter slices hold too few operations; for longer ones, `alternate` does
    /// the same.
    pub const SLICES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
}

/// The slices in which load alternates between deployments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slices {
    /// How long load runs after a switch before it counts.
    pub settle: Duration,
    /// How long it counts after that.
    pub measure: Duration,
}

impl Default for Slices {
    fn default() -> Self {
        Slices { settle: Duration::from_secs(2), measure: Duration::from_secs(8) }
    }
}

impl Slices {
    /// How many slices each deployment gets, so that it is measured for `measure` in total, or slightly longer.
    pub fn rounds(&self, measure: Duration) -> u32 {
        (measure.as_secs_f64() / self.measure.as_secs_f64()).ceil().max(1.0) as u32
    }
}

/// When a study ends by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Until {
    pub(crate) half_width: f64,
    pub(crate) at_most: Option<Duration>,
    pub(crate) blocks: u32,
}

impl Until {
    /// Reads `until: {half_width: 2%, at_most: 20m, blocks: 40}`.
    pub(crate) fn read(node: &Node, problems: &mut Problems) -> Option<Until> {
        let mut fields = Fields::of(node, "until", problems)?;
        let half_width = fields.require("half_width", problems).and_then(|node| {
            let share = node.percent(problems)?;
            if !(share > 0.0 && share < 1.0) {
                problems.add(node.place, "no interval is that narrow or that wide", "write for example 2%");
                return None;
            }
            Some(share)
        });
        let at_most = fields.duration("at_most", problems);
        let blocks = fields.integer("blocks", 1..=10_000, problems).map_or(BLOCKS_MAX_DEFAULT, |n| n as u32);
        fields.finish(problems);
        Some(Until { half_width: half_width?, at_most, blocks })
    }
}

/// Reads `margin: 1%`.
pub(crate) fn read_margin(fields: &mut Fields, problems: &mut Problems) -> f64 {
    let Some(node) = fields.get("margin") else { return MARGIN_DEFAULT };
    let Some(share) = node.percent(problems) else { return MARGIN_DEFAULT };
    if !(share > 0.0 && share < 1.0) {
        problems.add(node.place, "a margin lies above 0 % and below 100 %", "write for example 1%");
    }
    share
}

/// Reads `design: blocks`, `design: alternate`, `design: {alternate: {slice: 10s, settle: 2s}}`, `design: chop`,
/// `design: {chop: {slice: 20ms, freeze: true}}` or `design: duet`.
pub(crate) fn read_arrangement(node: &Node, problems: &mut Problems) -> Option<Arrangement> {
    let known = Arrangement::all().map(|arrangement| arrangement.name());
    let nothing = Node { place: node.place, kind: NodeKind::Map(Vec::new()) };
    let plain = node.text(&mut Problems::default());
    let (name, place, options) = match &plain {
        Some(name) => (name.as_str(), node.place, &nothing),
        None => node.kind("design", problems)?,
    };
    if !known.contains(&name) {
        Node::unknown(name, place, "design", &known, problems);
        return None;
    }
    let mut fields = Fields::of(options, format!("design '{name}'"), problems)?;
    let arrangement = match name {
        "blocks" => Arrangement::Blocks,
        "duet" => Arrangement::Duet,
        "chop" => Arrangement::Chop(read_chop(&mut fields, problems)?),
        _ => Arrangement::Alternate(read_slices(&mut fields, problems)?),
    };
    fields.finish(problems);
    Some(arrangement)
}

fn read_chop(fields: &mut Fields, problems: &mut Problems) -> Option<Chop> {
    let place = fields.place();
    let slice = fields.duration("slice", problems);
    let freeze = fields.boolean("freeze", problems).unwrap_or(false);
    let (shortest, longest) = Chop::SLICES;
    if slice.is_some_and(|slice| slice < shortest || slice > longest) {
        let message =
            format!("slices of a chopped load last {} to {}", exact_duration(shortest), exact_duration(longest));
        problems.add(place, message, "write for example {slice: 20ms}, or omit it to have the run find one");
        return None;
    }
    Some(Chop { slice, freeze, ..Chop::default() })
}

fn read_slices(fields: &mut Fields, problems: &mut Problems) -> Option<Slices> {
    let default = Slices::default();
    let place = fields.place();
    let settle = fields.duration("settle", problems).unwrap_or(default.settle);
    let slice = fields.duration("slice", problems).unwrap_or(default.settle + default.measure);
    if slice < settle + Duration::from_secs(1) {
        let message = "less than a second of each slice is left to be measured";
        problems.add(place, message, "write for example {slice: 10s, settle: 2s}: a slice contains its settling");
        return None;
    }
    Some(Slices { settle, measure: slice - settle })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn arrangement(text: &str) -> Result<Arrangement, String> {
        config::read("s.yaml", text, read_arrangement).map_err(|told| told[0].to_string())
    }

    #[test]
    fn a_half_width_is_said_as_it_was_written() {
        for percent in 1..100 {
            let design = Design { half_width: Some(f64::from(percent) / 100.0), ..Design::default() };
            let wanted = format!("blocks, until intervals reach {percent} % either way");
            assert_eq!(design.describe(), wanted);
        }
        let design = Design { half_width: Some(0.0125), ..Design::default() };
        assert!(design.describe().contains(" 1.25 %"), "{}", design.describe());
    }

    #[test]
    fn a_design_is_a_word_or_a_key_with_options() {
        assert_eq!(arrangement("blocks"), Ok(Arrangement::Blocks));
        assert_eq!(arrangement("duet"), Ok(Arrangement::Duet));
        assert_eq!(arrangement("alternate"), Ok(Arrangement::Alternate(Slices::default())));
        assert_eq!(arrangement("chop"), Ok(Arrangement::Chop(Chop::default())));
        let slice = Some(Duration::from_millis(20));
        assert_eq!(arrangement("{chop: {slice: 20ms}}"), Ok(Arrangement::Chop(Chop { slice, ..Chop::default() })));
        let freezing = Arrangement::Chop(Chop { slice, freeze: true, ..Chop::default() });
        assert_eq!(arrangement("{chop: {slice: 20ms, freeze: true}}"), Ok(freezing.clone()));
        assert!(arrangement("{chop: {freeze: 1}}").unwrap_err().contains("true or false"));
        let described = Design { arrangement: freezing, ..Design::default() }.describe();
        assert_eq!(described, "side by side, load chopped into slices of 20 ms, who waits frozen");
        assert!(arrangement("{chop: {slice: 2s}}").unwrap_err().contains("slices of a chopped load last 5 ms to 1 s"));
        let seconds = Duration::from_secs;
        let slices = Slices { settle: seconds(1), measure: seconds(4) };
        assert_eq!(arrangement("{alternate: {slice: 5s, settle: 1s}}"), Ok(Arrangement::Alternate(slices)));
        assert_eq!(slices.rounds(seconds(20)), 5);
        assert_eq!(slices.rounds(seconds(1)), 1);
        for (text, wanted) in [("alternat", "'alternate'"), ("{duet: {x: 1}}", "no field 'x'")] {
            assert!(arrangement(text).unwrap_err().contains(wanted), "{text}");
        }
        assert!(arrangement("{alternate: {slice: 2s, settle: 2s}}").unwrap_err().contains("less than a second"));
    }
}
