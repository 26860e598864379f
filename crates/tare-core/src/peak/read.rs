//! Reading `load: {peak: ...}`.

use super::{PeakPlan, PeakRules};
use crate::config::{Fields, Node, Place, Problems};
use crate::load::read::{CONNECTIONS_MAX, RATE_MAX, USERS_MAX};
use crate::load::{LoadProfile, SpokenNames};
use crate::qos::{EVERY_OPERATION, Qos};
use std::time::Duration;

/// The first and the highest level if the study names none, by kind: closed, open, users.
const LEVELS: [(&str, f64, f64); 3] = [("connections", 2.0, 1_000.0), ("op/s", 100.0, 1e6), ("users", 20.0, 100_000.0)];
/// The highest level that a load of each kind can have.
const LEVELS_MAX: [f64; 3] = [CONNECTIONS_MAX as f64, RATE_MAX, USERS_MAX as f64];
/// How far below the first level the search may go, as a factor.
const BELOW_START: f64 = 0.1;
/// How far above the first level, or the hint, the search may at least go, as a factor.
const ABOVE_START: f64 = 100.0;
/// By default, settling takes one window divided by this.
const SETTLE_PART: u32 = 5;
/// How long the published rules observe before they judge.
const PUBLISHED_WINDOW: Duration = Duration::from_secs(300);
/// How many windows may be asked for: nobody waits for more.
const WINDOWS: std::ops::RangeInclusive<u64> = PeakPlan::WINDOWS_MIN as u64..=1_000;

/// What a study or a command line asks of a search; what it does not name gets the default. The fields are those of
/// [`PeakPlan`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PeakAsked {
    /// The rules of the search.
    pub rules: Option<PeakRules>,
    /// The level of the first hold.
    pub start: Option<f64>,
    /// The search gives up below this.
    pub at_least: Option<f64>,
    /// It does not go above this.
    pub at_most: Option<f64>,
    /// Where the peak is expected.
    pub hint: Option<f64>,
    /// How long load runs before anything is examined closely.
    pub warm: Option<Duration>,
    /// How long a new level is held before its window.
    pub settle: Option<Duration>,
    /// How long a window is.
    pub window: Option<Duration>,
    /// The most windows of the staircase.
    pub windows: Option<u32>,
    /// How narrow a deployment's interval must be for its search to end, as a share.
    pub half_width: Option<f64>,
    /// The most time under load.
    pub budget: Option<Duration>,
}

impl PeakPlan {
    /// Reads the plan of a search and the profile that it guides. `qos` is what the peak must keep. `None` when
    /// anything is wrong; then at least one problem was added.
    pub fn read(
        node: &Node,
        place: Place,
        names: &SpokenNames,
        qos: Option<&Qos>,
        problems: &mut Problems,
    ) -> Option<(PeakPlan, LoadProfile)> {
        let before = problems.len();
        check_qos(place, qos, problems);
        let mut fields = Fields::of(node, "load 'peak'", problems)?;
        let rules = fields.choice("rules", &["staircase", "published"], problems);
        let of_node = fields.require("of", problems);
        let asked = PeakAsked {
            rules: rules.map(|word| if word == "published" { PeakRules::Published } else { PeakRules::Staircase }),
            start: level(&mut fields, "start", problems),
            at_least: level(&mut fields, "at_least", problems),
            at_most: level(&mut fields, "at_most", problems),
            hint: level(&mut fields, "hint", problems),
            window: fields.duration("window", problems),
            settle: fields.duration("settle", problems),
            warm: fields.duration("warm", problems),
            windows: fields.integer("windows", WINDOWS, problems).map(|windows| windows as u32),
            half_width: fields.get("half_width").and_then(|node| node.percent(problems)),
            budget: fields.duration("budget", problems),
        };
        fields.finish(problems);
        let of = LoadProfile::read_leveled(of_node?, asked.at_most.unwrap_or(1.0), names, problems)?;
        let plan = PeakPlan::usual(&of, names.operations.clone()).expect("what was read has a level").reaching(&asked);
        let plan = plan.with(&asked);
        if let Some(why) = plan.mistake() {
            problems.add(place, why, "at_least <= start <= at_most, 'hint' between them, and a window of 15s or so");
        }
        if problems.len() > before {
            return None;
        }
        let profile = LoadProfile::Guided { of: Box::new(plan.highest(&of)), start: plan.start };
        Some((plan, profile))
    }

