//! A ladder of known costs in, its analysis out.

use crate::records;
use crate::simulated::noise::Random;

use tare_core::fault::Fault;
use tare_core::ladder::{Ladder, Place, Rung, Turned};
use tare_core::plan::plan;
use tare_core::record::{PRECISE_ENOUGH, Record, TrialData, TrialRecord};
use tare_core::trial::Outcome;
use tare_stats::{LadderCosts, RungCost, Withheld, analyse};

const FORMS: [&str; 4] = ["plain", "box.root", "box.net", "box"];

/// A record in which each form does `of(form)` of what the baseline does, give or take a per cent; none is void.
fn record(repeat: u32, of: impl Fn(&str) -> Option<f64>) -> Record {
    let mut study = records::study(&FORMS, repeat);
    let rung = |form: &&str| Rung { form: (*form).to_owned(), adds: format!("what {form} adds") };
    study.ladder = Some(Ladder { to: "box".into(), rungs: FORMS[1..].iter().map(rung).collect(), turned: Vec::new() });
    records::of_shares(study, of)
}

fn ladder_costs(record: &Record) -> LadderCosts {
    analyse(record).ladder.expect("the study has a ladder")
}

/// The net takes 20 %, the last rung another 40 %.
fn costly(form: &str) -> Option<f64> {
    Some(match form {
        "box.net" => 0.8,
        "box" => 0.48,
        _ => 1.0,
    })
}

fn shape(rung: &RungCost) -> (&str, &str, bool) {
    (&rung.form, &rung.against, rung.matters)
}

#[test]
fn each_rung_is_held_against_the_one_before_and_they_add_up() {
    let ladder_costs = ladder_costs(&record(8, costly));
    let throughput = &ladder_costs.metrics[0];
    let shapes: Vec<_> = throughput.rungs.iter().map(shape).collect();
    assert_eq!(shapes, [("box.root", "plain", false), ("box.net", "box.root", true), ("box", "box.net", true)]);
    for (rung, truth) in throughput.rungs.iter().zip([1.0, 0.8, 0.6]) {
        assert!(rung.cost.interval.unwrap().contains(truth), "{truth}: {rung:?}");
    }
    assert!((throughput.together / 0.48 - 1.0).abs() < 0.02, "{}", throughput.together);
    assert_eq!(throughput.adds_up, Some(true));
    assert!(ladder_costs.left_out.is_empty());
}

#[test]
fn a_rung_that_cannot_be_had_is_in_the_next() {
    let ladder_costs = ladder_costs(&record(8, |form| costly(form).filter(|_| form != "box.net")));
    assert_eq!(ladder_costs.left_out, ["box.net"]);
    let rungs = &ladder_costs.metrics[0].rungs;
    assert_eq!(rungs.iter().map(shape).collect::<Vec<_>>(), [("box.root", "plain", false), ("box", "box.root", true)]);
    assert_eq!(rungs[1].adds, ["what box.net adds", "what box adds"]);
    assert!(rungs[1].cost.interval.unwrap().contains(0.48));
}

#[test]
fn too_few_blocks_make_no_claim() {
    let ladder_costs = ladder_costs(&record(2, costly));
    let throughput = &ladder_costs.metrics[0];
    assert!(throughput.rungs.iter().all(|rung| rung.cost.interval.is_none() && !rung.matters));
    assert_eq!(throughput.adds_up, None);
}

#[test]
fn what_besides_the_rungs_changed_is_seen() {
    // The baseline's second copy does better than its first: the form by it is another whole than the rungs make.
    let ladder_costs =
        ladder_costs(&record(8, |form| costly(form).map(|share| if form.ends_with("(A/A)") { 1.2 } else { share })));
    assert_eq!(ladder_costs.metrics[0].adds_up, Some(false));
    assert!(ladder_costs.metrics[0].rungs.iter().all(|rung| !rung.matters), "nothing is claimed where equals differ");
}

#[test]
fn what_the_report_does_not_stand_by_is_no_cost_of_a_rung() {
    // Most trials of the net are void: those that are left are not its usual ones.
    let mut voided = record(12, costly);
    let of_net = voided.trials.iter_mut().filter(|trial| trial.record.trial.form == "box.net");
    for trial in of_net.take(8) {
        trial.record.outcome = Outcome::Invalid { why: Fault::new("too many failed") };
    }
    let rungs = &ladder_costs(&voided).metrics[0].rungs;
    let reasons: Vec<Option<Withheld>> = rungs.iter().map(|rung| rung.withheld).collect();
    assert_eq!(reasons, [None, Some(Withheld::VoidTooOften), Some(Withheld::OtherVoidTooOften)]);
    assert!(rungs.iter().all(|rung| !rung.matters && rung.cost.interval.is_some()), "{rungs:?}");
    // Without equals nobody knows what the machine makes of them.
    let floorless = record(8, |form| costly(form).filter(|_| !form.ends_with("(A/A)")));
    assert!(ladder_costs(&floorless).metrics[0].rungs.iter().all(|rung| !rung.matters));
}

