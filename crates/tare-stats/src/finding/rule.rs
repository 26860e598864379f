//! A rule: which figures must differ, and what that says. Each is a file of its own in `rules/`.

use crate::contrast::Figure;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use tare_core::config::{Fields, Node, Problems, parse};

/// The rules, as they are written.
const FILES: &[(&str, &str)] = &[
    ("address-translation", include_str!("../../rules/address-translation.yaml")),
    ("busy-neighbour", include_str!("../../rules/busy-neighbour.yaml")),
    ("cache-misses", include_str!("../../rules/cache-misses.yaml")),
    ("cpu-quota", include_str!("../../rules/cpu-quota.yaml")),
    ("crowded-cpus", include_str!("../../rules/crowded-cpus.yaml")),
    ("disk-waits", include_str!("../../rules/disk-waits.yaml")),
    ("dropped-packets", include_str!("../../rules/dropped-packets.yaml")),
    ("fewer-threads", include_str!("../../rules/fewer-threads.yaml")),
    ("full-backlog", include_str!("../../rules/full-backlog.yaml")),
    ("full-buffers", include_str!("../../rules/full-buffers.yaml")),
    ("guest-exits", include_str!("../../rules/guest-exits.yaml")),
    ("hand-overs", include_str!("../../rules/hand-overs.yaml")),
    ("idle-services", include_str!("../../rules/idle-services.yaml")),
    ("kernel-work", include_str!("../../rules/kernel-work.yaml")),
    ("late-acknowledgments", include_str!("../../rules/late-acknowledgments.yaml")),
    ("locks", include_str!("../../rules/locks.yaml")),
    ("longer-path", include_str!("../../rules/longer-path.yaml")),
    ("memory-limit", include_str!("../../rules/memory-limit.yaml")),
    ("migrations", include_str!("../../rules/migrations.yaml")),
    ("more-written", include_str!("../../rules/more-written.yaml")),
    ("new-connections", include_str!("../../rules/new-connections.yaml")),
    ("new-processes", include_str!("../../rules/new-processes.yaml")),
    ("other-code", include_str!("../../rules/other-code.yaml")),
    ("page-faults", include_str!("../../rules/page-faults.yaml")),
    ("page-tables", include_str!("../../rules/page-tables.yaml")),
    ("pages-from-disk", include_str!("../../rules/pages-from-disk.yaml")),
    ("port-proxy", include_str!("../../rules/port-proxy.yaml")),
    ("remote-memory", include_str!("../../rules/remote-memory.yaml")),
    ("retransmits", include_str!("../../rules/retransmits.yaml")),
    ("sleeps", include_str!("../../rules/sleeps.yaml")),
    ("small-pages", include_str!("../../rules/small-pages.yaml")),
    ("smaller-packets", include_str!("../../rules/smaller-packets.yaml")),
    ("stolen-cpu", include_str!("../../rules/stolen-cpu.yaml")),
    ("stopped", include_str!("../../rules/stopped.yaml")),
    ("synchronous-writes", include_str!("../../rules/synchronous-writes.yaml")),
    ("user-work", include_str!("../../rules/user-work.yaml")),
];

/// The rules, read once.
pub(super) static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let rule = |(name, text): &(&str, &str)| {
        let mut problems = Problems::new(format!("rules/{name}.yaml"), text);
        let rule = read(text, &mut problems);
        let told: Vec<String> = problems.into_vec().iter().map(ToString::to_string).collect();
        assert!(told.is_empty(), "a rule that cannot be read: {}", told.join("\n"));
        let rule = rule.expect("a rule without a problem is there");
        assert_eq!(rule.name, *name, "a rule is called as its file");
        rule
    };
    FILES.iter().map(rule).collect()
});

/// How surely the evidence names the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// It goes with many things.
    Hint,
    /// It has one usual cause.
    Likely,
    /// The kernel counted the cause itself.
    Counted,
}

impl Confidence {
    /// How much the time lost to it counts, where findings are ranked.
    pub(super) fn weight(self) -> f64 {
        match self {
            Confidence::Hint => 0.1,
            Confidence::Likely => 0.4,
            Confidence::Counted => 1.0,
        }
    }
}

/// What must differ.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    pub(super) figure: String,
    /// The least difference, in the figure's unit: the slower form has so much more, or less where `falls`.
    pub(super) by: f64,
    /// The least ratio of the larger to the smaller.
    pub(super) times: f64,
    pub(super) falls: bool,
}

impl Condition {
    /// Whether this is the figure, `here` being the slower form, and it differs by enough.
    pub(super) fn holds(&self, figure: &Figure) -> bool {
        let (more, less) = if self.falls { (figure.there, figure.here) } else { (figure.here, figure.there) };
        // One that stands apart has no interval of its mean: then the nearest two trials differ by so much.
        let difference = if figure.apart { (more - less).signum() * nearest(figure) } else { more - less };
        figure.name == self.figure && difference >= self.by && more >= self.times * less
    }
}

/// How far apart the nearest trials of two forms are in a figure that stands apart.
fn nearest(figure: &Figure) -> f64 {
    figure.interval.low.abs().min(figure.interval.high.abs())
}

