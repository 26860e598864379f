//! Merges what the workers counted: a row per second, a row per level, and a summary at the end.

use super::emit::Emit;
use super::late_acks::LateAcks;
use super::layout::Loop;
use super::rows::{response, row, second};
use super::saturation::{self, Effort};
use super::tally::{Report, Tally};
use super::timeline::{Cut, Timeline};
use super::window::{Outcomes, Window};
use super::worker::NOBODY_NS;
use crate::clock::{self, SECOND_NS};
use crate::hdr_log::HdrLog;
use crate::histogram::Histogram;
use crate::operation::{Failure, Failures, Ledger, OperationRow, Verified};
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::load::{
    Check, GeneratorHealth, LoadLine, LoadPlan, LoadSummary, OperationSummary, SecondRow, TurnsSummary, WindowRow,
};

/// One worker, seen from the gatherer.
struct Crew {
    spares: Sender<Box<Tally>>,
    closed: Option<Loop>,
    effort: Effort,
}

/// A span that not every worker has handed over yet.
struct Open {
    index: usize,
    missing: usize,
    row: SecondRow,
    times: Vec<Histogram>,
    // By operation: times for the log.
    counted: Vec<Histogram>,
}

/// A window that not every worker has handed over yet.
struct OpenWindow {
    missing: usize,
    window: Box<Window>,
    busy: f64,
    saturated: Option<String>,
}

/// The gathering side of a run.
pub(crate) struct Gather {
    operations: Vec<String>,
    // By operation: whether its times say nothing about the service.
    lingers: Vec<bool>,
    crew: Vec<Crew>,
    open: VecDeque<Open>,
    windows: VecDeque<OpenWindow>,
    // By operation: times of everything answered while measuring.
    times: Vec<Histogram>,
    // By operation: times of what began while measuring and was answered afterwards.
    rest: Vec<Histogram>,
    errors: Vec<u64>,
    empty: Vec<u64>,
    rested: Vec<u64>,
    failures: Failures,
    offered: u64,
    started: u64,
    dropped: u64,
    lag: Histogram,
    // Counted by planned start: all windows merged; none if operations are counted by their answers only.
    planned: Option<Box<Window>>,
    rows: Vec<WindowRow>,
    levels: bool,
    log: Option<HdrLog>,
    ledger: Ledger,
    span: (u64, u64),
    cpu_ns: u64,
    cpu_mark_ns: u64,
    late_acks: LateAcks,
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn histograms(count: usize) -> Vec<Histogram> {
    (0..count).map(|_| Histogram::new()).collect()
}

fn merge(to: &mut [Histogram], from: &[Histogram]) {
    to.iter_mut().zip(from).for_each(|(to, from)| to.merge(from));
}

impl Gather {
    /// A gatherer for these operations. With `levels`, each window is reported as a row of its own.
    pub(crate) fn new(operations: &[OperationRow], levels: bool, log: Option<HdrLog>) -> Self {
        let count = operations.len();
        Gather {
            operations: operations.iter().map(|operation| operation.name.clone()).collect(),
            lingers: operations.iter().map(|operation| operation.lingers).collect(),
            crew: Vec::new(),
            open: VecDeque::new(),
            windows: VecDeque::new(),
            times: histograms(count),
            rest: histograms(count),
            errors: vec![0; count],
            empty: vec![0; count],
            rested: vec![0; count],
            failures: Failures::default(),
            offered: 0,
            started: 0,
            dropped: 0,
            lag: Histogram::new(),
            planned: None,
            rows: Vec::new(),
            levels,
            log,
            ledger: Ledger::new(count),
            span: (0, 0),
            cpu_ns: 0,
            cpu_mark_ns: 0,
            late_acks: LateAcks::default(),
        }
    }

    /// Adds the next worker, with its part of a closed loop if it may be called saturated; returns the channel on which
    /// the worker gets its tallies back.
    pub(crate) fn worker(&mut self, closed: Option<Loop>) -> Receiver<Box<Tally>> {
        let (spares, back) = channel();
        self.crew.push(Crew { spares, closed, effort: Effort::default() });
        back
    }

    /// What was sent and answered over the whole run.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Waits until `workers` are connected.
    ///
    /// # Errors
    /// The error of the first worker that cannot connect.
    pub(crate) fn await_connected(&mut self, workers: usize, reports: &Receiver<Report>) -> Result<(), Fault> {
        for _ in 0..workers {
            match reports.recv() {
                Ok(Report::Connected) => {}
                Ok(Report::Ended(result)) => return Err(result.err().unwrap_or_else(ended_early)),
                Ok(Report::Cut { .. } | Report::Window { .. } | Report::Rest(_)) => {
                    unreachable!("nothing is counted before the start")
                }
                Err(_) => return Err(ended_early()),
            }
        }
        Ok(())
    }

