//! Variants of known gains in, what they win back out.

use crate::records;

use tare_core::advice::{Advice, Variant};
use tare_core::record::Record;
use tare_stats::{AdviceGains, analyse};

const FORMS: [&str; 5] = ["plain", "box", "box.half", "box.all", "box.less"];

/// A record in which each form does `of(form)` of what the baseline does, give or take a per cent; none is void.
fn record(repeat: u32, of: impl Fn(&str) -> Option<f64>) -> Record {
    let mut study = records::study(&FORMS, repeat);
    let variant = |form: &&str| Variant {
        form: (*form).to_owned(),
        name: form.trim_start_matches("box.").to_owned(),
        changes: format!("what {form} does"),
        trades: String::new(),
    };
    study.advice = Some(Advice { of: "box".into(), variants: FORMS[2..].iter().map(variant).collect() });
    records::of_shares(study, of)
}

fn won(record: &Record) -> AdviceGains {
    analyse(record).advice.expect("the study asks for it")
}

/// The box takes half; one variant wins back half of that on the log scale, one all of it, and one loses more.
fn costly(form: &str) -> Option<f64> {
    Some(match form {
        "box" => 0.5,
        "box.half" => 0.5_f64.sqrt(),
        "box.less" => 0.4,
        _ => 1.0,
    })
}

#[test]
fn variants_stand_in_the_order_of_what_they_win_back() {
    let won = won(&record(8, costly));
    let gains = &won.metrics[0].variants;
    let names: Vec<&str> = gains.iter().map(|gain| gain.variant.as_str()).collect();
    assert_eq!((won.of.as_str(), names), ("box", vec!["all", "half", "less"]));
    for (gain, (ratio, share, better)) in gains.iter().zip([(2.0, 1.0, true), (1.414, 0.5, true), (0.8, -0.32, false)])
    {
        assert!(gain.cost.interval.unwrap().contains(ratio) && gain.matters, "{gain:?}");
        assert!((gain.share.unwrap() - share).abs() < 0.03 && gain.better == better, "{gain:?}");
    }
    assert!(won.left_out.is_empty());
}

#[test]
fn where_the_form_costs_nothing_there_is_no_share_of_it() {
    let won = won(&record(8, |_| Some(1.0)));
    let gains = &won.metrics[0].variants;
    assert!(gains.iter().all(|gain| gain.share.is_none() && !gain.matters), "{gains:?}");
}

#[test]
fn what_was_not_measured_is_named_and_too_few_blocks_make_no_claim() {
    let some = won(&record(8, |form| costly(form).filter(|_| form != "box.all")));
    assert_eq!((some.left_out, some.metrics[0].variants.len()), (vec!["box.all".to_owned()], 2));
    let few = won(&record(2, costly));
    assert!(few.metrics[0].variants.iter().all(|gain| gain.cost.interval.is_none() && !gain.matters));
}
