//! What differs between two records, in words: conditions are data until a reader is to see them.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tare_core::qos::Qos;
use tare_core::units::exact_duration;
use tare_core::workload::OwnResources;
use tare_stats::{Condition, Difference, Differing, OfForm, OfService};

/// A difference in words.
pub(crate) struct DifferenceWords {
    /// What: `environment kernel`.
    pub(crate) what: String,
    pub(crate) before: String,
    pub(crate) after: String,
}

impl DifferenceWords {
    pub(crate) fn of(difference: &Difference) -> DifferenceWords {
        let Difference { condition, before, after } = difference;
        let shown = [before, after].map(|json| json.as_ref().map_or_else(absent, |json| value(condition, json)));
        // What words round, or leave out, is shown as it is.
        let [before, after] = match shown {
            [before, after] if before == after => {
                [&difference.before, &difference.after].map(|json| json.clone().unwrap_or_else(absent))
            }
            shown => shown,
        };
        DifferenceWords { what: named(condition), before, after }
    }

    /// `6.1 | 6.12`.
    pub(crate) fn values(&self) -> String {
        format!("{} | {}", self.before, self.after)
    }

    /// `environment kernel: 6.1 | 6.12`.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.what, self.values())
    }
}

/// A condition in which several records are not all alike, in words: what, and its value in each record. What words
/// cannot tell apart is shown as it is.
pub(crate) fn differing_words(row: &Differing) -> (String, Vec<String>) {
    let distinct = |of: &[String]| of.iter().collect::<BTreeSet<_>>().len();
    let raw: Vec<String> = row.values.iter().map(|json| json.clone().unwrap_or_else(absent)).collect();
    let shown = |json: &Option<String>| json.as_ref().map_or_else(absent, |json| value(&row.condition, json));
    let shown: Vec<String> = row.values.iter().map(shown).collect();
    let values = if distinct(&shown) < distinct(&raw) { raw } else { shown };
    (named(&row.condition), values)
}

fn absent() -> String {
    "absent".to_owned()
}

/// For programs: what differs by its key and in words, and both values in words and as they are, null where absent.
pub(crate) fn differences_json(all: &[Difference]) -> Value {
    let of = |difference: &Difference| {
        let DifferenceWords { what, before, after } = DifferenceWords::of(difference);
        let data = |json: &Option<String>| json.as_ref().and_then(|json| read::<Value>(json));
        json!({
            "what": what,
            "before": before,
            "after": after,
            "condition": difference.condition.key(),
            "before_data": data(&difference.before),
            "after_data": data(&difference.after),
        })
    };
    all.iter().map(of).collect()
}

/// What a condition is called.
fn named(condition: &Condition) -> String {
    let named = match condition {
        Condition::Workload => "the workload",
        Condition::Baseline => "the baseline",
        Condition::Load => "the load",
        Condition::Origin => "the load's origin",
        Condition::Protocol => "the protocol",
        Condition::Qos => "the QoS",
        Condition::Design => "the design",
        Condition::Idle => "how CPUs rest",
        Condition::Settle => "the time to settle",
        Condition::SteadyWithin => "the time to get steady, at most",
        Condition::Measure => "the time measured",
        Condition::Timeout => "the time that an operation may take",
        Condition::SearchRules => "the search's rules",
        Condition::SearchWindow => "the search's window",
        Condition::SearchWindows => "the search's number of windows",
        Condition::SearchWarm => "the search's time to warm up",
        Condition::SearchSettle => "the search's time to settle",
        Condition::Version => "the version of Tare",
        Condition::Option(name) => return format!("option {name}"),
        Condition::Service { name, what } => return format!("service {name}, {}", of_service(*what)),
        Condition::Form { name, what: OfForm::Layers } => return format!("form {name}"),
        Condition::Form { name, what } => return format!("form {name}, {}", of_form(what)),
        Condition::Bundle(name) => return format!("bundle {name}"),
        Condition::Environment(name) => return format!("environment {name}"),
        Condition::Placement(name) => return format!("placement {name}"),
    };
    named.to_owned()
}

fn of_service(what: OfService) -> &'static str {
    match what {
        OfService::Resources => "resources",
        OfService::Command => "command",
        OfService::Environment => "environment",
        OfService::Directory => "directory",
    }
}

fn of_form(what: &OfForm) -> &str {
    match what {
        OfForm::Layers => "layers",
        OfForm::Instances => "instances",
        OfForm::Options => "options",
        OfForm::Resources => "resources",
        OfForm::Fact(name) => name,
    }
}

/// A condition's value as a study would say it, else as it is.
fn value(condition: &Condition, json: &str) -> String {
    let none = || "none".to_owned();
    let words = match condition {
        Condition::Qos => read::<Option<Qos>>(json).map(|qos| qos.map_or_else(none, |qos| qos.describe())),
        Condition::Settle
        | Condition::SteadyWithin
        | Condition::Measure
        | Condition::Timeout
        | Condition::SearchWindow
        | Condition::SearchWarm
        | Condition::SearchSettle => read::<Option<Duration>>(json).map(|time| time.map_or_else(none, exact_duration)),
        Condition::Service { what: OfService::Command, .. } => read::<Vec<String>>(json).map(|all| all.join(" ")),
        Condition::Form { what: OfForm::Options, .. } => read::<BTreeMap<String, String>>(json).map(|options| {
            options.iter().map(|(option, level)| format!("{option}={level}")).collect::<Vec<_>>().join(", ")
        }),
        Condition::Form { what: OfForm::Resources, .. } => {
            read::<OwnResources>(json).map(|resources| resources.words().join(", "))
        }
        _ => read::<String>(json),
    };
    words.unwrap_or_else(|| json.to_owned())
}