    /// Collects until the end of the run and emits the rows.
    ///
    /// # Errors
    /// The error of the first worker that fails, or an error if the rows have no reader any more.
    pub(crate) fn collect(
        &mut self,
        timeline: &Timeline,
        reports: &Receiver<Report>,
        emit: &mut Emit<'_>,
    ) -> Result<(), Fault> {
        // The load may be told to end early.
        self.span = (timeline.measure_start_ns, timeline.measure_start_ns);
        self.cpu_mark_ns = clock::thread_cpu_ns();
        self.late_acks.mark();
        let mut running = self.crew.len();
        while running > 0 {
            match reports.recv() {
                Ok(Report::Cut { worker, cut, tally }) => {
                    if let Some(row) = self.take(worker, cut, tally)? {
                        emit.line(LoadLine::Second(row))?;
                    }
                }
                Ok(Report::Window { worker, window }) => {
                    if let Some(row) = self.take_window(worker, window) {
                        emit.line(LoadLine::Window(row))?;
                    }
                }
                Ok(Report::Rest(tally)) => self.take_rest(&tally)?,
                Ok(Report::Ended(result)) => {
                    self.ledger.merge(&result?);
                    running -= 1;
                }
                Ok(Report::Connected) => unreachable!("all are connected"),
                Err(_) => return Err(ended_early()),
            }
        }
        Ok(())
    }

    /// Takes one worker's tally of one span; returns a row if it was the last worker's.
    fn take(
        &mut self,
        worker: usize,
        (index, cut): (usize, Cut),
        mut tally: Box<Tally>,
    ) -> Result<Option<SecondRow>, Fault> {
        let workers = self.crew.len();
        let at = self.open.iter().position(|open| open.index == index).unwrap_or_else(|| {
            let row = SecondRow { measured: cut.measured, ..SecondRow::default() };
            let (times, counted) = (histograms(self.operations.len()), histograms(tally.counted.len()));
            self.open.push_back(Open { index, missing: workers, row, times, counted });
            self.open.len() - 1
        });
        let open = &mut self.open[at];
        merge(&mut open.times, &tally.times);
        merge(&mut open.counted, &tally.counted);
        open.row.errors += tally.errors.iter().sum::<u64>();
        open.row.offered += tally.offered;
        open.row.started += tally.started;
        open.row.dropped += tally.dropped;
        open.row.at_ns = open.row.at_ns.max(cut.at_ns);
        // A load may be told to end before the next span to be counted has begun.
        let length_ns = cut.at_ns.saturating_sub(cut.from_ns);
        open.row.seconds = open.row.seconds.max(length_ns as f64 / SECOND_NS as f64);
        open.missing -= 1;
        if cut.measured {
            self.add(worker, &tally);
            self.span.1 = self.span.1.max(cut.at_ns);
        } else {
            self.cpu_mark_ns = clock::thread_cpu_ns();
            self.late_acks.mark();
        }
        tally.clear();
        // A worker that is gone no longer needs a tally.
        let _ = self.crew[worker].spares.send(tally);
        if self.open[at].missing > 0 {
            return Ok(None);
        }
        let Some(open) = self.open.remove(at) else { return Ok(None) };
        if let (Some(log), true) = (&mut self.log, cut.measured) {
            let times = if open.counted.is_empty() { &open.times } else { &open.counted };
            log.interval(cut.from_ns, open.row.at_ns, &self.operations, times)?;
        }
        Ok(Some(second(open.row, &open.times, &self.lingers)))
    }

    /// Takes what one worker counted after the end. Where windows count, it is already in them.
    fn take_rest(&mut self, tally: &Tally) -> Result<(), Fault> {
        if let Some(log) = &mut self.log {
            let times = if tally.counted.is_empty() { &tally.times } else { &tally.counted };
            log.interval(self.span.1, clock::monotonic_ns(), &self.operations, times)?;
        }
        merge(&mut self.rest, &tally.times);
        self.errors.iter_mut().zip(&tally.errors).for_each(|(to, from)| *to += from);
        self.failures.merge(&tally.failures);
        Ok(())
    }

