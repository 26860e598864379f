//! A load of kind `peak`: each trial is a search on a deployment of its own, guided by what a real server answers.

use crate::end_to_end::lab::Lab;
use tare_core::peak::{PeakEnding, PeakWindow};
use tare_core::trial::{Outcome, Stage};

/// A fifth of a CPU is what the server has, so that neither generator nor machine is the limit. Windows are short: this
/// is about the way from a window's answers to a peak in the record, not about its figure.
const STUDY: &str = "study: s
workload: redis
resources: {cpu_quota: 0.2}
repeat: 1
qos: {\"*\": {p99: 150ms}, failures: 5%}
load:
  peak:
    of: {users: {think: 20ms}}
    start: 200
    at_most: 5000
    warm: 1s
    settle: 200ms
    window: 500ms
    windows: 24
forms: {native: []}
";

#[test]
fn a_search_is_guided_by_a_real_server_and_on_disk() {
    let Some(lab) = Lab::open(&["mmdebstrap"]) else { return };
    let (said, record) = lab.run(STUDY);
    assert_eq!(record.trials.len(), 2, "one deployment for the form, one for the A/A control");
    for trial in &record.trials {
        let trial = &trial.record;
        assert_eq!(trial.outcome, Outcome::Measured, "{said}");
        let search = trial.peak.as_ref().expect("a search was asked for");
        // A disturbance at the wrong moment looks like a memory; the peak is then where it recovers.
        assert!(matches!(search.ending, PeakEnding::Found | PeakEnding::Hysteresis { .. }), "{:?}", search.ending);
        let peak = search.peak.expect("both have one");
        let levels = |kept: bool| {
            search.windows.iter().filter(move |window: &&PeakWindow| window.passed == kept).map(|window| window.level)
        };
        assert!(levels(true).count() > 5 && levels(false).count() > 0, "{:?}", search.windows);
        let (broken, kept) = (levels(false).fold(f64::MAX, f64::min), levels(true).fold(0.0, f64::max));
        assert!((broken / 2.0..2.0 * kept).contains(&peak), "{peak}: broken at {broken}, kept at {kept}");
        let (measured, settled) = (trial.stages[&Stage::Measure], trial.stages[&Stage::Settle]);
        assert!(measured >= search.load_s && settled < measured, "{:?}: {} s of load", trial.stages, search.load_s);
    }
    assert!(said.contains("native            ") && said.contains(" users") && said.contains("peak load"), "{said}");
    let page = std::fs::read_to_string(lab.path("record/report.html")).unwrap();
    assert!(page.contains("Share of windows that kept the QoS, by load"));
}
