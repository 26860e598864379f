//! Takes a map apart: each field is asked for once, and what is left over is a mistake.

use super::{Node, NodeKind, Place, Problems};
use crate::units;
use std::time::Duration;

/// The range of numbers that are accepted. Beyond it, a product of a few of them may exceed the range of a float.
const NUMBERS: std::ops::RangeInclusive<f64> = 1e-12..=1e15;

/// The fields of one map, being read. Ask for every field that is allowed, whatever the others say, then call
/// [`Fields::finish`], which reports those that nobody asked for.
///
/// A method that reads an optional field returns `None` both when it is absent and, with a problem added, when its
/// value is wrong. So a reader fills in a default in either case, continues to find further mistakes, and at the end
/// compares [`Problems::len`] with its value at the beginning.
pub struct Fields<'n> {
    what: String,
    place: Place,
    entries: &'n [(String, Place, Node)],
    asked: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// Reads `node` as a map; `what` names it in messages ("the study", "layer 'vm'"). An absent value is an empty
    /// map. `None` (with a problem added) when it is something else.
    pub fn of(node: &'n Node, what: impl Into<String>, problems: &mut Problems) -> Option<Self> {
        let what = what.into();
        let entries: &[_] = match &node.kind {
            NodeKind::Map(entries) => entries,
            _ if node.is_null() => &[],
            _ => {
                problems.add(node.place, format!("{what} must be a map, found {}", node.describe()), "");
                return None;
            }
        };
        Some(Fields { what, place: node.place, entries, asked: Vec::new() })
    }

    /// The place of the map.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The field's node, if it is there and not empty.
    pub fn get(&mut self, name: &'static str) -> Option<&'n Node> {
        if !self.asked.contains(&name) {
            self.asked.push(name);
        }
        self.entries.iter().find(|(key, ..)| key == name).map(|(.., node)| node).filter(|node| !node.is_null())
    }

    /// The field's node; a problem when it is missing.
    pub fn require(&mut self, name: &'static str, problems: &mut Problems) -> Option<&'n Node> {
        let node = self.get(name);
        if node.is_none() {
            let hint = format!("add '{name}:' here");
            problems.add(self.place, format!("{} has no '{name}'", self.what), hint);
        }
        node
    }

    /// All entries as (key, place of the key, value), for maps whose keys are the user's own names.
    pub fn entries(&self) -> &'n [(String, Place, Node)] {
        self.entries
    }

    /// An optional text.
    pub fn text(&mut self, name: &'static str, problems: &mut Problems) -> Option<String> {
        self.get(name)?.text(problems)
    }

    /// A required text.
    pub fn require_text(&mut self, name: &'static str, problems: &mut Problems) -> Option<String> {
        self.require(name, problems)?.text(problems)
    }

    /// An optional whole number within `range`. One that may be negative is read by [`Fields::number`].
    pub fn integer(
        &mut self,
        name: &'static str,
        range: std::ops::RangeInclusive<u64>,
        problems: &mut Problems,
    ) -> Option<u64> {
        self.get(name)?.integer(range, problems)
    }

    /// An optional number.
    pub fn number(&mut self, name: &'static str, problems: &mut Problems) -> Option<f64> {
        self.get(name)?.number(problems)
    }

    /// An optional `true` or `false`.
    pub fn boolean(&mut self, name: &'static str, problems: &mut Problems) -> Option<bool> {
        self.get(name)?.boolean(problems)
    }

    /// An optional duration.
    pub fn duration(&mut self, name: &'static str, problems: &mut Problems) -> Option<Duration> {
        self.get(name)?.duration(problems)
    }

    /// An optional size in bytes.
    pub fn bytes(&mut self, name: &'static str, problems: &mut Problems) -> Option<u64> {
        self.get(name)?.bytes(problems)
    }

    /// An optional word from `choices`.
    pub fn choice(
        &mut self,
        name: &'static str,
        choices: &[&'static str],
        problems: &mut Problems,
    ) -> Option<&'static str> {
        self.get(name)?.choice(choices, problems)
    }

    /// An optional list of texts.
    pub fn texts(&mut self, name: &'static str, problems: &mut Problems) -> Option<Vec<String>> {
        let node = self.get(name)?;
        Some(node.items(problems)?.iter().filter_map(|item| item.text(problems)).collect())
    }

    /// Reports every field that was never asked for, with the nearest one that was.
    pub fn finish(self, problems: &mut Problems) {
        for (key, place, _) in self.entries {
            if !self.asked.contains(&key.as_str()) {
                problems.add_unknown(*place, format!("{} has no field '{key}'", self.what), key, &self.asked);
            }
        }
    }
}