    /// A search with the default values, for a profile that has a level; none for others.
    pub fn usual(base: &LoadProfile, operations: Vec<String>) -> Option<PeakPlan> {
        let (unit, start, at_most) = match base {
            LoadProfile::Closed { .. } => LEVELS[0],
            LoadProfile::Open { .. } => LEVELS[1],
            LoadProfile::Users { .. } => LEVELS[2],
            _ => return None,
        };
        let seconds = Duration::from_secs;
        let whole = unit != LEVELS[1].0;
        Some(PeakPlan {
            rules: PeakRules::Staircase,
            unit: unit.to_owned(),
            whole,
            start,
            hint: None,
            at_least: (start * BELOW_START).max(if whole { 1.0 } else { f64::MIN_POSITIVE }),
            at_most,
            warm: seconds(90),
            settle: window_of(PeakRules::Staircase) / SETTLE_PART,
            window: window_of(PeakRules::Staircase),
            windows: 48,
            half_width: None,
            budget: None,
            operations,
        })
    }

    /// The default plan, with its highest level raised if the requested first level or hint would be too near it.
    pub fn reaching(self, asked: &PeakAsked) -> PeakPlan {
        let near = asked.start.unwrap_or(0.0).max(asked.hint.unwrap_or(0.0));
        PeakPlan { at_most: self.at_most.max(near * ABOVE_START), ..self }
    }

    /// The same with the requested values applied. Values that depend on them and were not requested are adjusted: the
    /// times that belong to the rules, a first level within the others, a lowest one below the first.
    pub fn with(self, asked: &PeakAsked) -> PeakPlan {
        let rules = asked.rules.unwrap_or(self.rules);
        let (usual_window, usual_settle) = if rules == self.rules {
            (self.window, self.settle)
        } else {
            (window_of(rules), window_of(rules) / SETTLE_PART)
        };
        let window = asked.window.unwrap_or(usual_window);
        let settle = asked.settle.unwrap_or(if asked.window.is_some() { window / SETTLE_PART } else { usual_settle });
        let at_most = asked.at_most.unwrap_or(self.at_most);
        let start = asked.start.unwrap_or_else(|| self.start.max(asked.at_least.unwrap_or(0.0)).min(at_most));
        let below = (start * BELOW_START).max(if self.whole { 1.0 } else { f64::MIN_POSITIVE });
        let at_least = asked.at_least.unwrap_or(if start == self.start { self.at_least } else { below });
        PeakPlan {
            rules,
            start,
            at_least: if self.whole { at_least.max(1.0) } else { at_least },
            at_most,
            hint: asked.hint.or(self.hint),
            warm: asked.warm.unwrap_or(self.warm),
            settle,
            window,
            windows: asked.windows.unwrap_or(self.windows),
            half_width: asked.half_width.or(self.half_width),
            budget: asked.budget.or(self.budget),
            ..self
        }
    }

    /// `base` with the highest level of this search.
    pub fn highest(&self, base: &LoadProfile) -> LoadProfile {
        let (mut base, level) = (base.clone(), self.at_most);
        match &mut base {
            LoadProfile::Closed { connections, .. } => *connections = level as u32,
            LoadProfile::Open { rate, .. } => *rate = level,
            LoadProfile::Users { users, .. } => *users = level as u32,
            _ => {}
        }
        base
    }

    /// What is wrong with the levels or times, if anything is.
    pub fn mistake(&self) -> Option<String> {
        let PeakPlan { at_least, start, at_most, window, .. } = self;
        if !(0.0 < *at_least && at_least <= start && start <= at_most) {
            return Some(format!(
                "the levels of the search are not in order: {at_least} at least, {start} first, {at_most} at most"
            ));
        }
        let kinds = LEVELS.iter().zip(LEVELS_MAX);
        let most = kinds.filter(|(level, _)| level.0 == self.unit).map(|(_, most)| most).fold(RATE_MAX, f64::min);
        if *at_most > most {
            return Some(format!("the search would go up to {at_most} {}, but at most {most} are possible", self.unit));
        }
        if let Some(hint) = self.hint.filter(|hint| !(at_least..=at_most).contains(&hint)) {
            return Some(format!(
                "the peak is expected at {hint}, outside the search's range: {at_least} to {at_most}"
            ));
        }
        let short = *window < Duration::from_millis(500);
        short.then(|| "a window this short shows chance, not quality of service".to_owned())
    }
}

/// The default length of a window of a search by these rules.
fn window_of(rules: PeakRules) -> Duration {
    match rules {
        PeakRules::Staircase => Duration::from_secs(15),
        PeakRules::Published => PUBLISHED_WINDOW,
    }
}

fn level(fields: &mut Fields, name: &'static str, problems: &mut Problems) -> Option<f64> {
    let node = fields.get(name)?;
    let level = node.number(problems)?;
    if level <= 0.0 {
        problems.add(node.place, format!("a level of {level} is no load"), "above 0");
    }
    Some(level)
}

