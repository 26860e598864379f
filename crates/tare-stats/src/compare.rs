//! Two records side by side: whether a form's cost changed from one run to the other, and what else did.

use crate::analysis::Analysis;
use crate::condition::{Condition, Conditions, OfForm, OfService};
use crate::family::CONFIDENCE;
use crate::interval::Interval;
use crate::occasion::{ChangeError, Occasions, error_of_change};
use crate::ratios::{MetricAnalysis, Ratio};
use serde::Serialize;
use std::collections::BTreeSet;
use tare_core::design::Idle;
use tare_core::record::Header;
use tare_core::study::Study;

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
    /// it is known. None if either ratio has none, is only a bound, or has its verdict withheld.
    pub interval: Option<Interval>,
    /// The same for all changes together: with 95 % probability every one of these holds the truth (Šidák).
    pub together: Option<Interval>,
    /// Standard error of the change's log.
    pub standard_error: Option<f64>,
    /// Its degrees of freedom: Student's t with so many makes the interval.
    pub degrees: Option<f64>,
    /// The standard deviation that occasions add to each of the two runs, log scale, as far as it is known: then it is
    /// in the error and the interval.
    pub occasions: Option<f64>,
}

/// The ratios of a form in one metric in two runs.
struct RatioPair<'a> {
    metric: &'a MetricAnalysis,
    before: &'a Ratio,
    after: &'a Ratio,
}

impl RatioPair<'_> {
    fn change(&self, together: f64, occasions: &Occasions) -> Change {
        let log = self.after.ratio.ln() - self.before.ratio.ln();
        let around =
            |error: ChangeError| Interval { low: (log - error.half_width).exp(), high: (log + error.half_width).exp() };
        let error = self.error(CONFIDENCE, occasions);
        Change {
            form: self.before.arm.clone(),
            metric: self.metric.name.clone(),
            title: self.metric.title.clone(),
            before: self.before.clone(),
            after: self.after.clone(),
            change: log.exp(),
            interval: error.map(around),
            together: self.error(together, occasions).map(around),
            standard_error: error.map(|error| error.standard_error),
            degrees: error.map(|error| error.degrees),
            occasions: occasions.get(&self.metric.name).map(|occasion| occasion.deviation),
        }
    }

    fn error(&self, confidence: f64, occasions: &Occasions) -> Option<ChangeError> {
        error_of_change(self.before, self.after, occasions.get(&self.metric.name), confidence)
    }
}

/// The changes of every form and compared metric that both analyses have a ratio of, in the order of `before`.
/// `occasions` is what the machine's A/A controls teach of how far apart two runs lie; where it has nothing of a
/// metric, intervals leave that out.
pub fn changes(before: &Analysis, after: &Analysis, occasions: &Occasions) -> Vec<Change> {
    changes_from(before, &[(after, occasions)]).into_iter().flatten().collect()
}