impl Node {
    /// Reads a text.
    pub fn text(&self, problems: &mut Problems) -> Option<String> {
        match &self.kind {
            NodeKind::Scalar { text, .. } if !self.is_null() => Some(text.clone()),
            _ => self.wrong("expected text", problems),
        }
    }

    /// Reads the items of a list; a single scalar counts as a list of one.
    pub fn items(&self, problems: &mut Problems) -> Option<&[Node]> {
        match &self.kind {
            NodeKind::List(items) => Some(items),
            NodeKind::Scalar { .. } if !self.is_null() => Some(std::slice::from_ref(self)),
            _ => self.wrong("expected a list", problems),
        }
    }

    /// Reads a whole number within `range`; `_` may group digits.
    pub fn integer(&self, range: std::ops::RangeInclusive<u64>, problems: &mut Problems) -> Option<u64> {
        let text = self.scalar("expected a whole number", problems)?;
        let Ok(value) = text.replace('_', "").parse::<u64>() else {
            return self.wrong("expected a whole number", problems);
        };
        if range.contains(&value) {
            return Some(value);
        }
        let (low, high) = range.into_inner();
        let hint = if high == u64::MAX { format!("at least {low}") } else { format!("from {low} to {high}") };
        problems.add(self.place, format!("{value} is out of range"), hint);
        None
    }

    /// Reads a number that is zero, or small and large enough for sums and products of such numbers to stay in range.
    pub fn number(&self, problems: &mut Problems) -> Option<f64> {
        let text = self.scalar("expected a number", problems)?;
        match text.parse::<f64>() {
            Ok(value) if value == 0.0 || NUMBERS.contains(&value.abs()) => Some(value),
            Ok(value) if value.is_finite() => {
                let hint = format!("0, or from {:e} to {:e}, above or below 0", NUMBERS.start(), NUMBERS.end());
                problems.add(self.place, format!("{} is out of range", self.describe()), hint);
                None
            }
            _ => self.wrong("expected a number", problems),
        }
    }

    /// Reads `true` or `false`.
    pub fn boolean(&self, problems: &mut Problems) -> Option<bool> {
        match self.scalar("expected true or false", problems)? {
            "true" => Some(true),
            "false" => Some(false),
            _ => self.wrong("expected true or false", problems),
        }
    }

    /// Reads a duration such as `10s`.
    pub fn duration(&self, problems: &mut Problems) -> Option<Duration> {
        let text = self.scalar("expected a duration such as 10s", problems)?;
        let hint = format!("from 0s to {}", units::typed_duration(units::DURATION_MAX));
        self.unit(units::parse_duration(text), hint, problems)
    }

    /// Reads a size such as `512MiB`.
    pub fn bytes(&self, problems: &mut Problems) -> Option<u64> {
        let text = self.scalar("expected a size such as 512MiB", problems)?;
        let hint = format!("from 0 to {}", units::show_bytes(units::BYTES_MAX).replace(' ', ""));
        self.unit(units::parse_bytes(text), hint, problems)
    }

    /// Reads a share such as `2%`, as a fraction of one.
    pub fn percent(&self, problems: &mut Problems) -> Option<f64> {
        let text = self.scalar("expected a percentage such as 2%", problems)?;
        self.unit(units::parse_percent(text), "from 0% on".to_owned(), problems)
    }

    /// Reads a word from `choices`.
    pub fn choice(&self, choices: &[&'static str], problems: &mut Problems) -> Option<&'static str> {
        let wanted = format!("expected one of {}", choices.join(", "));
        let text = self.scalar(&wanted, problems)?;
        let found = choices.iter().find(|choice| **choice == text).copied();
        if found.is_none() {
            problems.add_unknown(self.place, format!("'{text}' is not known here"), text, choices);
        }
        found
    }

    /// Reads a map with exactly one entry, whose key names a kind: `closed: {...}`. If there are several, the first is
    /// read, so that its own mistakes are reported as well.
    pub fn kind(&self, what: &str, problems: &mut Problems) -> Option<(&str, Place, &Node)> {
        match &self.kind {
            NodeKind::Map(entries) if !entries.is_empty() => {
                if let Some((_, place, _)) = entries.get(1) {
                    problems.add(*place, format!("{what} takes one kind, here is a second"), "keep one of them");
                }
                let (key, place, node) = &entries[0];
                Some((key, *place, node))
            }
            _ => self.wrong(&format!("{what} is written as one kind and its options"), problems),
        }
    }

    /// The node below these keys, each in the map below the previous one.
    pub fn find(&self, keys: &[&str]) -> Option<&Node> {
        keys.iter().try_fold(self, |node, key| match &node.kind {
            NodeKind::Map(entries) => entries.iter().find(|(name, ..)| name == key).map(|(.., value)| value),
            _ => None,
        })
    }

    /// The place of the last of `keys`, each in the map below the previous one, or of the last one that exists.
    pub fn place_of(&self, keys: &[&str]) -> Place {
        let (mut place, mut node) = (self.place, self);
        for key in keys {
            let NodeKind::Map(entries) = &node.kind else { break };
            let Some((_, found, value)) = entries.iter().find(|(name, ..)| name == key) else { break };
            (place, node) = (*found, value);
        }
        place
    }

    /// Reports that `name`, at `place`, is none of `known`.
    pub fn unknown(name: &str, place: Place, what: &str, known: &[&str], problems: &mut Problems) {
        let message = format!("there is no {what} '{name}'");
        match known {
            [] => problems.add(place, message, "none is declared: declare it, or leave this out"),
            _ => problems.add_unknown(place, message, name, known),
        }
    }

    fn scalar(&self, wanted: &str, problems: &mut Problems) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => self.wrong(wanted, problems),
        }
    }

