//! Takes a map of a Compose file apart: each key is asked for once, and what is left over is a mistake.

use crate::sources::{At, Sources};
use crate::yaml::{Entry, Kind, Value};
use std::time::Duration;
use tare_core::units::{parse_bytes, parse_duration};

/// The keys of one map, being read.
pub(crate) struct Keys<'v> {
    what: String,
    entries: &'v [Entry],
    asked: Vec<&'static str>,
}

impl<'v> Keys<'v> {
    /// Reads `value` as a map; `what` names it in messages. An absent value is an empty map. `None` (with a mistake
    /// added) when it is something else.
    pub(crate) fn of(value: &'v Value, what: impl Into<String>, sources: &mut Sources) -> Option<Keys<'v>> {
        let what = what.into();
        let entries: &[Entry] = match &value.kind {
            Kind::Map(entries) => entries,
            _ if value.is_null() => &[],
            _ => {
                sources.wrong(value.at, format!("{what} must be a map, found {}", value.describe()), "");
                return None;
            }
        };
        Some(Keys { what, entries, asked: Vec::new() })
    }

    /// The key's entry, if it is there and not empty.
    pub(crate) fn get(&mut self, name: &'static str) -> Option<&'v Entry> {
        if !self.asked.contains(&name) {
            self.asked.push(name);
        }
        self.entries.iter().find(|entry| entry.key == name).filter(|entry| !entry.value.is_null())
    }

    /// The key's entry, if it is there and is not the empty text either, which means nothing for many keys.
    pub(crate) fn get_filled(&mut self, name: &'static str) -> Option<&'v Entry> {
        self.get(name).filter(|entry| entry.value.scalar() != Some(""))
    }

    /// An optional text.
    pub(crate) fn text(&mut self, name: &'static str, sources: &mut Sources) -> Option<String> {
        self.get(name)?.value.text(sources)
    }

    /// An optional `true` or `false`, by default the `usual` one.
    pub(crate) fn flag(&mut self, name: &'static str, usual: bool, sources: &mut Sources) -> bool {
        let Some(entry) = self.get(name) else { return usual };
        match entry.value.scalar() {
            Some("true" | "yes" | "on" | "True" | "TRUE") => true,
            Some("false" | "no" | "off" | "False" | "FALSE") => false,
            _ => {
                let told = format!("expected true or false, found {}", entry.value.describe());
                sources.wrong(entry.value.at, told, "");
                usual
            }
        }
    }

    /// Marks these as known, whatever they hold.
    pub(crate) fn know(&mut self, names: &[&'static str]) {
        self.asked.extend(names);
    }

    /// Reports every key that was never asked for, with the nearest one that was. Extensions (`x-`) may stand anywhere.
    pub(crate) fn finish(self, sources: &mut Sources) {
        for Entry { key, at, .. } in self.entries.iter().filter(|entry| !entry.key.starts_with("x-")) {
            if !self.asked.contains(&key.as_str()) {
                sources.unknown(*at, format!("{} has no key '{key}'", self.what), key, &self.asked);
            }
        }
    }
}

impl Value {
    /// Reads a text.
    pub(crate) fn text(&self, sources: &mut Sources) -> Option<String> {
        match &self.kind {
            Kind::Scalar { text, .. } if !self.is_null() => Some(text.clone()),
            _ => {
                sources.wrong(self.at, format!("expected text, found {}", self.describe()), "");
                None
            }
        }
    }

    /// The items of a list; a single scalar counts as a list of one, and an absent value as an empty one.
    pub(crate) fn items(&self, sources: &mut Sources) -> &[Value] {
        match &self.kind {
            Kind::List(items) => items,
            _ if self.is_null() => &[],
            Kind::Scalar { .. } => std::slice::from_ref(self),
            Kind::Map(_) => {
                sources.wrong(self.at, "expected a list, found a map", "");
                &[]
            }
        }
    }

    /// Pairs of a map, or of a list of `NAME=value`; without a value when only the name stands there.
    pub(crate) fn pairs(&self, sources: &mut Sources) -> Vec<(String, At, Option<String>)> {
        if let Kind::Map(entries) = &self.kind {
            let mut pairs = Vec::new();
            for entry in entries {
                let value = if entry.value.is_null() { None } else { entry.value.text(sources) };
                pairs.push((entry.key.clone(), entry.at, value));
            }
            return pairs;
        }
        let mut pairs = Vec::new();
        for item in self.items(sources) {
            let Some(text) = item.text(sources) else { continue };
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (text, None),
            };
            pairs.push((name, item.at, value));
        }
        pairs
    }

    /// Reads a number that is not negative.
    pub(crate) fn number(&self, sources: &mut Sources) -> Option<f64> {
        let number = self.scalar().and_then(|text| text.parse::<f64>().ok());
        let number = number.filter(|number| (0.0..=1e9).contains(number));
        if number.is_none() {
            sources.wrong(self.at, format!("expected a number, found {}", self.describe()), "");
        }
        number
    }

    /// Reads a size as Compose writes it, in bytes: `512m`, `1gb`, `64KiB`; units are powers of 1024.
    pub(crate) fn bytes(&self, sources: &mut Sources) -> Option<u64> {
        let text = self.scalar().unwrap_or_default().trim().to_ascii_lowercase();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = match unit.trim() {
            "" | "b" => "B",
            "k" | "kb" | "kib" => "KiB",
            "m" | "mb" | "mib" => "MiB",
            "g" | "gb" | "gib" => "GiB",
            "t" | "tb" | "tib" => "TiB",
            other => other,
        };
        let read = parse_bytes(&format!("{number}{unit}"));
        if read.is_err() {
            let hint = "write a number and a unit, such as 512m or 2g";
            sources.wrong(self.at, format!("{} is not a size", self.describe()), hint);
        }
        read.ok()
    }

    /// Reads a duration such as `1m30s`.
    pub(crate) fn duration(&self, sources: &mut Sources) -> Option<Duration> {
        let text = self.scalar().unwrap_or_default();
        let read = if text == "0" { Ok(Duration::ZERO) } else { parse_duration(text) };
        read.map_err(|message| sources.wrong(self.at, message, "")).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::parse;
    use std::path::Path;

    fn with<T>(text: &str, read: impl FnOnce(&Value, &mut Sources) -> T) -> (T, String) {
        let mut sources = Sources::default();
        let file = sources.open("c.yaml", text, Path::new(""));
        let value = parse(text, file, &mut sources).unwrap();
        let read = read(&value, &mut sources);
        let (problems, _) = sources.finish();
        (read, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_key_that_nobody_asked_for_is_a_mistake_unless_it_is_an_extension() {
        let (_, told) = with("imgae: a\nx-mine: 1\nbuild: .\n", |value, sources| {
            let mut keys = Keys::of(value, "service 'web'", sources).unwrap();
            keys.know(&["build"]);
            assert_eq!(keys.text("image", sources), None);
            keys.finish(sources);
        });
        assert!(told.contains("has no key 'imgae'") && told.contains("did you mean 'image'?"), "{told}");
        assert!(!told.contains("x-mine"), "{told}");
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [("512m", 512 << 20), ("1gb", 1 << 30), ("64KiB", 64 << 10), ("100", 100)] {
            assert_eq!(with(text, Value::bytes), (Some(bytes), String::new()), "{text}");
        }
        assert!(with("lots", Value::bytes).1.contains("is not a size"));
    }

    #[test]
    fn lists_and_maps_are_the_same_pairs() {
        let pairs = |text: &str| {
            let (pairs, _) = with(text, Value::pairs);
            pairs.into_iter().map(|(name, _, value)| (name, value)).collect::<Vec<_>>()
        };
        assert_eq!(pairs("[A=1=2, B]"), pairs("{A: 1=2, B: }"));
    }
}
