//! Reads a profile from YAML: kinds are keys, and every mistake has its place.

use super::behaviour::{SpokenNames, read_behaviour};
use super::pauses::read_pauses;
use super::profile::UserConnections;
use super::{Arrivals, Behaviour, LoadProfile, WarmUp};
use crate::config::{Fields, Node, NodeKind, Problems};
use crate::units::{DURATION_MAX, exact_duration, typed_duration};
use std::path::PathBuf;
use std::time::Duration;

/// More connections than this are a typing mistake.
pub(crate) const CONNECTIONS_MAX: u64 = 1_000_000;
/// More users than this do not fit: each takes some 30 bytes and more.
pub(crate) const USERS_MAX: u64 = 100_000_000;
/// A higher rate than this is a typing mistake, since nothing can start that many, 1/s.
pub(crate) const RATE_MAX: f64 = 1e9;
/// Nobody waits for more steps than this.
const LEVELS_MAX: usize = 10_000;
const KINDS: [&str; 6] = ["closed", "open", "users", "steps", "replay", "peak"];

impl LoadProfile {
    /// Reads a profile. Operations and variables are checked against `names`, unless that has no operations because
    /// they are not known. `None` when anything is wrong; then at least one problem was added.
    pub fn read(node: &Node, names: &SpokenNames, problems: &mut Problems) -> Option<LoadProfile> {
        let before = problems.len();
        let (kind, place, value) = node.kind("load", problems)?;
        let profile = match kind {
            "steps" => read_steps(value, names, problems),
            "replay" => read_replay(value, problems),
            kind => match read_base(kind, value, None, names, problems) {
                Base::Read(profile) => profile,
                Base::Unknown => {
                    Node::unknown(kind, place, "kind of load", &KINDS, problems);
                    None
                }
            },
        };
        profile.filter(|_| problems.len() == before)
    }

    /// Reads a profile whose level is given elsewhere, at most `highest`.
    pub(crate) fn read_leveled(
        node: &Node,
        highest: f64,
        names: &SpokenNames,
        problems: &mut Problems,
    ) -> Option<LoadProfile> {
        let (kind, place, value) = node.kind("what has the levels", problems)?;
        match read_base(kind, value, Some(highest), names, problems) {
            Base::Read(profile) => profile,
            Base::Unknown => {
                Node::unknown(kind, place, "kind of load that has levels", &KINDS[..3], problems);
                None
            }
        }
    }
}

enum Base {
    Read(Option<LoadProfile>),
    Unknown,
}

/// A profile that may have levels. `level` is its highest level, if levels are given elsewhere.
fn read_base(kind: &str, node: &Node, level: Option<f64>, names: &SpokenNames, problems: &mut Problems) -> Base {
    Base::Read(match kind {
        "closed" => read_closed(node, level, problems),
        "open" => read_open(node, level, problems),
        "users" => read_users(node, level, names, problems),
        _ => return Base::Unknown,
    })
}

fn read_closed(node: &Node, level: Option<f64>, problems: &mut Problems) -> Option<LoadProfile> {
    let mut fields = Fields::of(node, "load 'closed'", problems)?;
    let connections = match level {
        None => fields.integer("connections", 1..=CONNECTIONS_MAX, problems).unwrap_or(50) as u32,
        Some(level) => level as u32,
    };
    let pipeline = fields.integer("pipeline", 1..=10_000, problems).unwrap_or(1) as u32;
    fields.finish(problems);
    Some(LoadProfile::Closed { connections, pipeline })
}

fn read_open(node: &Node, level: Option<f64>, problems: &mut Problems) -> Option<LoadProfile> {
    let mut fields = Fields::of(node, "load 'open'", problems)?;
    let rate = match level {
        None => fields.require("rate", problems).and_then(|node| read_rate(node, problems)),
        level => level,
    };
    let arrivals = fields.choice("arrivals", &["constant", "poisson"], problems);
    let connections = fields.integer("connections", 1..=CONNECTIONS_MAX, problems).unwrap_or(50) as u32;
    let in_flight = read_in_flight(&mut fields, problems);
    fields.finish(problems);
    let arrivals = if arrivals == Some("constant") { Arrivals::Constant } else { Arrivals::Poisson };
    Some(LoadProfile::Open { rate: rate?, arrivals, connections, in_flight })
}

fn read_in_flight(fields: &mut Fields<'_>, problems: &mut Problems) -> u32 {
    fields.integer("in_flight", 1..=10_000_000, problems).unwrap_or(10_000) as u32
}

fn read_rate(node: &Node, problems: &mut Problems) -> Option<f64> {
    let rate = node.number(problems)?;
    if rate > 0.0 && rate <= RATE_MAX {
        return Some(rate);
    }
    problems.add(node.place, format!("{rate} operations a second are out of range"), "above 0, at most 1e9");
    None
}

