//! Conditions: what a record was made under. They are told apart by what they are, and histories keep them by keys,
//! which are read back to the same; their words are made in reports.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// What a record was made under. Each value is the JSON of what the record holds: two are the same when their texts
/// are, however they are shown.
pub type Conditions = BTreeMap<Condition, String>;

/// Something that a record was made under, and that may explain why it differs from another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// The workload.
    Workload,
    /// The baseline's form: to what the ratios of a record are.
    Baseline,
    /// The load.
    Load,
    /// Where it comes from.
    Origin,
    /// The protocol, with its options.
    Protocol,
    /// The QoS, or that there is none.
    Qos,
    /// How trials are arranged in blocks.
    Design,
    /// How CPUs rest; only where somebody chose.
    Idle,
    /// How long trials settle.
    Settle,
    /// How long they are waited for until they are steady, or that they are not.
    SteadyWithin,
    /// How long they count.
    Measure,
    /// How long an operation may take.
    Timeout,
    /// By which rules a peak is searched.
    SearchRules,
    /// In windows of which length.
    SearchWindow,
    /// In how many.
    SearchWindows,
    /// For how long it warms up.
    SearchWarm,
    /// For how long it settles.
    SearchSettle,
    /// The version of Tare.
    Version,
    /// An option of the study.
    Option(String),
    /// Something of a service.
    Service {
        /// The service.
        name: String,
        /// Which part of it.
        what: OfService,
    },
    /// Something of a form.
    Form {
        /// The form.
        name: String,
        /// Which part of it.
        what: OfForm,
    },
    /// The digest of a bundle.
    Bundle(String),
    /// A fact of the machine.
    Environment(String),
    /// Where something was placed.
    Placement(String),
}

/// What of a service is a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OfService {
    /// What it gets.
    Resources,
    /// How it is started, with the arguments of the options that were chosen, or hold by default.
    Command,
    /// Its environment.
    Environment,
    /// The directory that it starts in.
    Directory,
}

/// What of a form is a condition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum OfForm {
    /// Its layers.
    Layers,
    /// How many of each service there are.
    Instances,
    /// The options of its own.
    Options,
    /// The resources of its own.
    Resources,
    /// A fact of what its layers made.
    Fact(String),
}

/// The conditions that a record has once, and that hold no name.
const SINGLE: [Condition; 18] = [
    Condition::Workload,
    Condition::Baseline,
    Condition::Load,
    Condition::Origin,
    Condition::Protocol,
    Condition::Qos,
    Condition::Design,
    Condition::Idle,
    Condition::Settle,
    Condition::SteadyWithin,
    Condition::Measure,
    Condition::Timeout,
    Condition::SearchRules,
    Condition::SearchWindow,
    Condition::SearchWindows,
    Condition::SearchWarm,
    Condition::SearchSettle,
    Condition::Version,
];

impl OfService {
    const ALL: [OfService; 4] =
        [OfService::Resources, OfService::Command, OfService::Environment, OfService::Directory];

    fn key(self) -> &'static str {
        match self {
            OfService::Resources => "resources",
            OfService::Command => "command",
            OfService::Environment => "environment",
            OfService::Directory => "directory",
        }
    }
}

impl OfForm {
    /// What is a form's own, whatever it is made of: with its layers, all that the study says of it.
    pub(crate) const OWN: [OfForm; 4] = [OfForm::Layers, OfForm::Instances, OfForm::Options, OfForm::Resources];

    fn key(&self) -> String {
        match self {
            OfForm::Layers => "layers".to_owned(),
            OfForm::Instances => "instances".to_owned(),
            OfForm::Options => "options".to_owned(),
            OfForm::Resources => "resources".to_owned(),
            OfForm::Fact(name) => format!("fact.{name}"),
        }
    }
}

impl Condition {
    /// Something of a service.
    pub fn of_service(name: &str, what: OfService) -> Condition {
        Condition::Service { name: name.to_owned(), what }
    }

    /// Something of a form.
    pub fn of_form(name: &str, what: OfForm) -> Condition {
        Condition::Form { name: name.to_owned(), what }
    }

    /// By which it is kept: `service.db.resources`. [`Condition::from_key`] reads it back. One that is changed is
    /// unknown to histories that were written before.
    pub fn key(&self) -> String {
        let single = match self {
            Condition::Workload => "workload",
            Condition::Baseline => "baseline",
            Condition::Load => "load",
            Condition::Origin => "origin",
            Condition::Protocol => "protocol",
            Condition::Qos => "qos",
            Condition::Design => "design",
            Condition::Idle => "idle",
            Condition::Settle => "settle",
            Condition::SteadyWithin => "steady-within",
            Condition::Measure => "measure",
            Condition::Timeout => "timeout",
            Condition::SearchRules => "search-rules",
            Condition::SearchWindow => "search-window",
            Condition::SearchWindows => "search-windows",
            Condition::SearchWarm => "search-warm",
            Condition::SearchSettle => "search-settle",
            Condition::Version => "tare",
            Condition::Option(name) => return format!("option.{name}"),
            Condition::Service { name, what } => return format!("service.{}.{}", escaped(name), what.key()),
            Condition::Form { name, what } => return format!("form.{}.{}", escaped(name), what.key()),
            Condition::Bundle(name) => return format!("bundle.{name}"),
            Condition::Environment(name) => return format!("environment.{name}"),
            Condition::Placement(name) => return format!("placement.{name}"),
        };
        single.to_owned()
    }