#[test]
fn a_run_that_its_width_ended_claims_no_more_of_rungs() {
    let width = |how: &str| {
        let mut record = record(8, costly);
        record.header.study.design.half_width = Some(0.05);
        record.end.as_mut().unwrap().how = how.to_owned();
        let interval = ladder_costs(&record).metrics[0].rungs[1].cost.interval.unwrap();
        (interval.high / interval.low).ln()
    };
    assert!(width(PRECISE_ENOUGH) > 1.5 * width("complete"), "{} {}", width(PRECISE_ENOUGH), width("complete"));
}

/// A ladder of two features on a machine of random numbers, turned round as well: the second cost 10 % by itself, and
/// with the first `factor` times as much more.
fn turned(blocks: u32, factor: f64, random: &mut Random) -> RungCost {
    const FORMS: [&str; 5] = ["plain", "one", "both", "two alone", "all but two"];
    let mut study = records::study(&FORMS, blocks);
    let rung = |form: &str| Rung { form: form.into(), adds: String::new() };
    let turn = |form: &str, place| Turned { form: form.into(), rung: "both".into(), place, against: None };
    study.ladder = Some(Ladder {
        to: "both".into(),
        rungs: vec![rung("one"), rung("both")],
        turned: vec![turn("two alone", Place::First), turn("all but two", Place::Last)],
    });
    let plan = plan(&study, &[], 1);
    let machine: Vec<f64> = (0..blocks).map(|_| 0.03 * random.normal()).collect();
    let trials = plan.iter().map(|planned| {
        let truth = match planned.form.as_str() {
            "one" | "all but two" => 0.8,
            "two alone" => 0.9,
            "both" => 0.8 * 0.9 * factor,
            _ => 1.0,
        };
        let mut record = TrialRecord::new(planned.clone(), String::new(), Outcome::Measured);
        let log = machine[planned.block as usize] + 0.01 * random.normal();
        record.metrics.insert("throughput".into(), 1e5 * truth * log.exp());
        TrialData { record, seconds: Vec::new(), telemetry: Vec::new() }
    });
    let trials = trials.collect();
    let mut ladder_costs = ladder_costs(&records::record(study, plan, trials));
    ladder_costs.metrics.remove(0).rungs.remove(1)
}

#[test]
fn what_a_rung_costs_in_another_order_has_an_interval_of_its_own() {
    const LADDERS: u32 = 500;
    let mut random = Random::new(31);
    for factor in [1.0, 0.93] {
        let (mut held, mut depends) = (0, 0);
        for _ in 0..LADDERS {
            let orders = turned(8, factor, &mut random).orders.unwrap();
            held += u32::from(orders.interaction.unwrap().interval.unwrap().contains(factor));
            depends += u32::from(orders.depends);
        }
        let [held, depends] = [held, depends].map(|count| f64::from(count) / f64::from(LADDERS));
        eprintln!("interaction of {factor}: {held} of the intervals hold it, said to depend in {depends}");
        assert!((0.92..=0.98).contains(&held), "{factor}: {held}");
        assert!(if factor == 1.0 { depends <= 0.05 } else { depends >= 0.8 }, "{factor}: {depends}");
    }
}

#[test]
fn a_share_is_a_range_over_the_places_a_feature_was_measured_in() {
    let rung = turned(40, 0.93, &mut Random::new(32));
    let orders = rung.orders.unwrap();
    let share = orders.share.unwrap();
    let whole = (0.8_f64 * 0.9 * 0.93).ln();
    for (end, truth) in [(share.low, 0.9_f64), (share.high, 0.9 * 0.93)] {
        assert!((end - truth.ln() / whole).abs() < 0.03, "{share:?}");
    }
    assert!(orders.first.unwrap().interval.unwrap().contains(0.9));
    assert!(orders.last.unwrap().interval.unwrap().contains(0.9 * 0.93));
    // A ladder as earlier versions recorded it was turned round by nobody.
    let old: Ladder = serde_json::from_str(r#"{"to": "box", "rungs": [{"form": "box", "adds": "all"}]}"#).unwrap();
    assert!(old.turned.is_empty());
    assert!(ladder_costs(&record(8, costly)).metrics[0].rungs.iter().all(|rung| rung.orders.is_none()));
}
