//! A form that is deployed once, outside of a plan.

use crate::stage;

use stage::{Trouble, header, once};
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::host::InstanceState;
use tare_core::load::{LoadProfile, LoadSummary};
use tare_runner::Attempt;

fn attempt(connections: u32) -> Attempt {
    let (settle, measure, timeout) = (Duration::ZERO, Duration::from_millis(400), Duration::from_secs(1));
    Attempt { profile: LoadProfile::Closed { connections, pipeline: 1 }, settle, measure, timeout }
}

#[test]
fn a_watched_service_need_not_be_ready_and_is_taken_down() {
    let (seen, log) = once(&header(&["plain"], 1), Trouble::NeverReady, |once, apparatus| {
        once.watch(apparatus, |service| Ok((service.state()?, service.log()?)))
    });
    assert_eq!(seen.unwrap(), (InstanceState::Running, "the last words".to_owned()));
    assert_eq!(log, ["open plain", "start toy", "stop toy", "close"]);
}

#[test]
fn a_watched_service_that_has_ended_says_how() {
    let (seen, log) = once(&header(&["plain"], 1), Trouble::DiesAtStart, |once, apparatus| {
        once.watch(apparatus, |service| service.state())
    });
    assert_eq!(seen.unwrap(), InstanceState::Ended("killed by signal 9".to_owned()));
    assert_eq!(log.last().unwrap(), "close");
}

#[test]
fn loads_are_tried_one_after_the_other_at_one_deployment() {
    let (tried, log) = once(&header(&["plain"], 1), Trouble::None, |once, apparatus| {
        once.load(apparatus, |load| [1, 2].map(|connections| load(&attempt(connections))).into_iter().collect())
    });
    let tried: Vec<LoadSummary> = tried.unwrap();
    assert!(tried.iter().all(|summary| summary.operations["GET"].count == 10), "{tried:?}");
    let wanted = ["open plain", "start toy", "drive Ready", "drive Populate", "drive Run", "drive Run", "stop toy"];
    assert_eq!(log, [&wanted[..], &["close"]].concat());
}

#[test]
fn who_ends_under_a_tried_load_is_to_blame() {
    let (tried, log) = once(&header(&["plain"], 1), Trouble::DiesUnderLoad, |once, apparatus| {
        once.load(apparatus, |load| load(&attempt(1)).map(drop))
    });
    let fault = tried.unwrap_err();
    assert!(fault.message.contains("toy ended under load: killed by signal 9"), "{fault}");
    assert_eq!(fault.log, "the last words");
    assert_eq!(log.last().unwrap(), "close");
}

#[test]
fn what_is_left_behind_is_no_success() {
    let (seen, _) = once(&header(&["plain"], 1), Trouble::Close, |once, apparatus| once.watch(apparatus, |_| Ok(())));
    let fault = seen.unwrap_err();
    assert!(fault.message.contains("could not take down what was started: a mount is left"), "{fault}");
    assert_eq!(fault.remedy, "tare clean");
    let (seen, log) = once(&header(&["plain"], 1), Trouble::None, |once, apparatus| {
        once.watch(apparatus, |_| Err::<(), _>(Fault::new("interrupted")))
    });
    assert_eq!(seen.unwrap_err().message, "interrupted");
    assert_eq!(log.last().unwrap(), "close");
}