    /// Adds the tally of a measured span.
    fn add(&mut self, worker: usize, tally: &Tally) {
        merge(&mut self.times, &tally.times);
        self.errors.iter_mut().zip(&tally.errors).for_each(|(to, from)| *to += from);
        self.empty.iter_mut().zip(&tally.empty).for_each(|(to, from)| *to += from);
        self.rested.iter_mut().zip(&tally.rested).for_each(|(to, from)| *to += from);
        self.failures.merge(&tally.failures);
        self.offered += tally.offered;
        self.started += tally.started;
        self.dropped += tally.dropped;
        self.lag.merge(&tally.lag);
        let effort = &mut self.crew[worker].effort;
        effort.cpu_ns += tally.cpu_ns;
        effort.idle_ns += tally.idle_ns;
        effort.replies += tally.replies;
        effort.crowd += tally.crowd;
    }

    /// Takes one worker's window; returns a row if it was the last worker's and levels are reported.
    fn take_window(&mut self, worker: usize, window: Box<Window>) -> Option<WindowRow> {
        let length = Duration::from_nanos(window.span.to_ns - window.span.from_ns);
        let busy = window.effort.busy(length);
        let level = window.span.level;
        let closed = self.crew[worker].closed.as_ref();
        let closed = closed.and_then(|it| saturation::closed(window.effort, length, it.in_flight(Some(level))));
        let at = match self.windows.iter().position(|open| open.window.span == window.span) {
            Some(at) => {
                let open = &mut self.windows[at];
                open.window.merge(&window);
                (open.busy, open.missing) = (open.busy.max(busy), open.missing - 1);
                open.saturated = open.saturated.take().or(closed);
                at
            }
            None => {
                let missing = self.crew.len() - 1;
                self.windows.push_back(OpenWindow { missing, window, busy, saturated: closed });
                self.windows.len() - 1
            }
        };
        if self.windows[at].missing > 0 {
            return None;
        }
        let OpenWindow { window, busy, saturated, .. } = self.windows.remove(at)?;
        let row = self.levels.then(|| row(&self.operations, &self.lingers, &window, busy, saturated));
        self.rows.extend(row.clone());
        match &mut self.planned {
            Some(all) => all.merge(&window),
            None => self.planned = Some(window),
        }
        row
    }

    /// Adds the calling thread's own CPU time since measuring began.
    pub(crate) fn own_cpu(&mut self) {
        self.cpu_ns = clock::thread_cpu_ns() - self.cpu_mark_ns;
    }

    /// The summary. `verified` is the result from the server's own counts; `turns` is the summary of the load's turns,
    /// and whether any load lost an operation in its turns.
    pub(crate) fn finish(
        self,
        plan: &LoadPlan,
        verified: Verified,
        turns: Option<(TurnsSummary, bool)>,
    ) -> LoadSummary {
        let (turns, lost_by_any) = turns.unzip();
        let awaited =
            |of: &[u64]| of.iter().zip(&self.lingers).map(|(count, lingers)| count * u64::from(!lingers)).sum();
        let [sent, answered, gone]: [u64; 3] =
            [&self.ledger.sent, &self.ledger.answered, &self.ledger.lost].map(|counts| awaited(counts));
        // A load that takes turns is at work for only part of the time.
        let measured_ns = turns.map_or(self.span.1 - self.span.0, |turns| turns.active_ns);
        let measured = Duration::from_nanos(measured_ns);
        let busy: Vec<f64> = self.crew.iter().map(|crew| crew.effort.busy(measured)).collect();
        let mut failures = self.planned.as_ref().map_or(&self.failures, |planned| &planned.failures).clone();
        let outcomes = || self.planned.iter().flat_map(|planned| &planned.outcomes);
        failures.add(Failure::TimedOut, outcomes().map(Outcomes::unanswered).sum());
        let lost = failures.sum();
        let after_end: u64 = outcomes().map(|outcomes| outcomes.after_end).sum();
        let after_end = match after_end {
            0 => String::new(),
            count => format!(", and {count} refusals after what asked had been ended, which are none"),
        };
        let mut checks = vec![Check {
            always: false,
            outcome: false,
            name: "every request was answered or counted as failed".into(),
            // Some of the lost operations were given up before they were sent.
            passed: answered <= sent && sent - answered <= gone,
            detail: format!("{sent} sent, {answered} answered; {lost} failures of what was measured{after_end}"),
        }];
        checks.extend(self.ledger.away.filter(|(away_ns, _)| *away_ns > NOBODY_NS).map(|(away_ns, why)| Check {
            always: false,
            outcome: true,
            name: "the service could be reached".into(),
            passed: false,
            detail: format!("there was no connection for {:.1} s: {}", away_ns as f64 / SECOND_NS as f64, why.name()),
        }));
        checks.extend(turns.and_then(|turns| too_short(&turns, plan.measure, gone > 0 || lost_by_any == Some(true))));
        checks.extend(verified.checks);
        let workers_ns: u64 = self.crew.iter().map(|crew| crew.effort.cpu_ns).sum();
        let counted = self.planned.as_ref().map_or((self.offered, self.started, self.dropped), |planned| {
            let sum = |read: fn(&Outcomes) -> u64| planned.outcomes.iter().map(read).sum();
            (sum(|outcomes| outcomes.planned), planned.started, sum(|outcomes| outcomes.dropped))
        });
        LoadSummary {
            measure_start_ns: self.span.0,
            measure_end_ns: self.span.1,
            operations: self.summaries(),
            offered: counted.0,
            started: counted.1,
            dropped: counted.2,
            generator_cpu_s: (workers_ns + self.cpu_ns) as f64 / SECOND_NS as f64,
            generator_cpus: plan.cpus.len().max(1) as u32,
            late_acks: self.late_acks.since_mark().filter(|_| turns.is_none()),
            saturated: self.saturated(&busy, measured),
            checks,
            failures: failures.named(),
            facts: verified.facts,
            reported: BTreeMap::new(),
            metrics: BTreeMap::new(),
            inside: None,
            health: Some(self.health(busy, measured)),
            windows: self.rows,
            turns,
            lengths: Vec::new(),
            batches: Vec::new(),
            spans: Vec::new(),
            cpu_by_turn: Vec::new(),
            by_load: Vec::new(),
        }
    }

