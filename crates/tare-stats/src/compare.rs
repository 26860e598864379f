//! Two records side by side: whether a form's cost changed from one run to the other, and what else did.

use crate::analysis::{Analysis, Interval, Ratio};
use crate::condition;
use crate::occasion::{Occasions, error_of_change};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tare_core::qos::Qos;
use tare_core::record::Header;
use tare_core::study::Study;
use tare_core::units::exact_duration;

/// How a form's ratio to its own baseline changed between two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The form.
    pub form: String,
    /// The metric's name.
    pub metric: String,
    /// The metric's title.
    pub title: String,
    /// The ratio in the first run.
    pub before: Ratio,
    /// The ratio in the second run.
    pub after: Ratio,
    /// The second ratio over the first.
    pub change: f64,
    /// Its 95 % interval (Welch: the two runs are independent), for this pair alone, with what occasions add as far as
    /// it is known. None if either run had none, or a ratio that is only a bound.
    pub interval: Option<Interval>,
    /// Standard error of the change's log.
    pub standard_error: Option<f64>,
    /// Its degrees of freedom: Student's t with so many makes the interval.
    pub degrees: Option<f64>,
    /// The standard deviation that occasions add to each of the two runs, log scale, as far as it is known: then it is
    /// in the error and the interval.
    pub occasions: Option<f64>,
}

/// The changes of every form and compared metric that both analyses have a ratio of, in the order of `before`.
/// `occasions` is what the machine's A/A controls teach of how far apart two runs lie; where it has nothing of a
/// metric, intervals leave that out.
pub fn changes(before: &Analysis, after: &Analysis, occasions: &Occasions) -> Vec<Change> {
    let mut changes = Vec::new();
    for metric in before.metrics.iter().filter(|metric| metric.compared) {
        let Some(other) = after.metrics.iter().find(|other| other.name == metric.name) else { continue };
        for first in &metric.ratios {
            let Some(second) = other.ratios.iter().find(|second| second.arm == first.arm) else { continue };
            let log = second.ratio.ln() - first.ratio.ln();
            let known = first.bound.is_none() && second.bound.is_none();
            let occasion = occasions.get(&metric.name);
            let error = error_of_change(first, second, occasion).filter(|_| known);
            let half = error.map(|error| error.half_width);
            changes.push(Change {
                form: first.arm.clone(),
                metric: metric.name.clone(),
                title: metric.title.clone(),
                before: first.clone(),
                after: second.clone(),
                change: log.exp(),
                interval: half.map(|half| Interval { low: (log - half).exp(), high: (log + half).exp() }),
                standard_error: error.map(|error| error.standard_error),
                degrees: error.map(|error| error.degrees),
                occasions: occasion.map(|occasion| occasion.deviation),
            });
        }
    }
    changes
}

/// Facts that always differ and mean nothing.
const FLEETING: &[&str] = &["uptime_s", "load_average"];

/// As JSON, plain texts without quotes.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default().trim_matches('"').to_owned()
}

/// How the study measured: what it asked for, how it searched, in which design and for how long.
fn arrangement(study: &Study) -> Vec<(&'static str, String)> {
    let within = study.design.steady_within.map(|within| format!(" until steady, {} at most", exact_duration(within)));
    let mut all = vec![
        ("the QoS", study.qos.as_ref().map_or_else(|| "none".to_owned(), Qos::describe)),
        (condition::DESIGN, json(&study.design.arrangement)),
        (condition::SETTLE, exact_duration(study.settle) + &within.unwrap_or_default()),
        (condition::MEASURE, exact_duration(study.measure)),
        ("the time that an operation may take", exact_duration(study.timeout)),
    ];
    if let Some(plan) = &study.peak {
        all.extend([
            (condition::SEARCH_RULES, json(&plan.rules)),
            (condition::SEARCH_WINDOW, exact_duration(plan.window)),
            ("the search's number of windows", plan.windows.to_string()),
            ("the search's time to warm up", exact_duration(plan.warm)),
            ("the search's time to settle", exact_duration(plan.settle)),
        ]);
    }
    all
}

