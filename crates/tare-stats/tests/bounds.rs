//! Ratios that are only bounds, because the generator was the limit of some arms: what is made of ratios heeds that.

use crate::records;

use tare_core::advice::{Advice, Variant};
use tare_core::form::Form;
use tare_core::ladder::{Ladder, Place, Rung, Turned};
use tare_core::load::{GeneratorHealth, LoadSummary};
use tare_core::record::Record;
use tare_core::workload::Service;
use tare_stats::{
    AdviceGains, Bound, LadderCosts, Occasions, RungCost, ScaleOut, Side, VariantGain, Verdict, analyse, changes,
    contest, equals, ratio_of,
};

/// The same record, in which the generator hardly ever idled in these arms.
fn limited(mut record: Record, arms: &[&str]) -> Record {
    for trial in &mut record.trials {
        let awake = if arms.contains(&trial.record.trial.arm().as_str()) { 0.999 } else { 0.5 };
        let health = GeneratorHealth { awake: vec![awake], ..GeneratorHealth::default() };
        trial.record.load = Some(LoadSummary { health: Some(health), ..LoadSummary::default() });
    }
    record
}

fn side(bound: Option<Bound>) -> Option<Side> {
    bound.map(|bound| bound.side)
}

const BASELINE: [&str; 2] = ["plain", "plain (A/A)"];

/// A ladder of three rungs, the last two turned round too.
fn ladder(limited_arms: &[&str]) -> LadderCosts {
    const FORMS: [&str; 6] = ["plain", "root", "net", "box", "net alone", "all but net"];
    let mut study = records::study(&FORMS, 12);
    let rung = |form: &str| Rung { form: form.into(), adds: form.into() };
    let turn = |form: &str, place| Turned { form: form.into(), rung: "net".into(), place, against: None };
    study.ladder = Some(Ladder {
        to: "box".into(),
        rungs: ["root", "net", "box"].map(rung).into(),
        turned: vec![turn("net alone", Place::First), turn("all but net", Place::Last)],
    });
    let of = |arm: &str| {
        Some(match arm {
            "root" => 0.9,
            "net" => 0.72,
            "box" => 0.432,
            "net alone" => 0.8,
            "all but net" => 0.7,
            _ => 1.0,
        })
    };
    let record = limited(records::of_shares(study, of), limited_arms);
    analyse(&record).ladder.expect("the study has a ladder")
}

fn shape(rung: &RungCost) -> (bool, Option<Side>) {
    (rung.matters, side(rung.cost.bound))
}

#[test]
fn rungs_that_are_bounds_cost_no_more_than_a_bound_carries_and_do_not_add_up() {
    let free = ladder(&[]).metrics.remove(0);
    assert_eq!(free.rungs.iter().map(shape).collect::<Vec<_>>(), [(true, None); 3]);
    assert_eq!((free.adds_up, free.bound), (Some(true), None));
    let held = ladder(&["plain", "plain (A/A)", "root"]).metrics.remove(0);
    // Both ends of the first rung are the generator's; of the second one is, so that the net costs as much, or more.
    let shapes = [(false, Some(Side::Either)), (true, Some(Side::AtMost)), (true, None)];
    assert_eq!(held.rungs.iter().map(shape).collect::<Vec<_>>(), shapes);
    assert_eq!((held.adds_up, side(held.bound)), (None, Some(Side::AtMost)), "the two wholes are bounds both");
    assert_eq!(side(held.whole.unwrap().bound), Some(Side::AtMost));
    // A form that was held back may do better than what it is held against, which it does not do.
    assert_eq!(shape(&ladder(&["box"]).metrics[0].rungs[2]), (false, Some(Side::AtLeast)));
}

#[test]
fn what_a_rung_costs_elsewhere_is_no_share_of_a_bound() {
    let orders = |arms: &[&str]| ladder(arms).metrics.remove(0).rungs.remove(1).orders.unwrap();
    let free = orders(&[]);
    assert!(free.depends && free.share.is_some(), "the net costs 0.8 by itself and 0.617 last: {free:?}");
    let held = orders(&BASELINE);
    // By itself it costs 0.8 or more, so that the interaction, 0.77 as it is read, may be none.
    assert_eq!(side(held.interaction.unwrap().bound), Some(Side::AtLeast));
    assert!(!held.depends && held.share.is_none(), "{held:?}");
}

fn won(limited_arms: &[&str]) -> AdviceGains {
    let mut study = records::study(&["plain", "box", "half", "all", "less"], 8);
    let variant = |form: &str| {
        let (form, name) = (form.to_owned(), form.to_owned());
        Variant { form, name, changes: String::new(), trades: String::new() }
    };
    study.advice = Some(Advice { of: "box".into(), variants: ["half", "all", "less"].map(variant).into() });
    let of = |arm: &str| {
        Some(match arm {
            "box" => 0.5,
            "half" => 0.7,
            "less" => 0.4,
            _ => 1.0,
        })
    };
    analyse(&limited(records::of_shares(study, of), limited_arms)).advice.expect("the study asks for it")
}