    fn summaries(&self) -> BTreeMap<String, OperationSummary> {
        let summary = |at: usize| {
            let (count, empty) = (self.times[at].total() + self.rested[at], self.empty[at]);
            let lingers = self.lingers[at];
            let Some(planned) = &self.planned else {
                let mut times = self.times[at].clone();
                times.merge(&self.rest[at]);
                let exported = times.export();
                let (service_time, response_time) = (exported.clone(), exported);
                let errors = self.errors[at];
                let after_end = 0;
                return OperationSummary { count, errors, empty, service_time, response_time, lingers, after_end };
            };
            let outcomes = &planned.outcomes[at];
            OperationSummary {
                count,
                errors: outcomes.failed + outcomes.unanswered(),
                empty,
                service_time: outcomes.service.export(),
                response_time: outcomes.response.export(),
                lingers,
                after_end: outcomes.after_end,
            }
        };
        self.operations.iter().enumerate().map(|(at, name)| (name.clone(), summary(at))).collect()
    }

    fn saturated(&self, busy: &[f64], measured: Duration) -> Option<String> {
        if self.levels {
            // Each level has a verdict of its own.
            return None;
        }
        let Some(planned) = &self.planned else {
            let closed = |crew: &Crew| {
                let in_flight = crew.closed.as_ref()?.in_flight(None);
                saturation::closed(crew.effort, measured, in_flight)
            };
            return self.crew.iter().find_map(closed);
        };
        let busiest = busy.iter().copied().fold(0.0, f64::max);
        saturation::planned(&planned.late, &response(planned, &self.lingers), busiest)
    }

    fn health(&self, busy: Vec<f64>, measured: Duration) -> GeneratorHealth {
        let empty = Histogram::new();
        let late = self.planned.as_ref().map_or(&empty, |planned| &planned.late);
        GeneratorHealth {
            busy,
            awake: self.crew.iter().map(|crew| crew.effort.awake(measured)).collect(),
            late_p50_us: us(late.quantile(0.5)),
            late_p99_us: us(late.quantile(0.99)),
            late_max_us: us(late.longest()),
            late: late.above(SECOND_NS / 1000),
            lag_p99_us: us(self.lag.quantile(0.99)),
            lag_max_us: us(self.lag.longest()),
        }
    }
}

fn ended_early() -> Fault {
    Fault::new("a load worker ended before its time")
}

/// The check that fails if a load was at work for less than half of the requested time: another load has taken the
/// time. If any load `lost` operations, a service's behaviour caused that, and it invalidates no load's figures.
fn too_short(turns: &TurnsSummary, asked: Duration, lost: bool) -> Option<Check> {
    let [active_s, asked_s] = [Duration::from_nanos(turns.active_ns), asked].map(|time| time.as_secs_f64());
    (active_s < 0.5 * asked_s).then(|| Check {
        always: true,
        outcome: lost,
        name: "the load was at work for as long as was asked".into(),
        passed: false,
        detail: format!("{active_s:.2} of {asked_s:.2} s: what takes turns with it stood still"),
    })
}

#[cfg(test)]
mod tests;
