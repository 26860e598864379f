//! Deployments whose trial failed are kept standing, then taken down as usual.

use crate::stage;

use stage::{KEPT_FOR, Ran, Trouble, fresh, header, run, run_keeping};
use std::time::Duration;
use tare_core::design::Arrangement;
use tare_core::host::{InstanceState, WayIn};
use tare_core::trial::{Outcome, Stage};
use tare_runner::{Ending, Event, StandingDeployment, read_record};

/// What was kept standing, each time.
fn kept(ran: &Ran) -> Vec<&Vec<StandingDeployment>> {
    let kept = ran.events.iter().filter_map(|event| match event {
        Event::KeptStanding { deployments } => Some(deployments),
        _ => None,
    });
    kept.collect()
}

fn count(ran: &Ran, what: &str) -> usize {
    ran.log.iter().filter(|line| line.starts_with(what)).count()
}

#[test]
fn what_failed_stands_until_it_may_go_and_the_run_goes_on() {
    let (_folder, path) = fresh();
    let ran = run_keeping(&path, &header(&["plain", "box"], 1), &[("box", Trouble::NeverReady)], false);
    assert_eq!(ran.ending, Ending::Complete);
    let at = ran.log.iter().position(|line| line == "hold").expect("it is kept standing");
    assert_eq!(ran.log[at + 1..at + 3], ["stop toy", "close"], "nothing is taken down before: {:?}", ran.log);
    assert_eq!(count(&ran, "hold"), 1, "only what failed is kept");
    let [deployments] = kept(&ran)[..] else { panic!("{:?}", ran.events) };
    let [standing] = &deployments[..] else { panic!("{deployments:?}") };
    assert_eq!((standing.trial.form.as_str(), standing.stage), ("box", Stage::Deploy));
    assert!(standing.why.message.contains("not ready within"), "{}", standing.why);
    let [service] = &standing.services[..] else { panic!("{standing:?}") };
    assert_eq!((service.name.as_str(), &service.state), ("toy", &Some(InstanceState::Running)));
    assert_eq!(service.endpoints["main"].ip().to_string(), "127.0.0.1");
    assert_eq!(service.ways_in, [WayIn::new("shell", "enter toy of box")]);
    assert_eq!(service.log, "the last words");
    assert!(ran.events.contains(&Event::LetGo { after: KEPT_FOR }));
    // The time for which a person looks into it belongs neither to the trial nor to a stage.
    let record = read_record(&path).unwrap();
    let boxed = record.trials.iter().find(|trial| trial.record.trial.form == "box").unwrap();
    assert!(matches!(boxed.record.outcome, Outcome::Failed { stage: Stage::Deploy, .. }));
    assert!(boxed.record.stages.values().sum::<f64>() < KEPT_FOR.as_secs_f64(), "{:?}", boxed.record.stages);
    let measured = record.trials.iter().filter(|trial| trial.record.outcome == Outcome::Measured);
    assert_eq!(measured.count(), 2, "the others go on");
}

#[test]
fn an_end_while_it_stands_keeps_its_row_and_takes_everything_down() {
    for arrangement in Arrangement::all() {
        let (_folder, path) = fresh();
        let mut header = header(&["plain", "box"], 2);
        header.study.measure = Duration::from_secs(60);
        header.study.design.arrangement = arrangement.clone();
        header.plan = tare_core::plan::plan(&header.study, &[], 7);
        let ran = run_keeping(&path, &header, &[("box", Trouble::DiesUnderLoad)], true);
        assert_eq!(ran.ending, Ending::Interrupted, "{arrangement:?}");
        assert_eq!(count(&ran, "hold"), 1, "{arrangement:?}: {:?}", ran.log);
        let held = ran.log.iter().position(|line| line == "hold").unwrap();
        assert!(ran.log[held..].iter().any(|line| line == "close"), "{arrangement:?}: {:?}", ran.log);
        assert_eq!(count(&ran, "open "), count(&ran, "close"), "{arrangement:?}: {:?}", ran.log);
        assert_eq!(count(&ran, "start "), count(&ran, "stop "), "{arrangement:?}: {:?}", ran.log);
        let of_box = |index: usize| {
            let record = read_record(&path).unwrap();
            let boxed = record.trials.into_iter().map(|trial| trial.record).filter(|record| record.trial.form == "box");
            boxed.map(|record| record.outcome).nth(index)
        };
        assert!(matches!(of_box(0), Some(Outcome::Failed { .. })), "{arrangement:?}: {:?}", of_box(0));
        // A run that is continued leaves that row as it is.
        assert_eq!(run(&path, &header, &[], None).ending, Ending::Complete, "{arrangement:?}");
        let record = read_record(&path).unwrap();
        assert!(record.trials.len() >= header.plan.len() && record.lost().is_empty(), "{arrangement:?}");
        assert!(matches!(of_box(0), Some(Outcome::Failed { .. })), "{arrangement:?}: {:?}", of_box(0));
        assert_eq!(of_box(1), Some(Outcome::Measured), "{arrangement:?}");
    }
}

#[test]
fn what_did_not_fail_by_itself_is_not_kept_standing() {
    for arrangement in Arrangement::all() {
        for trouble in [Trouble::None, Trouble::Open, Trouble::Absent, Trouble::StoppedWhileCompared] {
            let (_folder, path) = fresh();
            let mut header = header(&["plain", "box"], 1);
            header.study.measure = Duration::from_secs(60);
            header.study.design.arrangement = arrangement.clone();
            header.plan = tare_core::plan::plan(&header.study, &[], 7);
            let ran = run_keeping(&path, &header, &[("box", trouble)], false);
            assert_eq!((count(&ran, "hold"), kept(&ran).len()), (0, 0), "{arrangement:?}: {:?}", ran.log);
        }
    }
}