#[test]
fn a_variant_that_is_a_bound_has_no_rank_and_no_share() {
    let told = |won: &AdviceGains| -> Vec<(String, bool, bool)> {
        let of = |gain: &VariantGain| (gain.variant.clone(), gain.matters, gain.share.is_some());
        won.metrics[0].variants.iter().map(of).collect()
    };
    let row = |name: &str, matters, share| (name.to_owned(), matters, share);
    assert_eq!(told(&won(&[])), [row("all", true, true), row("half", true, true), row("less", true, true)]);
    // That the variant wins something holds all the more; how much of it, and before whom, nobody knows.
    assert_eq!(told(&won(&["all"])), [row("half", true, true), row("less", true, true), row("all", true, false)]);
    // What the form costs is a bound: nothing is a share of it.
    assert!(told(&won(&BASELINE)).iter().all(|(_, matters, share)| *matters && !share));
    // A form that was held back may be as good as its variants.
    let held = told(&won(&["box"]));
    assert_eq!(held, [row("all", false, false), row("half", false, false), row("less", true, false)]);
}

#[test]
fn nobody_is_the_best_beside_one_that_was_held_back() {
    let of = |arm: &str| Some(if arm == "good" { 1.3 } else { 1.0 });
    let decided = |arms: &[&str]| {
        let record = limited(records::of_shares(records::study(&["plain", "good", "other"], 12), of), arms);
        let contest = contest(&record, "throughput").unwrap();
        assert_eq!(contest.leader, "good");
        let lead = contest.leads.iter().find(|lead| lead.over == "other").unwrap();
        (contest.decided, lead.clear, side(lead.bound), lead.smallest_detectable.is_some())
    };
    assert_eq!(decided(&[]), (true, true, None, true));
    assert_eq!(decided(&["other"]), (false, false, Some(Side::AtMost), false));
    assert_eq!(decided(&["good"]), (true, true, Some(Side::AtLeast), false), "it leads all the more");
}

/// What eight instances do by one, where `limited_arms` were held back.
fn scaled(limited_arms: &[&str]) -> ScaleOut {
    let service = serde_json::json!({
        "name": "db", "recipe": {"source": {"packages": ["db"]}, "files": []}, "command": ["/db"], "environment": {},
        "user": [1, 1], "ports": {"main": 1}, "volumes": {}, "stop_within": {"secs": 1, "nanos": 0}, "options": {},
        "ready": {"port": {"port": "main", "within": {"secs": 1, "nanos": 0}}},
        "resources": {"cpus": 1, "cpu_quota": null, "memory_bytes": 1024},
    });
    let service: Service = serde_json::from_value(service).unwrap();
    let mut study = records::study(&["one", "eight"], 8);
    let more = |form: &mut Form| form.instances.services = [("db".to_owned(), 8)].into();
    more(&mut study.forms[1]);
    let of = |arm: &str| Some(if arm == "eight" { 4.4 } else { 1.0 });
    let mut record = limited(records::of_shares(study, of), limited_arms);
    record.header.workload.services.push(service);
    let [row] = analyse(&record).scale_out.try_into().unwrap();
    row
}

#[test]
fn a_speed_up_that_the_generator_holds_back_is_a_bound() {
    assert_eq!(side(scaled(&[]).bound), None);
    let held = scaled(&["eight"]);
    assert_eq!(side(held.bound), Some(Side::AtLeast), "eight may do more than 4.4 times as much");
    assert_eq!(side(scaled(&["one", "one (A/A)"]).bound), Some(Side::AtMost));
}

#[test]
fn equals_that_are_the_generators_teach_nothing_and_a_bound_has_not_changed() {
    let record = |arms: &[&str]| {
        let of = |arm: &str| Some(if arm == "box" { 0.8 } else { 1.0 });
        limited(records::of_shares(records::study(&["plain", "box"], 8), of), arms)
    };
    let [free, held] = [analyse(&record(&[])), analyse(&record(&BASELINE))];
    assert!(equals(&free).contains_key("throughput") && equals(&held).is_empty());
    let ratio = ratio_of(&held, "box", "throughput").unwrap();
    assert_eq!((side(ratio.bound), ratio.verdict), (Some(Side::AtMost), Verdict::Worse));
    let change = &changes(&free, &held, &Occasions::new()).into_iter().find(|change| change.form == "box").unwrap();
    assert_eq!((change.interval, change.standard_error), (None, None));
}