    fn unit<T>(&self, read: Result<T, String>, hint: String, problems: &mut Problems) -> Option<T> {
        read.map_err(|message| problems.add(self.place, message, hint)).ok()
    }

    fn wrong<T>(&self, wanted: &str, problems: &mut Problems) -> Option<T> {
        problems.add(self.place, format!("{wanted}, found {}", self.describe()), "");
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let mut problems = Problems::new("study.yaml", text);
        if let Some(node) = parse(text, &mut problems)
            && let Some(mut fields) = Fields::of(&node, "the study", &mut problems)
        {
            fields.require_text("study", &mut problems);
            fields.integer("repeat", 1..=1000, &mut problems);
            fields.duration("time", &mut problems);
            fields.finish(&mut problems);
        }
        problems.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_mistakes_are_reported_at_once_with_their_places() {
        let found = read("repaet: 3\ntime: 10 parsecs\nrepeat: 0\n");
        assert_eq!(found.len(), 4, "{found:#?}");
        assert!(found[0].contains("study.yaml:1:1") && found[0].contains("has no 'study'"), "{}", found[0]);
        assert!(found[1].contains("did you mean 'repeat'?"), "{}", found[1]);
        assert!(found[2].contains("study.yaml:2:7") && found[2].contains("not a duration"), "{}", found[2]);
        assert!(found[3].contains("study.yaml:3:9") && found[3].contains("0 is out of range"), "{}", found[3]);
    }

    #[test]
    fn a_quantity_without_measure_is_a_problem_with_place_and_hint() {
        let told = |text: &str, look: &dyn Fn(&Node, &mut Problems) -> bool| {
            let text = format!("x: {text}");
            let mut problems = Problems::new("w.yaml", &text);
            let node = parse(&text, &mut problems).unwrap();
            let NodeKind::Map(entries) = &node.kind else { unreachable!() };
            assert!(!look(&entries[0].2, &mut problems), "{text} was accepted");
            problems.into_vec().iter().map(ToString::to_string).collect::<String>()
        };
        let cases = [
            (told("10000000000000000000s", &|node, problems| node.duration(problems).is_some()), "from 0s to 720h"),
            (told("18446744073709551615", &|node, problems| node.bytes(problems).is_some()), "from 0 to 64TiB"),
            (told("1e308%", &|node, problems| node.percent(problems).is_some()), "from 0% on"),
            (told("1e308", &|node, problems| node.number(problems).is_some()), "0, or from 1e-12 to 1e15"),
            (told("-1e308", &|node, problems| node.number(problems).is_some()), "0, or from 1e-12 to 1e15"),
            (told("1e-308", &|node, problems| node.number(problems).is_some()), "0, or from 1e-12 to 1e15"),
            (told("18446744073709551615", &|node, p| node.integer(1..=9, p).is_some()), "from 1 to 9"),
        ];
        for (text, hint) in cases {
            assert!(text.contains("w.yaml:1:4") && text.contains(&format!("hint: {hint}")), "{text}");
        }
        for not in ["nan", "inf", "-inf", "1e400"] {
            assert!(told(not, &|node, p| node.number(p).is_some()).contains("expected a number"), "{not}");
        }
    }

    #[test]
    fn broken_syntax_has_a_place() {
        for text in ["a: [1, 2\n", "a: b: c\n", "\ta: 1\n", "a: \"x\n", "", "&x a: *x\n", "--- \na: 1\n--- \nb: 2\n"] {
            let found = read(text);
            assert!(!found.is_empty(), "{text:?} was accepted");
            assert!(found[0].contains("study.yaml:"), "{}", found[0]);
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_a_mistake() {
        let found = read("study: a\nstudy: b\n");
        assert!(found[0].contains("study.yaml:2:1") && found[0].contains("second time"), "{}", found[0]);
    }
}
