//! The sample with profiled trials.

#![allow(dead_code, reason = "not every test that has the sample looks at profiles")]

use super::record;
use std::collections::BTreeMap;
use tare_core::fault::Fault;
use tare_core::plan::PlannedTrial;
use tare_core::profile::{CALL_STACKS, Profile, Profiled, unfolded};
use tare_core::record::{Record, TrialData};

/// The sample with profiled trials: of the baseline, of a form with more to do, and of one that could not be watched.
pub(crate) fn profiled() -> Record {
    let mut record = record();
    record.header.study.profile = Some(Profiled::Forms(vec!["container".into(), "container-hostnet".into()]));
    let way = "redis;redis-server;main;write;tcp_sendmsg_[k]";
    let seen = |form: &str, operations: f64| {
        let stacks = match form {
            "native" => format!("redis;redis-server;main;dictFind 600\n{way} 1400\n"),
            "container" => format!("redis;redis-server;main;dictFind 590\n{way} 1390\n{way};nf_<hook>_[k] 500\n"),
            _ => String::new(),
        };
        let epolls = if form == "native" { 0.04 } else { 0.09 };
        let calls = [("read", 1.0), ("write", 1.0), ("epoll_wait", epolls)];
        let calls: BTreeMap<String, f64> = calls.map(|(name, per_op)| (name.to_owned(), per_op * operations)).into();
        Profile {
            stacks_per_s: 499,
            stacks: unfolded(&stacks),
            calls: [("redis".to_owned(), calls)].into(),
            ..Profile::default()
        }
    };
    for (index, form) in record.header.study.profiled().into_iter().enumerate() {
        let of_form = |trial: &&TrialData| trial.record.trial.form == form && trial.record.load.is_some();
        let mut trial = record.trials.iter().find(of_form).expect("the sample measured it").clone();
        trial.record.trial = PlannedTrial { index: index as u32, block: 0, profiled: true, ..trial.record.trial };
        let load = trial.record.load.as_ref().expect("it was just asked for");
        let operations = load.operations.values().map(|operation| operation.count).sum::<u64>() as f64;
        trial.record.profile = Some(seen(&form, operations));
        if let ("container-hostnet", Some(profile)) = (form.as_str(), &mut trial.record.profile) {
            let why = Fault::new("could not sample call stacks (perf_event_open): not permitted").remedy("run as root");
            profile.missing.insert(CALL_STACKS.to_owned(), why);
        }
        record.profiles.push(trial);
    }
    record
}
