//! Keeps connections busy, measures and counts. Generic over the protocol.
//!
//! One thread a CPU, each with its own epoll and its share of the connections; nothing is shared while they work.
//! Time is read once for each batch of bytes received: that moment ends the operations answered by them and starts
//! those sent in their place.

mod connection;
mod gather;
mod layout;
mod limits;
mod saturation;
mod starts;
mod talk;
mod tally;
mod timeline;
mod window;
mod worker;

pub(crate) use gather::Gather;
pub(crate) use layout::Layout;
pub(crate) use limits::pin;
pub(crate) use tally::{Ledger, Recorder, Report};
pub(crate) use timeline::Timeline;
pub(crate) use window::Windows;

use crate::clock;
use crate::hdr_log::HdrLog;
use crate::link::Link;
use crate::profile::Share;
use crate::protocol::{Emit, OperationRow, Protocol, Verified, names};
use connection::Target;
use rustix::net::SocketAddrUnix;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tare_core::fault::{Doing, Fault};
use tare_core::load::{Check, LoadOrder, LoadPlan, LoadSummary, LoadTask};
use worker::{Orders, Worker};

/// How long one look at readiness may take at most.
const READY_MAX: Duration = Duration::from_secs(1);

/// Carries out a plan with a protocol.
///
/// # Errors
/// When the endpoint cannot be reached, or the task did not succeed.
pub(crate) fn drive<P: Protocol>(protocol: &P, plan: &LoadPlan, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
    let nothing = |verified: Verified| LoadSummary {
        checks: verified.checks,
        facts: verified.facts,
        generator_cpus: plan.cpus.len().max(1) as u32,
        ..LoadSummary::default()
    };
    match plan.task {
        LoadTask::Ready => {
            let mut link = Link::to(protocol, plan.endpoint, plan.timeout.min(READY_MAX))?;
            protocol.ready(&mut link, plan.seed).map(|()| nothing(Verified::default()))
        }
        LoadTask::Populate => protocol.populate(plan).map(nothing),
        LoadTask::Run => run(protocol, plan, emit),
    }
}

/// The CPUs of each worker; an empty list leaves it to the kernel.
pub(crate) fn worker_cpus(plan: &LoadPlan, at_most: usize) -> Vec<Vec<u32>> {
    let each: Vec<_> = plan.cpus.cpus().iter().take(at_most.max(1)).map(|cpu| vec![*cpu]).collect();
    if each.is_empty() { vec![Vec::new()] } else { each }
}

/// Runs a worker and reports how it ended, even by a broken invariant, which the gatherer would wait for in vain.
pub(crate) fn report_end(out: &Sender<Report>, work: impl FnOnce() -> Result<Ledger, Fault>) {
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Fault::new("a load worker stopped at a broken invariant; this is a defect of tare").remedy("report it"))
    });
    // A gatherer that is gone has failed already.
    let _ = out.send(Report::Ended(result));
}

/// The windows by which operations are counted, where they are counted by their planned starts.
pub(crate) fn windows(plan: &LoadPlan, layout: &Layout, operations: &[OperationRow]) -> Option<Windows> {
    let limit = |operation: &OperationRow| {
        let limit = plan.limits.get(&operation.name).or_else(|| plan.limits.get("*"));
        limit.map_or(u64::MAX, |limit| clock::span_ns(*limit))
    };
    let longest = plan.limits.values().max().unwrap_or(&plan.timeout);
    // One level's answers are awaited while the next one runs; where there are no levels, to the end.
    let patience_ns = if layout.levels { clock::span_ns(*longest) } else { u64::MAX };
    layout.planned.then(|| Windows::new(operations.iter().map(limit).collect(), patience_ns))
}