/// A search counts against only one limit of each operation.
fn check_qos(place: Place, qos: Option<&Qos>, problems: &mut Problems) {
    let Some(qos) = qos else {
        let hint = "add 'qos:' to the study or the workload, for example qos: {\"*\": {p99: 10ms}}";
        return problems.add(place, "a peak is the greatest load that keeps a QoS, and there is none", hint);
    };
    for (name, limits) in &qos.operations {
        if limits.len() > 1 {
            let who = if name == EVERY_OPERATION { "every operation" } else { name };
            let message = format!("a peak is searched against one percentile; the QoS of {who} has {}", limits.len());
            problems.add(place, message, "keep the one that matters most");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn read(text: &str, qos: Option<&str>) -> Result<(PeakPlan, LoadProfile), String> {
        let mut problems = Problems::new("s.yaml", text);
        let node = parse(text, &mut problems).expect("it is YAML");
        let qos = qos.map(|text| Qos::read(&parse(text, &mut problems).unwrap(), &[], &mut problems).unwrap());
        let read = PeakPlan::read(&node, node.place, &SpokenNames::default(), qos.as_ref(), &mut problems);
        read.ok_or_else(|| problems.into_vec().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    const QOS: Option<&str> = Some("{\"*\": {p99: 10ms}}");

    #[test]
    fn a_peak_is_read_with_its_defaults() {
        let (plan, profile) = read("{of: {open: {connections: 8}}, at_most: 5000}", QOS).unwrap();
        assert_eq!((plan.unit.as_str(), plan.whole, plan.start, plan.at_least), ("op/s", false, 100.0, 10.0));
        assert_eq!((plan.window, plan.settle, plan.windows), (Duration::from_secs(15), Duration::from_secs(3), 48));
        assert!(matches!(profile.base(), LoadProfile::Open { rate, connections: 8, .. } if *rate == 5000.0));
        let (plan, _) = read("{of: {users: {think: 5s}}, rules: published}", QOS).unwrap();
        assert_eq!((plan.window, plan.whole), (Duration::from_secs(300), true));
    }

    #[test]
    fn mistakes_have_their_place_and_a_hint() {
        let none = read("{of: {closed: {}}}", None).unwrap_err();
        assert!(none.contains("add 'qos:'"), "{none}");
        let found = read("{of: {opne: {}}, start: 0, windows: 3, windw: 1s}", QOS).unwrap_err();
        for wanted in ["no load", "3 is out of range", "'windw'", "'open'"] {
            assert!(found.contains(wanted), "{wanted} is missing in:\n{found}");
        }
        let order = read("{of: {open: {}}, start: 50, at_least: 60, at_most: 20}", QOS).unwrap_err();
        assert!(order.contains("not in order"), "{order}");
        let many = read("{of: {open: {}}}", Some("{get: {p50: 1ms, p99: 10ms}}")).unwrap_err();
        assert!(many.contains("one percentile"), "{many}");
    }

    #[test]
    fn what_is_asked_for_takes_what_follows_from_it_along() {
        let open =
            LoadProfile::read_leveled(&node_of("{open: {}}"), 1.0, &SpokenNames::default(), &mut Problems::default())
                .unwrap();
        let usual = || PeakPlan::usual(&open, Vec::new()).unwrap();
        let none = PeakAsked::default();
        // A ceiling below the default first level lowers that level.
        let low = usual().with(&PeakAsked { at_most: Some(50.0), ..none });
        assert_eq!((low.start, low.at_least, low.mistake()), (50.0, 5.0, None));
        // Switching the rules and back: each brings its own times.
        let published = usual().with(&PeakAsked { rules: Some(PeakRules::Published), ..none });
        assert_eq!((published.window, published.settle), (Duration::from_secs(300), Duration::from_secs(60)));
        let back = published.with(&PeakAsked { rules: Some(PeakRules::Staircase), ..none });
        assert_eq!(back, usual());
        // A hint outside the levels is a mistake, unless nobody set them.
        let hinted = PeakAsked { hint: Some(2e6), ..none };
        assert!(usual().with(&hinted).mistake().unwrap().contains("outside the search's range"));
        assert_eq!(usual().reaching(&hinted).with(&hinted).mistake(), None);
        // Whole levels are at least one.
        let users = LoadProfile::read_leveled(
            &node_of("{users: {think: 1s}}"),
            1.0,
            &SpokenNames::default(),
            &mut Problems::default(),
        );
        let few = PeakPlan::usual(&users.unwrap(), Vec::new()).unwrap().with(&PeakAsked { start: Some(4.0), ..none });
        assert_eq!((few.start, few.at_least, few.mistake()), (4.0, 1.0, None));
    }

    fn node_of(text: &str) -> Node {
        parse(text, &mut Problems::new("s.yaml", text)).expect("it is YAML")
    }
}
