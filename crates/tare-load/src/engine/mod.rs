//! Keeps connections busy, measures and counts. Generic over the protocol.
//!
//! There is one thread per CPU, each with its own epoll and its share of the connections; they share nothing while they
//! work. Time is read once for each batch of bytes received: that moment ends the operations answered by them and
//! starts those sent in their place.

mod accounts;
mod batches;
mod connection;
mod emit;
mod frozen;
mod gather;
mod idle;
mod late_acks;
mod layout;
mod lengths;
mod limits;
mod rounds;
mod rows;
mod saturation;
mod spans;
mod starts;
mod talk;
mod tally;
mod timeline;
mod turn;
mod turns;
mod waves;
mod window;
mod worker;
mod workers;

pub use emit::Emit;
pub use frozen::serve_freezer;
pub(crate) use gather::Gather;
pub(crate) use layout::Layout;
pub(crate) use limits::{open_files, pin};
pub(crate) use tally::Recorder;
pub(crate) use timeline::Timeline;
pub(crate) use turns::Turns;
pub(crate) use workers::Workers;

use crate::clock;
use crate::hdr_log::HdrLog;
use crate::operation::{Ledger, Link, Protocol, Verified};
use connection::Target;
use rustix::net::SocketAddrUnix;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;
use tare_core::fault::{Doing, Fault};
use tare_core::load::{Check, LoadPlan, LoadSummary, LoadTask};
use turns::Seat;
use worker::{Orders, Worker};

/// The longest that one readiness check may take.
const READY_MAX: Duration = Duration::from_secs(1);

/// Carries out a plan with a protocol: checks whether the service is ready, writes the data set, or loads and measures.
///
/// # Errors
/// When the endpoint cannot be reached, or the task did not succeed.
pub fn drive<P: Protocol>(protocol: &P, plan: &LoadPlan, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
    if protocol.operations().iter().all(|operation| operation.weight == 0) {
        return Err(Fault::new(format!("no operation of protocol '{}' has a weight above 0", plan.protocol)));
    }
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

fn run<P: Protocol>(protocol: &P, plan: &LoadPlan, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
    if plan.measure.is_zero() {
        return Err(Fault::new("a time of 0 s measures nothing").remedy("give 'measure' a duration above 0"));
    }
    let operations = protocol.operations();
    let layout = Layout::new(plan, &operations, protocol.fresh())?;
    if layout.pipeline > 1 && !P::PIPELINES {
        let message = format!("protocol '{}' has one operation at a time on a connection", plan.protocol);
        return Err(Fault::new(message).remedy("leave 'pipeline' at 1 and use more connections").as_mistake());
    }
    let target = match protocol.socket() {
        Some(path) => Target::Unix(SocketAddrUnix::new(path).doing(format_args!("use {}", path.display()))?),
        None => {
            let all = std::iter::once(plan.endpoint).chain(plan.also.iter().copied()).collect();
            Target::Tcp(all, protocol.socket_options())
        }
    };
    let seat = emit.seat();
    if seat.is_some() && layout.manner != layout::Manner::Closed {
        let message = "only a closed loop whose connections stay can take turns with others";
        return Err(Fault::new(message).remedy("use another design than `chop`").as_mistake());
    }
    limits::open_files(layout.connections * (1 + layout.beside))?;
    let log = plan.hdr_log.as_deref().map(HdrLog::create).transpose()?;
    pin(plan.cpus.cpus())?;
    let crew = Workers::new(plan, &layout, &operations, layout.connections as usize);
    let mut gather = Gather::new(&operations, layout.levels, log);
    let (before, told) = std::thread::scope(|scope| {
        let mut starts = Vec::new();
        let reports = crew.start(scope, &mut gather, true, |share| {
            let (start, begin) = channel::<Arc<Timeline>>();
            starts.push(start);
            let (target, timeout_ns) = (target.clone(), clock::span_ns(plan.timeout));
            let (stop, seat) = (&crew.stop, seat.as_ref());
            let orders = Orders { plan, layout: crew.layout, share, target, timeout_ns, stop, seat };
            move |recorder| Worker::new(protocol, orders, recorder)?.run(&begin)
        });
        let result = gather.await_connected(starts.len(), &reports).and_then(|()| {
            let before = protocol.before(plan)?;
            let timeline = Arc::new(match &seat {
                Some(seat) => {
                    let in_flight = layout.connections * layout.pipeline;
                    let start_ns = seat.join(crew.cpus.len(), in_flight).ok_or_else(|| Fault::new("interrupted"))?;
                    Timeline::new(start_ns, seat.settle(), Duration::MAX)
                }
                None => layout.timeline(plan),
            });
            for start in &starts {
                // A worker that is gone has reported why.
                let _ = start.send(Arc::clone(&timeline));
            }
            crew.follow(scope, &timeline, (&mut gather, &reports), emit)?;
            Ok((before, timeline.told()))
        });
        // Workers that are still connecting or waiting for the start are released.
        crew.stop.store(true, Ordering::Relaxed);
        result
    })?;
    gather.own_cpu();
    // A load that was told to end does not wait for the server's counts, which say nothing about a load that was cut
    // off.
    let checks = match told {
        true => Verified::default(),
        false => closing_checks(protocol, plan, &before, gather.ledger()),
    };
    let lengths = seat.as_ref().map_or_else(Vec::new, Seat::lengths);
    let batches = seat.as_ref().map_or_else(Vec::new, Seat::batches);
    let spans = seat.as_ref().map_or_else(Vec::new, Seat::spans);
    let cpu_by_turn = seat.as_ref().map_or_else(Vec::new, Seat::cpu_by_turn);
    let summary = gather.finish(plan, checks, seat.map(|seat| (seat.summary(), seat.lost())));
    Ok(LoadSummary { lengths, batches, spans, cpu_by_turn, ..summary })
}

/// Checks the server's own counts against ours. A server that no longer reports them fails this check; that is the
/// server's behaviour and does not void what was measured.
fn closing_checks<P: Protocol>(protocol: &P, plan: &LoadPlan, before: &P::Before, ledger: &Ledger) -> Verified {
    protocol.verify(plan, before, ledger).unwrap_or_else(|fault| Verified {
        checks: vec![Check {
            always: false,
            outcome: true,
            name: "the server's own counts".into(),
            passed: false,
            detail: fault.to_string(),
        }],
        ..Verified::default()
    })
}