/// The changes from one run to each of several others, a list for each of them, as [`changes`] has them for two. The
/// intervals of all lists hold the truth together: the level is shared out over all of them (Šidák).
pub fn changes_from(reference: &Analysis, others: &[(&Analysis, &Occasions)]) -> Vec<Vec<Change>> {
    let all: Vec<(Vec<RatioPair<'_>>, &Occasions)> =
        others.iter().map(|(other, occasions)| (pairs(reference, other), *occasions)).collect();
    let has_interval = |pair: &RatioPair<'_>, occasions: &Occasions| pair.error(CONFIDENCE, occasions).is_some();
    let judged: usize =
        all.iter().map(|(pairs, occasions)| pairs.iter().filter(|pair| has_interval(pair, occasions)).count()).sum();
    let level = shared_level(judged);
    let changes = |(pairs, occasions): &(Vec<RatioPair<'_>>, &Occasions)| -> Vec<Change> {
        pairs.iter().map(|pair| pair.change(level, occasions)).collect()
    };
    all.iter().map(changes).collect()
}

/// The level of each of so many intervals that are to hold the truth together. As forms of one run share the level out,
/// so do changes. Pairs share baselines, trials and the run they are compared with: that makes it more, not less.
fn shared_level(judged: usize) -> f64 {
    CONFIDENCE.powf(1.0 / judged.max(1) as f64)
}

/// The ratios that two analyses have both.
fn pairs<'a>(before: &'a Analysis, after: &'a Analysis) -> Vec<RatioPair<'a>> {
    let mut pairs = Vec::new();
    for metric in before.metrics.iter().filter(|metric| metric.compared) {
        let Some(other) = after.metrics.iter().find(|other| other.name == metric.name) else { continue };
        for first in &metric.ratios {
            let Some(second) = other.ratios.iter().find(|second| second.arm == first.arm) else { continue };
            pairs.push(RatioPair { metric, before: first, after: second });
        }
    }
    pairs
}

/// Facts that always differ and mean nothing.
const FLEETING: &[&str] = &["uptime_s", "load_average"];

/// What is the same is written the same.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// How the study measured: what it asked for, how it searched, in which design and for how long.
fn arrangement(study: &Study) -> Conditions {
    let mut all = Conditions::from([
        (Condition::Qos, json(&study.qos)),
        (Condition::Design, json(&study.design.arrangement)),
        (Condition::Settle, json(&study.settle)),
        (Condition::SteadyWithin, json(&study.design.steady_within)),
        (Condition::Measure, json(&study.measure)),
        (Condition::Timeout, json(&study.timeout)),
    ]);
    if study.design.idle != Idle::Any {
        all.insert(Condition::Idle, json(&study.design.idle));
    }
    if let Some(plan) = &study.peak {
        all.extend([
            (Condition::SearchRules, json(&plan.rules)),
            (Condition::SearchWindow, json(&plan.window)),
            (Condition::SearchWindows, json(&plan.windows)),
            (Condition::SearchWarm, json(&plan.warm)),
            (Condition::SearchSettle, json(&plan.settle)),
        ]);
    }
    all
}

/// What a record was made under, and so may explain why it differs from another: software, hardware, load, forms,
/// services, QoS, design and times.
pub fn conditions(header: &Header) -> Conditions {
    let study = &header.study;
    let mut all = arrangement(study);
    all.extend([
        (Condition::Workload, json(&header.workload.name)),
        (Condition::Baseline, json(&study.baseline)),
        (Condition::Load, json(&study.load)),
        (Condition::Origin, json(&study.from)),
        (Condition::Protocol, json(&header.workload.protocol)),
        (Condition::Version, json(&header.tare)),
    ]);
    for service in &study.resolved(&header.workload).services {
        let of = |what| Condition::of_service(&service.name, what);
        all.insert(of(OfService::Resources), json(&service.resources));
        // With the arguments of the options that were chosen, or hold by default.
        all.insert(of(OfService::Command), json(&service.command));
        all.insert(of(OfService::Environment), json(&service.environment));
        all.extend(service.directory.iter().map(|path| (of(OfService::Directory), json(path))));
    }
    all.extend(study.options.iter().map(|(option, level)| (Condition::Option(option.clone()), json(level))));
    let lasting = header.environment.iter().filter(|(key, _)| !FLEETING.contains(&key.as_str()));
    all.extend(lasting.map(|(key, value)| (Condition::Environment(key.clone()), json(value))));
    all.extend(header.bundles.iter().map(|(key, value)| (Condition::Bundle(key.clone()), json(value))));
    all.extend(header.placement.iter().map(|(key, value)| (Condition::Placement(key.clone()), json(value))));
    for form in &study.forms {
        let of = |what| Condition::of_form(&form.name, what);
        all.insert(of(OfForm::Layers), json(&form.layers));
        all.insert(of(OfForm::Instances), json(&form.instances.over(&study.instances)));
        if !form.options.is_empty() {
            all.insert(of(OfForm::Options), json(&form.options));
        }
        if !form.resources.is_empty() {
            all.insert(of(OfForm::Resources), json(&form.resources));
        }
        let facts = header.forms.get(&form.name).into_iter().flat_map(|state| &state.facts);
        all.extend(facts.map(|(key, value)| (of(OfForm::Fact(key.clone())), json(value))));
    }
    all
}

/// Something that differs between two records. Its words are made in reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What.
    pub condition: Condition,
    /// What it was in the first, as JSON; none when it was not there.
    pub before: Option<String>,
    /// What it is in the second.
    pub after: Option<String>,
}