fn run<P: Protocol>(protocol: &P, plan: &LoadPlan, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
    if plan.measure.is_zero() {
        return Err(Fault::new("nothing can be measured in no time").remedy("give 'measure' a duration above 0"));
    }
    let operations = protocol.operations();
    let layout = Layout::new(plan, &operations, protocol.fresh())?;
    if layout.pipeline > 1 && !P::PIPELINES {
        let message = format!("protocol '{}' has one operation at a time on a connection", plan.protocol);
        return Err(Fault::new(message).remedy("leave 'pipeline' at 1 and use more connections").as_mistake());
    }
    let target = match protocol.socket() {
        Some(path) => Target::Unix(SocketAddrUnix::new(path).doing(format_args!("use {}", path.display()))?),
        None => Target::Tcp(plan.endpoint),
    };
    limits::open_files(layout.connections)?;
    let log = plan.hdr_log.as_deref().map(HdrLog::create).transpose()?;
    pin(plan.cpus.cpus())?;
    let teams = worker_cpus(plan, layout.connections as usize);
    let workers = teams.len() as u64;
    let stop = AtomicBool::new(false);
    let (out, reports) = channel();
    let (before, mut gather) = std::thread::scope(|scope| {
        let mut starts = Vec::new();
        let mut gather = Gather::new(names(protocol), layout.levels, log);
        for (worker, cpus) in (0..).zip(&teams) {
            let (start, begin) = channel::<Arc<Timeline>>();
            starts.push(start);
            let share = Share { worker, workers };
            let spares = gather.worker(share.of(layout.connections) * layout.pipeline);
            let windows = windows(plan, &layout, &operations);
            let recorder = Recorder::new(worker as usize, operations.len(), out.clone(), spares, windows);
            let (layout, target, timeout_ns) = (&layout, target.clone(), clock::span_ns(plan.timeout));
            let orders = Orders { plan, layout, share, target, timeout_ns, stop: &stop };
            let out = out.clone();
            scope.spawn(move || {
                report_end(&out, || {
                    pin(cpus)?;
                    Worker::new(protocol, orders, recorder)?.run(&begin)
                });
            });
        }
        drop(out);
        let result = gather.await_connected(workers as usize, &reports).and_then(|()| {
            let before = protocol.before(plan)?;
            let timeline = Arc::new(layout.timeline(plan));
            for start in &starts {
                // A worker that is gone has reported why.
                let _ = start.send(Arc::clone(&timeline));
            }
            let orders = emit.orders();
            let (told, stop_too) = (Arc::clone(&timeline), &stop);
            scope.spawn(move || guide(&told, orders, stop_too));
            let collected = gather.collect(&timeline, &reports, emit);
            stop.store(true, Ordering::Relaxed);
            collected.map(|()| before)
        });
        stop.store(true, Ordering::Relaxed);
        drop(starts);
        result.map(|before| (before, gather))
    })?;
    gather.own_cpu();
    let checks = closing_checks(protocol, plan, &before, gather.ledger());
    Ok(gather.finish(plan, checks))
}

/// Hands on what a load is told, until it is told to end. Nobody may be there to tell it any more: then a guided load
/// ends, and any other goes on as planned.
pub(crate) fn guide(timeline: &Timeline, orders: Option<Receiver<LoadOrder>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match (orders.as_ref().map(|orders| orders.recv_timeout(Duration::from_millis(50))), &timeline.guide) {
            (Some(Ok(LoadOrder::Hold(hold))), Some(guide)) => guide.hold(&hold),
            (Some(Ok(LoadOrder::Hold(_)) | Err(RecvTimeoutError::Timeout)), _) => {}
            (Some(Err(RecvTimeoutError::Disconnected)) | None, None) => return,
            (Some(Ok(LoadOrder::End) | Err(RecvTimeoutError::Disconnected)) | None, _) => return timeline.end(),
        }
    }
}

/// The server's own counts against ours. A server that does not tell any more is a check that failed, not a failed
/// run: what was measured was measured.
fn closing_checks<P: Protocol>(protocol: &P, plan: &LoadPlan, before: &P::Before, ledger: &Ledger) -> Verified {
    protocol.verify(plan, before, ledger).unwrap_or_else(|fault| Verified {
        checks: vec![Check { name: "the server's own counts".into(), passed: false, detail: fault.to_string() }],
        ..Verified::default()
    })
}
