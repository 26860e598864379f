//! The events of the sample's run, as `tare run` would have written them.

use std::time::Duration;
use tare_core::record::Record;
use tare_core::trial::Stage;
use tare_runner::Event;

/// Each event and when it was, RFC 3339.
pub(crate) fn events(record: &Record) -> Vec<(String, Event)> {
    let trials = record.trials.len() as u32;
    let mut events = vec![Event::RunStarted { trials, done: 0 }];
    let blocks = record.header.study.repeat;
    for (at, data) in record.trials.iter().enumerate() {
        let trial = data.record.trial.clone();
        let left = Duration::from_secs(20 * (u64::from(trials) - at as u64));
        events.push(Event::TrialStarted { trial: trial.clone(), blocks, left });
        events.extend([Stage::Deploy, Stage::Measure].map(|stage| Event::StageStarted { stage }));
        events.extend(data.seconds.iter().map(|row| Event::Second { row: row.clone() }));
        let metric = |name: &str| data.record.metrics.get(name).copied();
        let (throughput, p99_us) = (metric("throughput"), metric("p99_us"));
        events.push(Event::TrialEnded { trial, outcome: data.record.outcome.clone(), throughput, p99_us });
    }
    let how = record.end.as_ref().map(|end| end.how.clone()).unwrap_or_default();
    events.push(Event::RunEnded { how });
    let at = |number: usize| format!("2026-03-05T10:{:02}:{:02}Z", number / 60 % 60, number % 60);
    events.into_iter().enumerate().map(|(number, event)| (at(number), event)).collect()
}