/// What differs between two lists of conditions. A form that only one of the records had differs in nothing else.
pub fn differences(before: &Conditions, after: &Conditions) -> Vec<Difference> {
    let all: BTreeSet<&Condition> = before.keys().chain(after.keys()).collect();
    let lone = |condition: &Condition| {
        condition.form().is_some_and(|form| {
            let form = Condition::of_form(form, OfForm::Layers);
            before.contains_key(&form) != after.contains_key(&form)
        })
    };
    let of = |condition: &Condition| {
        let [before, after] = [before, after].map(|conditions| conditions.get(condition).cloned());
        Difference { condition: condition.clone(), before, after }
    };
    let found = all.into_iter().filter(|condition| !lone(condition)).map(of);
    found.filter(|difference| difference.before != difference.after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::{Bound, BoundCause, Side};
    use crate::family::tests::Noise;
    use crate::occasion::are_alike;
    use crate::paired::sd;
    use crate::verdict::{Verdict, Withheld};
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
                let error = error_of_change(&before, &after, None, CONFIDENCE).unwrap();
                let off = after.ratio.ln() - before.ratio.ln() + 0.03;
                held += u32::from(off.abs() <= error.half_width);
            }
            let share = f64::from(held) / f64::from(PAIRS);
            assert!((0.93..=0.975).contains(&share), "{blocks:?} blocks, noise {spread:?}: {share}");
        }
    }

    #[test]
    fn intervals_of_changes_from_one_run_hold_together_for_all_others() {
        const COMPARISONS: u32 = 1_000;
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(77));
        for others in [2, 5] {
            let mut held = 0;
            for _ in 0..COMPARISONS {
                let mut run = || ratio(&(0..6).map(|_| 0.01 * noise.normal()).collect::<Vec<_>>());
                let reference = run();
                let holds = |other: &Ratio| {
                    let error = error_of_change(&reference, other, None, shared_level(others)).unwrap();
                    (other.ratio.ln() - reference.ratio.ln()).abs() <= error.half_width
                };
                let all: Vec<Ratio> = (0..others).map(|_| run()).collect();
                held += u32::from(all.iter().all(holds));
            }
            let share = f64::from(held) / f64::from(COMPARISONS);
            // That they share the reference makes it more.
            assert!((0.93..=0.99).contains(&share), "{others} others: {share}");
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
        for (place, value, key) in [
            ("/study/qos/operations/get/0/within/nanos", number(250_000), "qos"),
            ("/study/peak/rules", serde_json::json!("published"), "search-rules"),
            ("/study/peak/window/secs", number(30), "search-window"),
            ("/study/peak/windows", number(24), "search-windows"),
            ("/study/peak/warm/secs", number(9), "search-warm"),
            ("/study/peak/settle/secs", number(9), "search-settle"),
            ("/study/settle/secs", number(4), "settle"),
            ("/study/measure/secs", number(20), "measure"),
            ("/study/timeout/secs", number(1), "timeout"),
            ("/study/options", serde_json::json!({"sync": "off"}), "option.sync"),
            ("/workload/services/0/command/1", serde_json::json!("--lazy"), "service.db.command"),
            ("/workload/services/0/resources/cpus", number(2), "service.db.resources"),
            ("/workload/services/0/environment", serde_json::json!({"A": "1"}), "service.db.environment"),
            ("/workload/protocol/options/keys", number(9), "protocol"),
        ] {
            let found = differences(&before, &conditions(&header(&[(place, value)])));
            assert!(found.len() == 1 && found[0].condition.key() == key, "{key}: {found:?}");
        }
        let mut other = header(&[]);
        other.study.design.arrangement = tare_core::design::Arrangement::Duet;
        other.study.design.steady_within = Some(std::time::Duration::from_secs(60));
        let said = |of: &Difference| (of.condition.key(), of.before.clone().unwrap(), of.after.clone().unwrap());
        let found: Vec<_> = differences(&before, &conditions(&other)).iter().map(said).collect();
        let wanted = [("design", "\"blocks\"", "\"duet\""), ("steady-within", "null", "{\"secs\":60,\"nanos\":0}")];
        assert_eq!(found, wanted.map(|(key, before, after)| (key.to_owned(), before.to_owned(), after.to_owned())));
        let mut awake = header(&[]);
        awake.study.design.idle = Idle::Shallow;
        let found = differences(&before, &conditions(&awake));
        let [Difference { condition: Condition::Idle, before: None, after: Some(after), .. }] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(after, "\"shallow\"");
        let awake = conditions(&awake);
        assert!(!are_alike(&before, &awake) && !are_alike(&awake, &before));
        assert_eq!(Condition::from_key("idle"), Some(Condition::Idle));
        let searched_none = conditions(&header(&[("/study/peak", serde_json::Value::Null)]));
        assert!(!searched_none.keys().any(|what| what.key().starts_with("search")), "{searched_none:?}");
        for condition in before.keys().chain(conditions(&other).keys()) {
            assert_eq!(Condition::from_key(&condition.key()).as_ref(), Some(condition));
        }
    }

    #[test]
    fn a_limit_that_differs_by_a_millionth_is_another_one() {
        let quantile = |quantile: f64| {
            conditions(&header(&[("/study/qos/operations/get/0/quantile", serde_json::json!(quantile))]))
        };
        let found = differences(&quantile(0.999_999_1), &quantile(0.999_999_2));
        assert!(found.len() == 1 && found[0].condition == Condition::Qos, "{found:?}");
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
        let said = |after| {
            let said = |of: &Difference| {
                let absent = || "absent".to_owned();
                let [before, after] = [&of.before, &of.after].map(|value| value.clone().unwrap_or_else(absent));
                format!("{}: {before} | {after}", of.condition.key())
            };
            differences(&before, &after).iter().map(said).collect::<Vec<_>>()
        };
        let own = form(serde_json::json!({"sync": "off"}), serde_json::json!({"memory_bytes": 100_663_296}));
        assert_eq!(
            said(made(own, "on")),
            ["form.a.options: absent | {\"sync\":\"off\"}", "form.a.resources: absent | {\"memory_bytes\":100663296}"]
        );
        assert_eq!(
            said(made(form(nothing(), nothing()), "off")),
            [
                "option.sync: \"on\" | \"off\"",
                "service.db.command: [\"/db\",\"--sync\"] | [\"/db\",\"--sync\",\"--no-sync\"]"
            ]
        );
    }

    #[test]
    fn what_differs_is_named_and_lone_forms_are_not() {
        let conditions = |pairs: &[(&str, &str)]| -> Conditions {
            pairs.iter().map(|(key, value)| (Condition::from_key(key).unwrap(), (*value).to_owned())).collect()
        };
        let before =
            conditions(&[("environment.kernel", "6.1"), ("form.box.layers", "[]"), ("form.box.fact.engine", "26")]);
        let after = conditions(&[("environment.kernel", "6.12"), ("bundle.redis", "sha256:1")]);
        let found = differences(&before, &after);
        let keys: Vec<String> = found.iter().map(|difference| difference.condition.key()).collect();
        assert_eq!(keys, ["bundle.redis", "environment.kernel"]);
        assert_eq!((found[0].before.as_deref(), found[0].after.as_deref()), (None, Some("sha256:1")));
    }

    #[test]
    fn what_is_withheld_or_a_bound_in_either_run_has_no_interval() {
        let whole = ratio(&[-0.1, -0.101, -0.099, -0.1, -0.102]);
        let of = |before: &Ratio, after: &Ratio| error_of_change(before, after, None, CONFIDENCE);
        assert!(of(&whole, &whole).is_some());
        // What became of the verdict does not matter: a withheld ratio may also have too few blocks for one.
        let withheld = |why| Ratio { withheld: Some(why), ..whole.clone() };
        let bound = Bound { side: Side::AtMost, cause: BoundCause::Generator };
        for doubtful in [
            withheld(Withheld::VoidTooOften),
            withheld(Withheld::OtherVoidTooOften),
            withheld(Withheld::ControlDiffers),
            Ratio { verdict: Verdict::Withheld, ..whole.clone() },
            Ratio { bound: Some(bound), ..whole.clone() },
        ] {
            assert_eq!((of(&doubtful, &whole), of(&whole, &doubtful)), (None, None), "{doubtful:?}");
        }
    }
}
