//! Starts workers and follows them to the end of a run, whatever work they do.

use super::emit::Emit;
use super::gather::Gather;
use super::layout::Layout;
use super::limits::pin;
use super::tally::{Recorder, Report};
use super::timeline::Timeline;
use super::window::Windows;
use crate::clock;
use crate::operation::{Ledger, OperationRow};
use crate::profile::Share;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::load::{LoadOrder, LoadPlan};

/// The workers of a run: one for each CPU.
pub(crate) struct Workers<'a> {
    /// The plan.
    pub plan: &'a LoadPlan,
    /// The plan, laid out.
    pub layout: &'a Layout,
    /// The operations of the protocol.
    pub operations: &'a [OperationRow],
    /// The CPUs of each worker; an empty list leaves it to the kernel.
    pub cpus: Vec<Vec<u32>>,
    /// Raised when everything is to end.
    pub stop: AtomicBool,
}

impl<'a> Workers<'a> {
    /// At most `at_most` workers.
    pub(crate) fn new(plan: &'a LoadPlan, layout: &'a Layout, operations: &'a [OperationRow], at_most: usize) -> Self {
        let each: Vec<_> = plan.cpus.cpus().iter().take(at_most.max(1)).map(|cpu| vec![*cpu]).collect();
        let cpus = if each.is_empty() { vec![Vec::new()] } else { each };
        Workers { plan, layout, operations, cpus, stop: AtomicBool::new(false) }
    }

    /// Starts them: each does the work that `work` returns for its share. Returns the channel of their reports, for
    /// `gather`. If they are not `judged`, none of them is called saturated.
    pub(crate) fn start<'scope, W>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        gather: &mut Gather,
        judged: bool,
        mut work: impl FnMut(Share) -> W,
    ) -> Receiver<Report>
    where
        W: FnOnce(Recorder) -> Result<Ledger, Fault> + Send + 'scope,
    {
        let (out, reports) = channel();
        let (workers, logged) = (self.cpus.len() as u64, self.plan.hdr_log.is_some());
        for (worker, cpus) in (0..).zip(&self.cpus) {
            let share = Share { worker, workers };
            let spares = gather.worker(self.layout.closed_loop(share).filter(|_| judged));
            let (count, windows) = (self.operations.len(), self.windows());
            let recorder = Recorder::new(worker as usize, count, out.clone(), spares, windows, logged);
            let (work, out) = (work(share), out.clone());
            scope.spawn(move || report_end(&out, || pin(cpus).and_then(|()| work(recorder))));
        }
        reports
    }

    /// Collects their reports to the end of the run, and passes the load's orders on.
    ///
    /// # Errors
    /// The error of the first worker that fails, or an error if the rows have no reader any more.
    pub(crate) fn follow<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        timeline: &Arc<Timeline>,
        (gather, reports): (&mut Gather, &Receiver<Report>),
        emit: &mut Emit<'_>,
    ) -> Result<(), Fault> {
        let (told, orders) = (Arc::clone(timeline), emit.orders());
        scope.spawn(move || guide(&told, orders, &self.stop));
        let collected = gather.collect(timeline, reports, emit);
        self.stop.store(true, Ordering::Relaxed);
        collected
    }

    /// The windows that count operations by their planned starts, if they are counted so.
    fn windows(&self) -> Option<Windows> {
        let Workers { plan, layout, .. } = self;
        let limit = |operation: &OperationRow| {
            let limit = plan.limits.get(&operation.name).or_else(|| plan.limits.get("*"));
            limit.map_or(u64::MAX, |limit| clock::span_ns(*limit))
        };
        let longest = plan.limits.values().max().unwrap_or(&plan.timeout);
        // One level's answers are awaited while the next one runs; without levels, to the end.
        let patience_ns = if layout.levels { clock::span_ns(*longest) } else { u64::MAX };
        let lingers = self.operations.iter().map(|operation| operation.lingers).collect();
        layout.planned.then(|| Windows::new(self.operations.iter().map(limit).collect(), lingers, patience_ns))
    }
}

/// Runs a worker and reports how it ended, even at a broken invariant: otherwise the gatherer would wait for ever.
fn report_end(out: &Sender<Report>, work: impl FnOnce() -> Result<Ledger, Fault>) {
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Fault::new("a load worker stopped at a broken invariant; this is a defect of tare").remedy("report it"))
    });
    // A gatherer that is gone has already failed.
    let _ = out.send(Report::Ended(result));
}

/// Passes on a load's orders until it is told to end. If the source of orders is gone, a guided load ends, and any
/// other goes on as planned.
fn guide(timeline: &Timeline, orders: Option<Receiver<LoadOrder>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match (orders.as_ref().map(|orders| orders.recv_timeout(Duration::from_millis(50))), &timeline.guide) {
            (Some(Ok(LoadOrder::Hold(hold))), Some(guide)) => guide.hold(&hold),
            (Some(Ok(LoadOrder::Hold(_) | LoadOrder::Ran(_)) | Err(RecvTimeoutError::Timeout)), _) => {}
            (Some(Err(RecvTimeoutError::Disconnected)) | None, None) => return,
            (Some(Ok(LoadOrder::End) | Err(RecvTimeoutError::Disconnected)) | None, _) => return timeline.end(),
        }
    }
}
