//! No network, no server: an operation is done as soon as it is asked for. Shows what the apparatus itself can do, and
//! allows testing the whole pipeline without a service.

use super::{ErasedProtocol, LoadProtocol, erased};
use crate::clock;
use crate::engine::{Emit, Gather, Layout, Recorder, Timeline, Workers, pin};
use crate::hdr_log::HdrLog;
use crate::operation::{Flight, Ledger, OperationRow, Reply, Verified};
use crate::profile::{Source, Spoken};
use crate::script::ValueRef;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tare_core::config::{Fields, Node, Problems};
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadSummary, LoadTask};

/// Operations done between two readings of the clock.
const BATCH: usize = 32;
/// The longest sleep of a worker with nothing due.
const NAP: std::time::Duration = std::time::Duration::from_micros(500);

/// The only operation.
const NOTHING: &str = "nothing";

/// This protocol, for the list.
pub(super) const PROTOCOL: &dyn ErasedProtocol = erased::<Null>();

/// Stands for this protocol.
struct Null;

/// It has none.
#[derive(Debug, Serialize, Deserialize)]
struct Options {}

impl LoadProtocol for Null {
    type Options = Options;
    const NAME: &'static str = "null";
    const ABOUT: &'static str =
        "no network and no server: every operation is done at once, to see what the apparatus itself can do";

    fn read(node: &Node, problems: &mut Problems) -> Option<Options> {
        let before = problems.len();
        Fields::of(node, "protocol 'null'", problems)?.finish(problems);
        (problems.len() == before).then_some(Options {})
    }

    fn operations(_options: &Options) -> Vec<String> {
        vec![NOTHING.to_owned()]
    }

    fn drive(plan: &LoadPlan, _options: Options, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
        drive(plan, emit)
    }
}

fn drive(plan: &LoadPlan, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
    if plan.task != LoadTask::Run {
        return Ok(LoadSummary::default());
    }
    if plan.measure.is_zero() {
        return Err(Fault::new("a time of 0 s measures nothing").remedy("give 'measure' a duration above 0"));
    }
    let operations = [OperationRow { name: NOTHING.to_owned(), weight: 1, lingers: false }];
    let layout = Layout::new(plan, &operations, false)?;
    let log = plan.hdr_log.as_deref().map(HdrLog::create).transpose()?;
    pin(plan.cpus.cpus())?;
    let crew = Workers::new(plan, &layout, &operations, usize::MAX);
    let timeline = Arc::new(layout.timeline(plan));
    let mut gather = Gather::new(&operations, layout.levels, log);
    std::thread::scope(|scope| {
        // Never called saturated: being busy is its purpose.
        let reports = crew.start(scope, &mut gather, false, |share| {
            let (crew, timeline) = (&crew, Arc::clone(&timeline));
            move |recorder| {
                let spoken = Spoken { operations: crew.operations, variable: &|_| None };
                let source = crew.layout.source(plan, &timeline, spoken, share)?;
                Ok(spin(recorder, source, &timeline, &crew.stop))
            }
        });
        crew.follow(scope, &timeline, (&mut gather, &reports), emit)
    })?;
    gather.own_cpu();
    Ok(gather.finish(plan, Verified::default(), None))
}

/// Does the next operation that is due at `due_ns`; returns whether there was one.
fn take(recorder: &mut Recorder, source: &mut Source, due_ns: u64, now_ns: u64) -> bool {
    let Some(start) = source.take(due_ns, |_, _| ValueRef::Unset) else { return false };
    recorder.planned(&start, now_ns);
    recorder.sent(start.planned_ns, 0);
    let flight = Flight { planned_ns: start.planned_ns, start_ns: now_ns, ..Flight::default() };
    recorder.answered(now_ns, &flight, Reply::Right);
    source.done(start.user, now_ns, true);
    true
}

fn spin(mut recorder: Recorder, mut source: Source, timeline: &Arc<Timeline>, stop: &AtomicBool) -> Ledger {
    recorder.begin(Arc::clone(timeline));
    let mut now_ns = clock::monotonic_ns();
    while recorder.sending() && !stop.load(Ordering::Relaxed) {
        let (woke_ns, mut done) = (now_ns, 0);
        if let Source::Closed(_) = source {
            for _ in 0..BATCH {
                recorder.looped(woke_ns, 0);
            }
            now_ns = clock::monotonic_ns();
            let flight = Flight { planned_ns: woke_ns, start_ns: woke_ns, ..Flight::default() };
            for _ in 0..BATCH {
                recorder.answered(now_ns, &flight, Reply::Right);
            }
            done = BATCH as u64;
        } else {
            while done < BATCH as u64 && take(&mut recorder, &mut source, now_ns, now_ns) {
                done += 1;
            }
            if done == 0 {
                let nap_ns = source.next_ns().min(recorder.next_at_ns()).saturating_sub(now_ns);
                std::thread::sleep(NAP.min(std::time::Duration::from_nanos(nap_ns)));
            }
            now_ns = clock::monotonic_ns();
        }
        recorder.round((woke_ns, now_ns), 0, done, source.next_ns());
        recorder.advance(now_ns);
        recorder.listen(&mut source);
    }
    // Operations that were due before the end but had not been reached by then were planned all the same.
    let last_ns = timeline.end_ns().saturating_sub(1);
    while !stop.load(Ordering::Relaxed) && take(&mut recorder, &mut source, last_ns, clock::monotonic_ns()) {}
    recorder.finish(timeline.end_ns())
}
