//! Keeps connections busy, measures and counts. Generic over the protocol.
//!
//! One thread a CPU, each with its own epoll and its share of the connections; nothing is shared while they work.
//! Time is read once for each batch of bytes received: that moment ends the operations answered by them and starts
//! those sent in their place.

mod connection;
mod gather;
mod limits;
mod saturation;
mod tally;
mod timeline;
mod worker;

pub(crate) use gather::Gather;
pub(crate) use limits::pin;
pub(crate) use tally::{Ledger, Recorder, Report};
pub(crate) use timeline::Timeline;

use crate::clock;
use crate::link::Link;
use crate::protocol::{Emit, Protocol, Verified, names};
use connection::Target;
use rustix::net::SocketAddrUnix;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tare_core::fault::{Doing, Fault};
use tare_core::load::{Check, LoadPlan, LoadProfile, LoadSummary, LoadTask};
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

fn run<P: Protocol>(protocol: &P, plan: &LoadPlan, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
    let LoadProfile::Closed { connections, pipeline } = plan.profile else {
        return Err(Fault::new("only closed loads can be driven"));
    };
    if pipeline > 1 && !P::PIPELINES {
        let message = format!("protocol '{}' has one operation at a time on a connection", plan.protocol);
        return Err(Fault::new(message).remedy("leave 'pipeline' at 1 and use more connections").as_mistake());
    }
    let target = match protocol.socket() {
        Some(path) => Target::Unix(SocketAddrUnix::new(path).doing(format_args!("use {}", path.display()))?),
        None => Target::Tcp(plan.endpoint),
    };
    if plan.measure.is_zero() {
        return Err(Fault::new("nothing can be measured in no time").remedy("give 'measure' a duration above 0"));
    }
    limits::open_files(u64::from(connections))?;
    pin(plan.cpus.cpus())?;
    let teams = worker_cpus(plan, connections as usize);
    let stop = AtomicBool::new(false);
    let (out, reports) = channel();
    let (before, mut gather) = std::thread::scope(|scope| {
        let mut starts = Vec::new();
        let mut gather = Gather::new(names(protocol), plan.measure);
        for (number, cpus) in teams.iter().enumerate() {
            // Connection i of the run is worker i modulo their number's.
            let numbers = (number as u64..u64::from(connections)).step_by(teams.len());
            let (start, begin) = channel::<Arc<Timeline>>();
            starts.push(start);
            let spares = gather.worker(numbers.clone().count() as u64 * u64::from(pipeline));
            let recorder = Recorder::new(number, protocol.operations().len(), out.clone(), spares);
            let timeout_ns = clock::span_ns(plan.timeout);
            let orders = Orders { target: target.clone(), pipeline: pipeline as usize, timeout_ns, stop: &stop };
            let out = out.clone();
            scope.spawn(move || {
                report_end(&out, || {
                    pin(cpus)?;
                    Worker::new(protocol, orders, recorder, plan.seed, numbers)?.run(&begin)
                });
            });
        }
        drop(out);
        let result = conduct(protocol, plan, &mut gather, starts, &reports, emit);
        stop.store(true, Ordering::Relaxed);
        result.map(|before| (before, gather))
    })?;
    gather.own_cpu();
    let checks = closing_checks(protocol, plan, &before, gather.ledger());
    Ok(gather.finish(plan, checks))
}

/// From the first connection to the last reply.
fn conduct<P: Protocol>(
    protocol: &P,
    plan: &LoadPlan,
    gather: &mut Gather,
    starts: Vec<Sender<Arc<Timeline>>>,
    reports: &Receiver<Report>,
    emit: &mut Emit<'_>,
) -> Result<P::Before, Fault> {
    gather.await_connected(starts.len(), reports)?;
    let before = protocol.before(plan)?;
    let timeline = Arc::new(Timeline::new(clock::monotonic_ns(), plan.settle, plan.measure));
    for start in &starts {
        // A worker that is gone has reported why.
        let _ = start.send(Arc::clone(&timeline));
    }
    drop(starts);
    gather.collect(&timeline, reports, emit)?;
    Ok(before)
}

/// The server's own counts against ours. A server that does not tell any more is a check that failed, not a failed
/// run: what was measured was measured.
fn closing_checks<P: Protocol>(protocol: &P, plan: &LoadPlan, before: &P::Before, ledger: &Ledger) -> Verified {
    protocol.verify(plan, before, ledger).unwrap_or_else(|fault| Verified {
        checks: vec![Check { name: "the server's own counts".into(), passed: false, detail: fault.to_string() }],
        ..Verified::default()
    })
}
