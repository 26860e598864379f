//! No network, no server: an operation is done as soon as it is asked for. Shows what the apparatus itself can do, and
//! lets the whole pipeline be tested without a service.

use super::{Emit, Flight, ProtocolRow, Reply, Verified};
use crate::clock;
use crate::engine::{Gather, Recorder, Timeline, pin, report_end, worker_cpus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use tare_core::config::{Fields, Node, Problems};
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadSummary, LoadTask};

/// The row of this protocol.
pub(super) const ROW: ProtocolRow = ProtocolRow {
    name: "null",
    about: "no network and no server: every operation is done at once, to see what the apparatus itself can do",
    options: |node, problems| options(node, problems),
    operations: |_| vec!["nothing".to_owned()],
    drive,
};

fn options(node: &Node, problems: &mut Problems) -> Option<serde_json::Value> {
    let before = problems.len();
    Fields::of(node, "protocol 'null'", problems)?.finish(problems);
    (problems.len() == before).then(|| serde_json::json!({}))
}

fn drive(plan: &LoadPlan, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
    if plan.task != LoadTask::Run {
        return Ok(LoadSummary::default());
    }
    if plan.measure.is_zero() {
        return Err(Fault::new("nothing can be measured in no time").remedy("give 'measure' a duration above 0"));
    }
    pin(plan.cpus.cpus())?;
    let cpus = worker_cpus(plan, usize::MAX);
    let timeline = Arc::new(Timeline::new(clock::monotonic_ns(), plan.settle, plan.measure));
    let mut gather = Gather::new(vec!["nothing".to_owned()], plan.measure);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (out, reports) = channel();
        for (number, cpus) in cpus.iter().enumerate() {
            // In flight is given as unlimited, so that this is never called saturated: to be busy is its purpose.
            let spares = gather.worker(u64::MAX);
            let recorder = Recorder::new(number, 1, out.clone(), spares);
            let (timeline, out, stop) = (Arc::clone(&timeline), out.clone(), &stop);
            scope.spawn(move || report_end(&out, || pin(cpus).map(|()| spin(recorder, timeline, stop))));
        }
        drop(out);
        let result = gather.collect(&timeline, &reports, emit);
        stop.store(true, Ordering::Relaxed);
        result
    })?;
    gather.own_cpu();
    Ok(gather.finish(plan, Verified::default()))
}

fn spin(mut recorder: Recorder, timeline: Arc<Timeline>, stop: &AtomicBool) -> crate::engine::Ledger {
    recorder.begin(timeline);
    let mut start_ns = clock::monotonic_ns();
    while recorder.sending() && !stop.load(Ordering::Relaxed) {
        recorder.ledger.sent[0] += 1;
        let now_ns = clock::monotonic_ns();
        recorder.answered(now_ns, &Flight { planned_ns: start_ns, start_ns, ..Flight::default() }, Reply::Right);
        recorder.round(1);
        start_ns = now_ns;
    }
    recorder.ledger
}