/// What a record was made under, and so may explain why it differs from another: software, hardware, load, forms,
/// services, QoS, design and times.
pub fn conditions(header: &Header) -> BTreeMap<String, String> {
    let study = &header.study;
    let mut all: BTreeMap<String, String> = [
        (condition::WORKLOAD, header.workload.name.clone()),
        (condition::BASELINE, study.baseline.clone()),
        (condition::LOAD, json(&study.load)),
        (condition::ORIGIN, json(&study.from)),
        (condition::PROTOCOL, json(&header.workload.protocol)),
        ("the version of Tare", header.tare.clone()),
    ]
    .map(|(what, value)| (what.to_owned(), value))
    .into();
    all.extend(arrangement(study).into_iter().map(|(what, value)| (what.to_owned(), value)));
    for service in &study.resolved(&header.workload).services {
        let name = &service.name;
        all.insert(condition::of_service(name, condition::RESOURCES), json(&service.resources));
        // With the arguments of the options that were chosen, or hold by default.
        all.insert(condition::of_service(name, "command"), service.command.join(" "));
        all.insert(condition::of_service(name, "environment"), json(&service.environment));
        all.extend(service.directory.iter().map(|path| (condition::of_service(name, "directory"), path.clone())));
    }
    all.extend(study.options.iter().map(|(option, level)| (condition::option(option), level.clone())));
    for (what, facts) in
        [("bundle", &header.bundles), ("environment", &header.environment), ("placement", &header.placement)]
    {
        let lasting = facts.iter().filter(|(key, _)| !FLEETING.contains(&key.as_str()));
        all.extend(lasting.map(|(key, value)| (format!("{what} {key}"), value.clone())));
    }
    for form in &study.forms {
        all.insert(condition::form(&form.name), json(&form.layers));
        all.insert(condition::of_form(&form.name, condition::INSTANCES), json(&form.instances.over(&study.instances)));
        let told =
            form.options.iter().map(|(option, level)| format!("{option}={level}")).collect::<Vec<_>>().join(", ");
        for (what, own) in [(condition::OPTIONS, told), (condition::RESOURCES, form.resources.words().join(", "))] {
            if !own.is_empty() {
                all.insert(condition::of_form(&form.name, what), own);
            }
        }
        let facts = header.forms.get(&form.name).into_iter().flat_map(|state| &state.facts);
        all.extend(facts.map(|(key, value)| (condition::of_form(&form.name, key), value.clone())));
    }
    all
}

/// Something that differs between two records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What.
    pub what: String,
    /// What it was in the first; "absent" when it was not there.
    pub before: String,
    /// What it is in the second.
    pub after: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} | {}", self.what, self.before, self.after)
    }
}