/// A rule.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) says: String,
    /// All of these must hold,
    pub(super) when: Vec<Condition>,
    /// one of these, if there are any,
    pub(super) any: Vec<Condition>,
    /// and none of these, which have a cause of their own.
    pub(super) unless: Vec<Condition>,
    /// What is shown in addition, where it differs.
    pub(super) shows: Vec<String>,
    /// Seconds lost in a second by each figure's unit; the largest counts. A figure per operation is taken so often as
    /// there were operations.
    pub(super) lost: BTreeMap<String, f64>,
    pub(super) confidence: Confidence,
    /// Whether it is a limit, whose cost the kernel counts: then it speaks where only one of two forms ran into it,
    /// even if no difference in performance can be detected.
    pub(super) by_itself: bool,
    pub(super) to_do: String,
    pub(super) variants: Vec<String>,
}

fn read(text: &str, problems: &mut Problems) -> Option<Rule> {
    let node = parse(text, problems)?;
    let mut fields = Fields::of(&node, "the rule", problems)?;
    let conditions = |node: Option<&Node>, problems: &mut Problems| -> Vec<Condition> {
        let fields = node.and_then(|node| Fields::of(node, "conditions", problems));
        let entries = fields.map(|fields| fields.entries()).unwrap_or_default();
        entries.iter().filter_map(|(name, _, node)| condition(name, node, problems)).collect()
    };
    let confidence = fields.choice("confidence", &["hint", "likely", "counted"], problems);
    let lost = fields.require("lost", problems).and_then(|node| Fields::of(node, "lost", problems));
    let lost = lost.map(|fields| fields.entries()).unwrap_or_default();
    let rule = Rule {
        name: fields.require_text("rule", problems)?,
        says: fields.require_text("says", problems)?,
        when: conditions(fields.get("when"), problems),
        any: conditions(fields.get("any"), problems),
        unless: conditions(fields.get("unless"), problems),
        shows: fields.texts("shows", problems).unwrap_or_default(),
        lost: lost.iter().filter_map(|(name, _, node)| Some((name.clone(), node.number(problems)?))).collect(),
        confidence: match confidence {
            Some("counted") => Confidence::Counted,
            Some("likely") => Confidence::Likely,
            _ => Confidence::Hint,
        },
        by_itself: fields.boolean("by_itself", problems).unwrap_or(false),
        to_do: fields.require_text("to_do", problems)?,
        variants: fields.texts("variants", problems).unwrap_or_default(),
    };
    fields.finish(problems);
    Some(rule)
}

/// `figure: 0.02`, or `figure: {by: 0.02, times: 1.5, falls: true}`.
fn condition(name: &str, node: &Node, problems: &mut Problems) -> Option<Condition> {
    let figure = name.to_owned();
    if node.text(&mut Problems::default()).is_some() {
        return Some(Condition { figure, by: node.number(problems)?, times: 1.0, falls: false });
    }
    let mut fields = Fields::of(node, format!("condition '{name}'"), problems)?;
    let by = fields.require("by", problems)?.number(problems)?;
    let times = fields.number("times", problems).unwrap_or(1.0);
    let falls = fields.boolean("falls", problems).unwrap_or(false);
    fields.finish(problems);
    Some(Condition { figure, by, times, falls })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::is_figure;

    #[test]
    fn every_rule_can_be_read_and_asks_for_figures_that_there_are() {
        for rule in RULES.iter() {
            assert!(!rule.when.is_empty() || !rule.any.is_empty(), "{}: it always holds", rule.name);
            assert!(!rule.lost.is_empty(), "{}: it cannot be ranked", rule.name);
            let conditions = rule.when.iter().chain(&rule.any).chain(&rule.unless);
            let named = conditions.map(|condition| &condition.figure).chain(&rule.shows).chain(rule.lost.keys());
            for name in named {
                assert!(is_figure(name), "{}: there is no figure '{name}'", rule.name);
            }
            for text in [&rule.says, &rule.to_do] {
                assert!(!text.ends_with('.') && text.len() < 300, "{}: {text}", rule.name);
            }
            assert!(rule.when.iter().chain(&rule.any).all(|c| c.by > 0.0), "{}: a condition without a size", rule.name);
        }
    }

    #[test]
    fn every_rule_is_described() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/findings.md");
        let text = std::fs::read_to_string(path).unwrap();
        for rule in RULES.iter() {
            let head = format!("{}\n", rule.name);
            let section = text.split("\n## ").find(|section| section.starts_with(&head));
            let section = section.unwrap_or_else(|| panic!("findings.md has no section '{}'", rule.name));
            let section = section.split_whitespace().collect::<Vec<_>>().join(" ");
            let asked = rule.when.iter().chain(&rule.any).chain(&rule.unless);
            let said = asked.map(|condition| match condition.falls {
                true => format!("`{}` falls by {}", condition.figure, condition.by),
                false => format!("`{}` >= {}", condition.figure, condition.by),
            });
            let tried = rule.variants.iter().map(|variant| format!("--try {variant}"));
            for text in said.chain(tried).chain([rule.to_do.clone(), "From:".to_owned(), "Beware:".to_owned()]) {
                assert!(section.contains(&text), "findings.md, {}: '{text}' is not there", rule.name);
            }
        }
    }

    #[test]
    fn every_file_of_rules_is_in_the_table() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("rules");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort_unstable();
        assert_eq!(names, FILES.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
    }

    #[test]
    fn a_mistake_in_a_rule_is_told_with_its_place() {
        let text = "rule: r\nsays: s\nwhen: {a: {by: 1, tims: 2}}\nlost: {a: 1}\nto_do: t\nmethod: m\n";
        let mut problems = Problems::new("r.yaml", text);
        read(text, &mut problems);
        let told: Vec<String> = problems.into_vec().iter().map(ToString::to_string).collect();
        assert!(told.len() == 2 && told[0].contains("tims") && told[1].contains("method"), "{told:#?}");
    }
}