fn read<T: DeserializeOwned>(json: &str) -> Option<T> {
    serde_json::from_str(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(condition: Condition, before: Option<&str>, after: Option<&str>) -> String {
        let [before, after] = [before, after].map(|value| value.map(str::to_owned));
        DifferenceWords::of(&Difference { condition, before, after }).line()
    }

    #[test]
    fn conditions_become_words_where_they_are_shown() {
        let of_form = |what| Condition::of_form("a", what);
        let limit = |ns: u32| {
            let within = format!("{{\"secs\":0,\"nanos\":{ns}}}");
            format!("{{\"operations\":{{\"get\":[{{\"quantile\":0.99,\"within\":{within}}}]}}}}")
        };
        let rare = limit(5_000_000).replace("0.99", "0.9999991");
        let rarer = limit(5_000_000).replace("0.99", "0.9999992");
        let secs = |secs: u32| format!("{{\"secs\":{secs},\"nanos\":0}}");
        for (condition, before, after, wanted) in [
            (Condition::Qos, Some(&*limit(500_000)), Some("null"), "the QoS: get p99 within 0.5 ms | none"),
            (
                Condition::Qos,
                Some(&*limit(5_000_001)),
                Some(&*limit(5_000_000)),
                "the QoS: get p99 within 5.000001 ms | get p99 within 5 ms",
            ),
            (
                Condition::Qos,
                Some(&*rare),
                Some(&*rarer),
                "the QoS: get p99.99991 within 5 ms | get p99.99992 within 5 ms",
            ),
            (Condition::Design, Some("\"blocks\""), Some("\"duet\""), "the design: blocks | duet"),
            (Condition::Settle, Some(&*secs(3)), Some(&*secs(4)), "the time to settle: 3 s | 4 s"),
            (Condition::SteadyWithin, Some("null"), Some(&*secs(30)), "the time to get steady, at most: none | 30 s"),
            (Condition::SearchWindows, Some("48"), Some("24"), "the search's number of windows: 48 | 24"),
            (Condition::Option("sync".into()), None, Some("\"off\""), "option sync: absent | off"),
            (
                Condition::of_service("db", OfService::Command),
                Some("[\"/db\",\"--sync\"]"),
                Some("[\"/db\"]"),
                "service db, command: /db --sync | /db",
            ),
            (of_form(OfForm::Layers), Some("[]"), Some("[1]"), "form a: [] | [1]"),
            (of_form(OfForm::Options), None, Some("{\"sync\":\"off\"}"), "form a, options: absent | sync=off"),
            (
                of_form(OfForm::Resources),
                None,
                Some("{\"memory_bytes\":100663296}"),
                "form a, resources: absent | memory=96 MiB",
            ),
            (
                of_form(OfForm::Fact("engine.version".into())),
                Some("\"26\""),
                Some("\"27\""),
                "form a, engine.version: 26 | 27",
            ),
        ] {
            assert_eq!(line(condition, before, after), wanted);
        }
    }

    #[test]
    fn what_words_cannot_tell_apart_is_shown_as_it_is() {
        let command = Condition::of_service("db", OfService::Command);
        let said = line(command, Some("[\"/db\",\"a b\"]"), Some("[\"/db\",\"a\",\"b\"]"));
        assert_eq!(said, "service db, command: [\"/db\",\"a b\"] | [\"/db\",\"a\",\"b\"]");
    }

    #[test]
    fn of_several_records_each_has_its_value_in_words_that_tell_them_apart() {
        let secs = |secs: u32| Some(format!("{{\"secs\":{secs},\"nanos\":0}}"));
        let row = Differing { condition: Condition::Measure, values: vec![secs(10), None, secs(20), secs(10)] };
        let words = ["10 s", "absent", "20 s", "10 s"].map(str::to_owned);
        assert_eq!(differing_words(&row), ("the time measured".to_owned(), words.to_vec()));
        let commands = ["[\"/db\",\"a b\"]", "[\"/db\",\"a\",\"b\"]"].map(str::to_owned);
        let condition = Condition::of_service("db", OfService::Command);
        let row = Differing { condition, values: commands.clone().map(Some).to_vec() };
        assert_eq!(differing_words(&row).1, commands);
    }

    #[test]
    fn programs_get_the_key_and_the_values_as_they_are() {
        let condition = Condition::Measure;
        let after = Some("{\"secs\":20,\"nanos\":0}".to_owned());
        let all = differences_json(&[Difference { condition, before: None, after }]);
        let wanted = json!([{
            "what": "the time measured", "before": "absent", "after": "20 s", "condition": "measure",
            "before_data": null, "after_data": {"secs": 20, "nanos": 0},
        }]);
        assert_eq!(all, wanted);
    }
}