    /// The condition of a key; none where no condition has it.
    pub fn from_key(key: &str) -> Option<Condition> {
        let Some((kind, rest)) = key.split_once('.') else {
            return SINGLE.into_iter().find(|condition| condition.key() == key);
        };
        // A name that something follows holds no dot.
        let named = || rest.split_once('.').map(|(name, what)| (unescaped(name), what));
        match kind {
            "option" => Some(Condition::Option(rest.to_owned())),
            "bundle" => Some(Condition::Bundle(rest.to_owned())),
            "environment" => Some(Condition::Environment(rest.to_owned())),
            "placement" => Some(Condition::Placement(rest.to_owned())),
            "service" => {
                let (name, what) = named()?;
                let what = OfService::ALL.into_iter().find(|known| known.key() == what)?;
                Some(Condition::Service { name, what })
            }
            "form" => {
                let (name, what) = named()?;
                let fact = what.strip_prefix("fact.").map(|fact| OfForm::Fact(fact.to_owned()));
                let what = fact.or_else(|| OfForm::OWN.into_iter().find(|known| known.key() == what))?;
                Some(Condition::Form { name, what })
            }
            _ => None,
        }
    }

    /// Of which form it is, if it is one's.
    pub(crate) fn form(&self) -> Option<&str> {
        match self {
            Condition::Form { name, .. } => Some(name),
            _ => None,
        }
    }
}

/// A name in the middle of a key: without a dot, which would end it.
fn escaped(name: &str) -> String {
    name.replace('%', "%25").replace('.', "%2E")
}

fn unescaped(name: &str) -> String {
    name.replace("%2E", ".").replace("%25", "%")
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.key())
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Condition, D::Error> {
        let key = String::deserialize(deserializer)?;
        Condition::from_key(&key).ok_or_else(|| D::Error::custom(format!("unknown condition '{key}'")))
    }
}

/// The baseline's form among conditions, as its name.
pub fn baseline_of(conditions: &Conditions) -> Option<String> {
    serde_json::from_str(conditions.get(&Condition::Baseline)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Any condition, with names as nobody would choose them.
    fn any() -> impl Strategy<Value = Condition> {
        let name =
            || prop_oneof!["\\PC*", "[.%2E5, \"]*", Just("fact.resources".to_owned()), Just("%2E.%25".to_owned())];
        let of_form = prop_oneof![proptest::sample::select(OfForm::OWN.to_vec()), name().prop_map(OfForm::Fact),];
        prop_oneof![
            proptest::sample::select(SINGLE.to_vec()),
            name().prop_map(Condition::Option),
            name().prop_map(Condition::Bundle),
            name().prop_map(Condition::Environment),
            name().prop_map(Condition::Placement),
            (name(), proptest::sample::select(OfService::ALL.to_vec()))
                .prop_map(|(name, what)| Condition::Service { name, what }),
            (name(), of_form).prop_map(|(name, what)| Condition::Form { name, what }),
        ]
    }

    proptest! {
        #[test]
        fn a_key_is_read_back_whatever_names_hold(condition in any()) {
            let key = condition.key();
            prop_assert_eq!(Condition::from_key(&key), Some(condition), "{}", key);
        }

        #[test]
        fn conditions_are_read_back_from_json(all in proptest::collection::btree_map(any(), "\\PC*", 0..9)) {
            let read: Conditions = serde_json::from_str(&serde_json::to_string(&all).unwrap()).unwrap();
            prop_assert_eq!(read, all);
        }
    }

    #[test]
    fn keys_are_as_histories_hold_them() {
        for (condition, key) in [
            (Condition::of_service("db", OfService::Resources), "service.db.resources"),
            (Condition::of_form("box", OfForm::Layers), "form.box.layers"),
            (Condition::of_form("box", OfForm::Fact("engine.version".into())), "form.box.fact.engine.version"),
            (Condition::of_form("a.b", OfForm::Options), "form.a%2Eb.options"),
            (Condition::Environment("cpu.model".into()), "environment.cpu.model"),
            (Condition::Option("sync".into()), "option.sync"),
        ] {
            assert_eq!(condition.key(), key);
        }
        let single: BTreeSet<String> = SINGLE.iter().map(Condition::key).collect();
        assert_eq!(single.len(), SINGLE.len(), "each has a key of its own");
        for unknown in ["the baseline", "service db, resources", "service.db.colour", "form.box", "nothing.x", ""] {
            assert_eq!(Condition::from_key(unknown), None, "{unknown}");
        }
    }
}