fn read_users(node: &Node, level: Option<f64>, names: &SpokenNames, problems: &mut Problems) -> Option<LoadProfile> {
    let mut fields = Fields::of(node, "load 'users'", problems)?;
    let users = match level {
        None => fields.require("users", problems).and_then(|node| node.integer(1..=USERS_MAX, problems)),
        Some(level) => Some(level as u64),
    };
    let behaviour = match fields.get("behaviour") {
        Some(node) => read_behaviour(node, names, problems),
        None => Some(Behaviour::Mix),
    };
    let pause = read_pauses(&mut fields, None, problems);
    let connections = fields.get("connections").map_or(Some(UserConnections::Own), |n| read_whose(n, problems));
    let ramp = fields.duration("ramp", problems).unwrap_or_default();
    fields.finish(problems);
    let (users, behaviour) = (users? as u32, behaviour?);
    Some(LoadProfile::Users { users, behaviour, pause: pause?, connections: connections?, ramp })
}

fn read_whose(node: &Node, problems: &mut Problems) -> Option<UserConnections> {
    if let NodeKind::Scalar { .. } = node.kind {
        let choice = node.choice(&["own", "fresh"], problems)?;
        return Some(if choice == "own" { UserConnections::Own } else { UserConnections::Fresh });
    }
    let (kind, place, value) = node.kind("users' connections", problems)?;
    if kind != "shared" {
        Node::unknown(kind, place, "kind of users' connections", &["own", "shared", "fresh"], problems);
        return None;
    }
    value.integer(1..=CONNECTIONS_MAX, problems).map(|connections| UserConnections::Shared(connections as u32))
}

fn read_steps(node: &Node, names: &SpokenNames, problems: &mut Problems) -> Option<LoadProfile> {
    let mut fields = Fields::of(node, "load 'steps'", problems)?;
    let levels = fields.require("levels", problems).and_then(|node| read_levels(node, problems));
    let of = fields.require("of", problems);
    let warm_place = fields.get("warm").map_or(node.place, |node| node.place);
    let warm = fields.get("warm").map(|node| read_warm_up(node, problems));
    let ramp = fields.duration("ramp", problems).unwrap_or_default();
    let settle = fields.duration("settle", problems).unwrap_or(Duration::from_secs(3));
    let measure_place = fields.get("measure").map_or(node.place, |node| node.place);
    let measure = fields.duration("measure", problems).unwrap_or(Duration::from_secs(10));
    fields.finish(problems);
    if measure.is_zero() {
        problems.add(measure_place, "a time of 0 s measures nothing", "write for example 10s");
    }
    let hold = warm.flatten().map_or(Duration::ZERO, |warm| ramp + warm.hold);
    let span = hold + (ramp + settle + measure) * levels.as_ref().map_or(0, |levels| levels.len() as u32);
    if span > DURATION_MAX {
        let message = format!("the levels take {} in all", exact_duration(span));
        problems.add(node.place, message, format!("at most {}", typed_duration(DURATION_MAX)));
    }
    let (_, place, _) = of?.kind("what has the levels", problems)?;
    let highest = levels.as_ref()?.iter().copied().fold(0.0, f64::max);
    let of = LoadProfile::read_leveled(of?, highest, names, problems)?;
    let warm = warm.flatten();
    if warm.is_some_and(|warm| warm.level > highest) {
        problems.add(
            warm_place,
            "the warm-up level is above all levels",
            "choose one that the service can keep up with",
        );
    }
    let warm_level = warm.iter().map(|warm| warm.level);
    if let (LoadProfile::Closed { .. } | LoadProfile::Users { .. }, Some(levels)) = (&of, &levels)
        && (levels.iter().copied().chain(warm_level).any(|level| level.fract() != 0.0) || highest > USERS_MAX as f64)
    {
        let kind = if matches!(of, LoadProfile::Users { .. }) { "users" } else { "closed" };
        problems.add(place, format!("levels of '{kind}' are whole numbers"), "at most 100 million");
    }
    Some(LoadProfile::Steps { of: Box::new(of), levels: levels?, warm, ramp, settle, measure })
}

fn read_warm_up(node: &Node, problems: &mut Problems) -> Option<WarmUp> {
    let mut fields = Fields::of(node, "'warm'", problems)?;
    let level = fields.require("level", problems).and_then(|node| read_rate(node, problems));
    let hold = fields.require("for", problems).and_then(|node| node.duration(problems));
    fields.finish(problems);
    Some(WarmUp { level: level?, hold: hold? })
}

fn read_levels(node: &Node, problems: &mut Problems) -> Option<Vec<f64>> {
    let items = node.items(problems)?;
    if items.is_empty() || items.len() > LEVELS_MAX {
        problems.add(node.place, format!("there are {} levels", items.len()), "from 1 to 10000");
        return None;
    }
    Some(items.iter().filter_map(|item| read_rate(item, problems)).collect())
}

