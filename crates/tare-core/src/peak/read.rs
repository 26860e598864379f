//! Reading `load: {peak: ...}`.

use super::{PeakPlan, PeakRules};
use crate::config::{Fields, Node, Place, Problems};
use crate::load::LoadProfile;
use crate::qos::{EVERY_OPERATION, Qos};
use std::time::Duration;

/// The first level and the highest one where the study names none, by kind: closed, open, users.
const LEVELS: [(&str, f64, f64); 3] = [("connections", 2.0, 1_000.0), ("op/s", 100.0, 1e6), ("users", 20.0, 100_000.0)];
/// So far below the first level the search may go.
const BELOW_START: f64 = 0.1;
/// How long the published rules look before they judge.
const PUBLISHED_WINDOW: Duration = Duration::from_secs(300);
/// More windows than this nobody waits for.
const WINDOWS: std::ops::RangeInclusive<u64> = PeakPlan::WINDOWS_MIN as u64..=1_000;

impl PeakPlan {
    /// Reads the plan of a search, and the profile that it guides. `qos` is what the peak must keep. `None` when
    /// anything is wrong; then at least one problem was added.
    pub fn read(
        node: &Node,
        place: Place,
        operations: &[String],
        qos: Option<&Qos>,
        problems: &mut Problems,
    ) -> Option<(PeakPlan, LoadProfile)> {
        let before = problems.len();
        check_qos(place, qos, problems);
        let mut fields = Fields::of(node, "load 'peak'", problems)?;
        let rules = fields.choice("rules", &["staircase", "published"], problems);
        let rules = if rules == Some("published") { PeakRules::Published } else { PeakRules::Staircase };
        let of_node = fields.require("of", problems);
        let start = level(&mut fields, "start", problems);
        let at_least = level(&mut fields, "at_least", problems);
        let at_most = level(&mut fields, "at_most", problems);
        let hint = level(&mut fields, "hint", problems);
        let seconds = Duration::from_secs;
        let usual = if rules == PeakRules::Published { PUBLISHED_WINDOW } else { seconds(15) };
        let window = fields.duration("window", problems).unwrap_or(usual);
        let settle = fields.duration("settle", problems).unwrap_or(window / 5);
        let warm = fields.duration("warm", problems).unwrap_or(seconds(90));
        let windows = fields.integer("windows", WINDOWS, problems).unwrap_or(48) as u32;
        let half_width = fields.get("half_width").and_then(|node| node.percent(problems));
        let budget = fields.duration("budget", problems);
        fields.finish(problems);
        let of = LoadProfile::read_leveled(of_node?, at_most.unwrap_or(1.0), operations, problems)?;
        let mut plan = PeakPlan::usual(&of, operations.to_vec()).expect("what was read has a level");
        plan.start = start.unwrap_or_else(|| plan.start.min(at_most.unwrap_or(f64::MAX)));
        plan.at_most = at_most.unwrap_or_else(|| plan.at_most.max(hint.unwrap_or(plan.start) * 100.0));
        plan.at_least =
            at_least.unwrap_or(plan.start * BELOW_START).max(if plan.whole { 1.0 } else { f64::MIN_POSITIVE });
        plan = PeakPlan { rules, hint, warm, settle, window, windows, half_width, budget, ..plan };
        if let Some(why) = plan.mistake() {
            problems.add(place, why, "at_least <= start <= at_most");
        }
        if problems.len() > before {
            return None;
        }
        let profile = LoadProfile::Guided { of: Box::new(plan.highest(&of)), start: plan.start };
        Some((plan, profile))
    }

    /// A search with the usual values, of a profile that has a level; none for others.
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
            settle: seconds(3),
            window: seconds(15),
            windows: 48,
            half_width: None,
            budget: None,
            operations,
        })
    }

    /// The same by the published rules and with their times.
    pub fn published(self) -> PeakPlan {
        PeakPlan { rules: PeakRules::Published, window: PUBLISHED_WINDOW, settle: PUBLISHED_WINDOW / 5, ..self }
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
    pub fn mistake(&self) -> Option<&'static str> {
        if !(0.0 < self.at_least && self.at_least <= self.start && self.start <= self.at_most) {
            return Some("the levels of the search are not in order");
        }
        (self.window < Duration::from_millis(500)).then_some("a window this short holds chance, not quality")
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

/// A search counts against one limit of each operation.
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
        let read = PeakPlan::read(&node, node.place, &[], qos.as_ref(), &mut problems);
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
}