/// What differs between two lists of conditions. A form that only one of the records had differs in nothing else.
pub fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<Difference> {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let lone = |key: &str| {
        condition::form_of(key).is_some_and(|form| {
            let form = condition::form(form);
            before.contains_key(&form) != after.contains_key(&form)
        })
    };
    let value = |of: &BTreeMap<String, String>, key: &str| of.get(key).cloned().unwrap_or_else(|| "absent".to_owned());
    let found = keys.into_iter().filter(|key| before.get(*key) != after.get(*key) && !lone(key));
    found.map(|key| Difference { what: key.clone(), before: value(before, key), after: value(after, key) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Verdict;
    use crate::family::tests::Noise;
    use crate::paired::sd;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn ratio(values: &[f64]) -> Ratio {
        let n = values.len() as f64;
        Ratio {
            interval: Some(Interval { low: 0.0, high: 2.0 }),
            standard_error: Some(sd(values).unwrap() / n.sqrt()),
            degrees: Some(n - 1.0),
            ..Ratio::of_box((values.iter().sum::<f64>() / n).exp(), values.len() as u32, Verdict::NoDifference)
        }
    }

    // 2000 pairs of runs at 95 % have a standard error of 0.5 %.
    #[test]
    fn intervals_of_a_change_hold_the_truth_also_when_runs_differ_in_length_and_noise() {
        const PAIRS: u32 = 2_000;
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(31));
        for (blocks, spread) in [((5, 5), (0.01, 0.01)), ((4, 16), (0.02, 0.005)), ((12, 5), (0.003, 0.02))] {
            let mut held = 0;
            for _ in 0..PAIRS {
                let mut run = |blocks: u32, spread: f64, truth: f64| -> Vec<f64> {
                    (0..blocks).map(|_| truth + spread * noise.normal()).collect()
                };
                let before = ratio(&run(blocks.0, spread.0, -0.1));
                let after = ratio(&run(blocks.1, spread.1, -0.13));
                let error = error_of_change(&before, &after, None).unwrap();
                let off = after.ratio.ln() - before.ratio.ln() + 0.03;
                held += u32::from(off.abs() <= error.half_width);
            }
            let share = f64::from(held) / f64::from(PAIRS);
            assert!((0.93..=0.975).contains(&share), "{blocks:?} blocks, noise {spread:?}: {share}");
        }
    }

    /// A header as a file would hold it, with some of its parts replaced.
    fn header(replaced: &[(&str, serde_json::Value)]) -> Header {
        let duration = |secs: u64| serde_json::json!({ "secs": secs, "nanos": 0 });
        let study = serde_json::json!({
            "name": "s", "question": "", "workload": "w", "baseline": "plain", "repeat": 5, "at_most": null,
            "from": "outside", "load": {"closed": {"connections": 1, "pipeline": 1}}, "settle": duration(3),
            "measure": duration(10), "timeout": duration(10), "emulated_blocks": 1, "forms": [], "options": {},
            "qos": {"operations": {"get": [{"quantile": 0.99, "within": {"secs": 0, "nanos": 500_000}}]}}, "seed": 1,
        });
        let peak = serde_json::json!({
            "rules": "staircase", "unit": "users", "whole": true, "start": 10.0, "hint": null, "at_least": 1.0,
            "at_most": 100.0, "warm": duration(90), "settle": duration(3), "window": duration(15), "windows": 48,
            "half_width": null, "budget": null,
        });
        let service = serde_json::json!({
            "name": "db", "recipe": {"source": {"packages": ["db"]}, "files": []}, "command": ["/db", "--sync"],
            "environment": {}, "user": [1, 1], "ports": {"main": 1}, "volumes": {}, "stop_within": duration(1),
            "ready": {"port": {"port": "main", "within": duration(1)}}, "options": {},
            "resources": {"cpus": 1, "cpu_quota": null, "memory_bytes": 1024},
        });
        let protocol = serde_json::json!({"protocol": "p", "service": "db", "port": "main", "options": {"keys": 1000}});
        let mut whole = serde_json::json!({
            "schema": 1, "tare": "0", "run": "r", "started": "", "command": "", "seed": 1, "plan": [], "forms": {},
            "environment": {}, "bundles": {}, "placement": {}, "study": study,
            "workload": {"name": "w", "about": "", "protocol": protocol, "services": [service]},
        });
        whole["study"]["peak"] = peak;
        for (place, value) in replaced {
            *whole.pointer_mut(place).unwrap_or_else(|| panic!("{place} is there")) = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn everything_that_decides_a_figure_is_a_condition() {
        let before = conditions(&header(&[]));
        assert_eq!(differences(&before, &conditions(&header(&[]))), []);
        let number = |n: u64| serde_json::json!(n);
        for (place, value, wanted) in [
            ("/study/qos/operations/get/0/within/nanos", number(250_000), "the QoS: get p99 within 0.5 ms"),
            ("/study/peak/rules", serde_json::json!("published"), "the search's rules: staircase | published"),
            ("/study/peak/window/secs", number(30), "the search's window: 15 s | 30 s"),
            ("/study/peak/windows", number(24), "the search's number of windows: 48 | 24"),
            ("/study/settle/secs", number(4), "the time to settle: 3 s | 4 s"),
            ("/study/measure/secs", number(20), "the time measured: 10 s | 20 s"),
            ("/study/timeout/secs", number(1), "the time that an operation may take: 10 s | 1 s"),
            ("/study/options", serde_json::json!({"sync": "off"}), "option sync: absent | off"),
            (
                "/workload/services/0/command/1",
                serde_json::json!("--lazy"),
                "service db, command: /db --sync | /db --lazy",
            ),
            ("/workload/services/0/resources/cpus", number(2), "service db, resources: "),
            ("/workload/services/0/environment", serde_json::json!({"A": "1"}), "service db, environment: "),
            ("/workload/protocol/options/keys", number(9), "the protocol: "),
        ] {
            let found = differences(&before, &conditions(&header(&[(place, value)])));
            assert!(found.len() == 1 && found[0].to_string().starts_with(wanted), "{wanted}: {found:?}");
        }
        let mut duet = header(&[]);
        duet.study.design.arrangement = tare_core::design::Arrangement::Duet;
        assert_eq!(differences(&before, &conditions(&duet))[0].to_string(), "the design: blocks | duet");
        let searched_none = conditions(&header(&[("/study/peak", serde_json::Value::Null)]));
        assert!(!searched_none.keys().any(|what| what.starts_with("the search's")), "{searched_none:?}");
    }

    #[test]
    fn what_is_a_forms_own_and_what_services_are_told_are_conditions() {
        let levels = serde_json::json!({"sync": {"default": "on", "levels": {"on": [], "off": ["--no-sync"]}}});
        let made = |forms: serde_json::Value, level: &str| {
            let options = serde_json::json!({"sync": level});
            let parts = [
                ("/study/forms", forms),
                ("/study/options", options),
                ("/workload/services/0/options", levels.clone()),
            ];
            conditions(&header(&parts))
        };
        let form = |options: serde_json::Value, resources: serde_json::Value| {
            let form = serde_json::json!({"name": "a", "layers": [], "options": options, "resources": resources});
            serde_json::json!([form])
        };
        let nothing = || serde_json::json!({});
        let before = made(form(nothing(), nothing()), "on");
        let said = |after| differences(&before, &after).iter().map(ToString::to_string).collect::<Vec<_>>();
        let own = form(serde_json::json!({"sync": "off"}), serde_json::json!({"memory_bytes": 100_663_296}));
        assert_eq!(
            said(made(own, "on")),
            ["form a, options: absent | sync=off", "form a, resources: absent | memory=96 MiB"]
        );
        let told = said(made(form(nothing(), nothing()), "off"));
        assert_eq!(told, ["option sync: on | off", "service db, command: /db --sync | /db --sync --no-sync"]);
    }

    #[test]
    fn what_differs_is_named_and_lone_forms_are_not() {
        let conditions = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(what, value)| ((*what).to_owned(), (*value).to_owned())).collect()
        };
        let before =
            conditions(&[("environment kernel", "6.1"), ("form box", "[]"), ("form box, engine.version", "26")]);
        let after = conditions(&[("environment kernel", "6.12"), ("bundle redis", "sha256:1")]);
        let found: Vec<String> = differences(&before, &after).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["bundle redis: absent | sha256:1", "environment kernel: 6.1 | 6.12"]);
    }
}