fn read_replay(node: &Node, problems: &mut Problems) -> Option<LoadProfile> {
    let mut fields = Fields::of(node, "load 'replay'", problems)?;
    let file = fields.require_text("file", problems).map(PathBuf::from);
    let connections = fields.integer("connections", 1..=CONNECTIONS_MAX, problems).unwrap_or(50) as u32;
    let in_flight = read_in_flight(&mut fields, problems);
    let speed = fields.get("speed").map_or(Some(1.0), |node| {
        let speed = node.number(problems)?;
        if !(1e-6..=1e6).contains(&speed) {
            problems.add(node.place, format!("{speed} is no speed"), "1 is as written, 2 twice as fast");
        }
        Some(speed)
    });
    fields.finish(problems);
    Some(LoadProfile::Replay { file: file?, connections, in_flight, speed: speed? })
}

#[cfg(test)]
mod tests {
    use super::super::{Distribution, Pause};
    use super::*;
    use crate::config;

    fn read(text: &str) -> Result<LoadProfile, Vec<String>> {
        let words = |words: [&str; 2]| words.map(str::to_owned).to_vec();
        let names = SpokenNames {
            operations: words(["get", "set"]),
            variables: words(["key", "state"]),
            behaviours: [("calm".to_owned(), Behaviour::Sequence(vec!["get".to_owned()]))].into(),
        };
        let read = config::read("s.yaml", text, |node, problems| LoadProfile::read(node, &names, problems));
        read.map_err(|told| told.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn kinds_are_keys_and_defaults_are_filled_in() {
        assert_eq!(read("closed: {}"), Ok(LoadProfile::Closed { connections: 50, pipeline: 1 }));
        let open = LoadProfile::Open { rate: 1e3, arrivals: Arrivals::Poisson, connections: 50, in_flight: 10_000 };
        assert_eq!(read("open: {rate: 1000}"), Ok(open.clone()));
        let seconds = Duration::from_secs;
        let users = |pause, connections| LoadProfile::Users {
            users: 9,
            behaviour: Behaviour::Mix,
            pause,
            connections,
            ramp: Duration::ZERO,
        };
        let think = Pause::Think(Distribution::Constant(seconds(1)));
        assert_eq!(read("users: {users: 9, think: 1s}"), Ok(users(think, UserConnections::Own)));
        let cycle = Pause::Cycle(Distribution::Exponential { mean: seconds(7), max: seconds(70) });
        let text = "users: {users: 9, cycle: {exponential: {mean: 7s}}, connections: {shared: 4}}";
        assert_eq!(read(text), Ok(users(cycle, UserConnections::Shared(4))));
        let steps = read("steps: {of: {open: {}}, levels: [500, 1000], ramp: 1s, measure: 5s}").unwrap();
        assert_eq!(steps.span(), Some(seconds(18)));
        assert_eq!(steps.base(), &open, "the highest level is its rate");
        let warmed = "steps: {of: {open: {}}, levels: [500, 1000], warm: {level: 800, for: 4s}, ramp: 1s, measure: 5s}";
        let warmed = read(warmed).unwrap();
        assert_eq!(warmed.span(), Some(seconds(23)), "the way to its level is as long as to any other");
        let words = warmed.describe();
        assert!(words.starts_with("steps of 5 s each: 500, 1,000, after 4 s at 800; open load"), "{words}");
        let replay = read("replay: {file: a.txt, speed: 2}").unwrap();
        assert!(matches!(replay, LoadProfile::Replay { speed: 2.0, .. }));
    }

    #[test]
    fn a_profile_survives_json() {
        let texts = [
            "users: {users: 2, think: {normal: {mean: 1s, sd: 100ms}}, behaviour: {sequence: [get, get, set]}}",
            "users: {users: 2, think: 0s, behaviour: {markov: {start: get, next: {get: {set: 1}, set: {get: 0.5}}}}}",
            "users: {users: 2, think: 0s, behaviour: {markov: {start: get, next: {set: {get: 1}, \
             get: [{when: {state: [sold, open]}, unless: key, to: {set: 1}}, {to: {get: 1}}]}}}}",
            "users: {users: 2, think: 0s, behaviour: {markov: {start: get, restarts: true, next: {get: [{unless: {poll: [2, 3]}, \
             to: {get: 1}}, {when: {key: {same: state}}, to: {get: 1}}, {when: {key: {at_most: 9.5}}, to: {get: 2}}, \
             {to: {get: 1}}]}, companions: {poll: {after: [get], at_most: 3, until: {set: newest}, start: set, \
             tells: {key: state}, next: {set: [{when: {state: sold}, to: end}, {when: {poll: 3}, to: end}, \
             {to: {set: 1}}]}}}}}}",
            "steps: {of: {users: {cycle: {uniform: {max: 2s}}}}, levels: [5]}",
        ];
        for text in texts {
            let profile = read(text).unwrap();
            let json = serde_json::to_string(&profile).unwrap();
            assert_eq!(serde_json::from_str::<LoadProfile>(&json).unwrap(), profile, "{json}");
        }
    }

    /// Each text is refused, at this place, with this in the message or the hint.
    fn expect_found(cases: &[(&str, &str, &str)]) {
        for (text, place, message) in cases {
            let found = read(text).unwrap_err();
            let place = format!("s.yaml:{place}\n");
            assert!(found.iter().any(|f| f.contains(&place) && f.contains(message)), "{text}: {found:#?}");
        }
    }

    #[test]
    fn every_mistake_of_steps_has_its_place() {
        expect_found(&[
            ("steps: {of: {replay: {}}, levels: [1]}", "1:14", "closed, open, users"),
            ("steps: {of: {closed: {}}, levels: [1.5]}", "1:14", "whole numbers"),
            ("steps: {of: {open: {rate: 3}}, levels: [1]}", "1:21", "no field 'rate'"),
            ("steps: {of: {open: {}}, levels: [1], warm: {level: 2, for: 1s}}", "1:44", "above all levels"),
            ("steps: {of: {closed: {}}, levels: [2], warm: {level: 1.5, for: 1s}}", "1:14", "whole numbers"),
            ("steps: {of: {closed: {}}, levels: [2], warm: {level: 1}}", "1:46", "'for'"),
        ]);
    }

    #[test]
    fn every_mistake_has_its_place() {
        let cases = [
            ("opne: {}", "1:1", "did you mean 'open'"),
            ("open: {rate: 0}", "1:14", "above 0"),
            ("open: {rate: 5, arrivals: even}", "1:27", "constant, poisson"),
            ("open: {}", "1:7", "add 'rate:'"),
            ("users: {users: 5}", "1:8", "think: 1s"),
            ("users: {users: 5, think: 1s, cycle: 2s}", "1:37", "keep one"),
            ("users: {users: 5, cycle: 0s}", "1:26", "without end"),
            ("users: {users: 5, think: {gamma: {}}}", "1:27", "no distribution 'gamma'"),
            ("users: {users: 5, think: {uniform: {min: 2s, max: 1s}}}", "1:36", "raise 'max'"),
            ("users: {users: 5, think: 1s, behaviour: {sequence: [gte]}}", "1:53", "did you mean 'get'"),
            (
                "users: {users: 5, think: 1s, behaviour: {markov: {start: x, next: {get: {get: 1}}}}}",
                "1:58",
                "no row of the matrix 'x'",
            ),
            (
                "users: {users: 5, think: 1s, behaviour: {markov: {start: get, next: {get: {set: 1}}}}}",
                "1:76",
                "no row of the matrix 'set'",
            ),
            (
                "users: {users: 5, think: 1s, behaviour: {markov: {start: get, next: {get: \
                 [{when: stat, to: {get: 1}}, {to: {get: 1}}]}}}}",
                "1:83",
                "did you mean 'state'",
            ),
            (
                "users: {users: 5, think: 1s, behaviour: {markov: {start: get, next: {get: \
                 [{when: key, to: {get: 1}}]}}}}",
                "1:76",
                "end with '- {to: {...}}'",
            ),
            (
                "users: {users: 5, think: 1s, behaviour: {markov: {start: get, next: {get: \
                 [{to: {get: 1}}, {to: {get: 1}}]}}}}",
                "1:76",
                "nothing behind this is ever chosen",
            ),
            ("users: {users: 5, think: 1s, behaviour: clam}", "1:41", "did you mean 'calm'"),
            (
                "users: {users: 5, think: 1s, behaviour: {markov: {start: get, next: {get: end}}}}",
                "1:75",
                "must be a map",
            ),
            (
                "users: {users: 5, think: 1s, behaviour: {markov: {start: get, next: {get: {get: 1}}, companions: \
                 {key: {after: gte, at_most: 99, until: {set: no}, start: set, tells: {x: key}, next: {set: end}}}}}}",
                "1:112",
                "did you mean 'get'",
            ),
            (
                "users: {users: 5, think: 1s, behaviour: {markov: {start: get, next: {get: {get: 1}}, companions: \
                 {key: {after: get, start: set, next: {set: end}}}}}}",
                "1:99",
                "already the name of a value",
            ),
            ("users: {users: 5, think: 1s, connections: {shard: 4}}", "1:44", "did you mean 'shared'"),
            ("replay: {speed: 0}", "1:17", "no speed"),
        ];
        expect_found(&cases);
    }
}
