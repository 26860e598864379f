//! Loads that take turns: each has connections to a deployment of its own, and one at a time is at work, for
//! milliseconds. Disturbances on the machine last longer than that, so they affect all of them alike.
//!
//! A turn is counted whole, from its first start to its last answer, so that nothing is cut off at its ends. Within a
//! round every load has one turn of the same length; lengths vary by a tenth from round to round, so that they do not
//! stay in step with anything periodic. The order of rounds is such that each load follows each other load equally
//! often (Williams 1949, Australian Journal of Scientific Research A 2), so that the after-effects of one load fall on
//! all the others.

use super::accounts::Accounts;
use super::batches::Rounds;
use super::frozen::Freezer;
use super::lengths::{Cell, Lengths, Sums};
use super::rounds::balanced;
use super::spans::Spans;
use super::turn::{Turn, Worked};
use super::waves::{Amid, Told, move_ns, warming};
use crate::clock::{self, SECOND_NS, span_ns};
use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::load::{self, LoadPlan, TurnLength, TurnSpan, TurnUse, TurnsSummary};

/// A turn lasts this many response times of the slowest load, if no length was requested: its start and its end, when
/// fewer operations are in flight, are then a small part of it.
const RESPONSES: u64 = 10;
/// The shortest and the longest turn chosen automatically, ns.
const SHORTEST_NS: u64 = SECOND_NS / 100;
const LONGEST_NS: u64 = SECOND_NS;
/// The length of a turn while loads warm up and their response times are unknown, ns.
const WARMING_NS: u64 = SECOND_NS / 20;
/// A turn of at least this many response times of the slowest load can do without the times of its first answers.
const RESPONSES_MIN: u64 = 5;
/// The fewest turns for which each load warms up.
const WARMING_TURNS: u64 = 3;
/// How often a load waiting for a turn checks whether there will be one.
const LOOK: Duration = Duration::from_millis(20);

/// State shared by several loads.
pub(crate) struct Turns {
    settle_ns: u64,
    measure_ns: u64,
    slice_ns: Option<u64>,
    at_least_ns: u64,
    compared_to_ns: Option<u64>,
    patience_ns: u64,
    // Freezes what serves each load between its turns.
    freezer: Freezer,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    loads: Vec<Load>,
    // When the first turn began; none until all are connected.
    start_ns: Option<u64>,
    turn: Option<Turn>,
    // How many workers have not ended the current turn, and the results of the others.
    working: usize,
    span: Option<Worked>,
    told: Vec<(u64, Amid)>,
    number: u64,
    // For the current round: how long its turns are, and whose are left.
    length_ns: u64,
    round: VecDeque<usize>,
    rounds: Vec<Vec<usize>>,
    // How many rounds have begun since measuring began.
    measured_rounds: u32,
    // The load whose turn ends the current round.
    last: Option<usize>,
    // The lengths that are compared, if any, once measuring has begun; and where the turns of the current round count.
    lengths: Option<Lengths>,
    cell: Option<Cell>,
    measuring: bool,
    ended: bool,
    // The most by which a warm-up turn exceeded its intended length.
    overrun_ns: u64,
    // Whether any load has lost an operation.
    lost: bool,
    // The load whose servers run while those of the others are frozen; and whether some could not be frozen or thawed.
    awake: Option<usize>,
    ran_on: bool,
    // What services use in each load's turns, if that is counted.
    accounts: Option<Accounts>,
    random: u64,
}

#[derive(Default)]
struct Load {
    // None while it connects.
    workers: Option<usize>,
    in_flight: u64,
    gone: bool,
    warming: Sum,
    measured: Sum,
    // Measured turns that tell what their moves cost.
    told: Vec<Told>,
    by_length: Sums,
    by_round: Rounds,
    by_time: Spans,
    // The time spent freezing others before its measured turns, ns.
    freezing_ns: u64,
}

/// Sums over turns.
#[derive(Default, Clone, Copy)]
struct Sum {
    turns: u32,
    meant_ns: u64,
    active_ns: u64,
    // The longest turn, and when it began.
    longest: (u64, u64),
    answers: u64,
}

/// A load's place among those that take turns. Once dropped, it has no more turns, and the others continue without it.
pub(crate) struct Seat {
    turns: Arc<Turns>,
    load: usize,
}

impl Turns {
    /// Seats for `plan` and the loads beside it. They warm up together for its `settle`, and then each is at work for
    /// its `measure`.
    ///
    /// # Errors
    /// When what serves one of them is to be frozen and cannot be.
    pub(crate) fn seats(
        plan: &LoadPlan,
        turns: &load::Turns,
        freezing: Option<UnixStream>,
    ) -> Result<Vec<Seat>, Fault> {
        let freezer = Freezer::of(&turns.held, freezing)?;
        let loads = 1 + turns.beside.len();
        let slice_ns = turns.slice.map(span_ns);
        let least_ns = loads as u64 * WARMING_TURNS * 2 * slice_ns.unwrap_or(WARMING_NS);
        let turns = Arc::new(Turns {
            settle_ns: span_ns(plan.settle).max(least_ns),
            measure_ns: span_ns(plan.measure),
            slice_ns,
            at_least_ns: turns.at_least.map_or(0, span_ns),
            compared_to_ns: turns.compared_to.map(span_ns),
            patience_ns: span_ns(turns.patience()),
            freezer,
            state: Mutex::new(State {
                loads: (0..loads).map(|_| Load::default()).collect(),
                length_ns: slice_ns.unwrap_or(WARMING_NS),
                accounts: Accounts::open(&turns.serving),
                random: plan.seed | 1,
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        Ok((0..loads).map(|load| Seat { turns: Arc::clone(&turns), load }).collect())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins once every load is connected or gone, and starts the first turn.
    fn begin(&self, state: &mut State) {
        let waited_for = state.loads.iter().any(|load| load.workers.is_none() && !load.gone);
        if state.start_ns.is_none() && !waited_for {
            let now_ns = clock::monotonic_ns();
            state.start_ns = Some(now_ns);
            for load in 0..state.loads.len() {
                state.ran_on |= !self.freezer.set(load, true);
            }
            self.pass(state, now_ns);
        }
        self.changed.notify_all();
    }

    /// Starts the next turn, or ends.
    fn pass(&self, state: &mut State, now_ns: u64) {
        let ended = state.turn.take().map(|turn| turn.load);
        let Some(start_ns) = state.start_ns else { return };
        if state.loads.iter().all(|load| load.gone) {
            state.ended = true;
        }
        let measure_start_ns = start_ns + self.settle_ns;
        let mut from_ns = now_ns;
        // A warm-up turn must not reach into the measured time.
        if !state.measuring && now_ns + 2 * state.length_ns + state.overrun_ns > measure_start_ns {
            state.measuring = true;
            state.round.clear();
            let shortest_ns = state.slice_ns(self.at_least_ns);
            // Several times the shortest, so that there is a difference to see.
            let longest_ns = |to_ns: u64| to_ns.max(4 * shortest_ns).min(LONGEST_NS);
            state.lengths = self.compared_to_ns.map(|to_ns| Lengths::between(shortest_ns, longest_ns(to_ns)));
            from_ns = measure_start_ns.max(now_ns);
            let paced = state.accounts.as_mut();
            paced.into_iter().for_each(|accounts| accounts.set_pace(shortest_ns, clock::monotonic_ns));
        }
        let load = loop {
            if state.ended {
                state.account(ended, None);
                return self.thaw_all(state.loads.len());
            }
            match state.round.pop_front() {
                Some(load) if state.loads[load].gone => {}
                Some(load) => break load,
                None if state.measuring && self.enough(state, now_ns, measure_start_ns) => state.ended = true,
                None => self.next_round(state),
            }
        };
        state.account(ended, Some(load));
        from_ns = from_ns.max(self.wake(state, load));
        state.number += 1;
        state.working = state.loads[load].workers.unwrap_or(0);
        state.span = None;
        state.told.clear();
        let first_counts = state.length_ns < RESPONSES_MIN * state.slowest_ns();
        state.turn = Some(Turn { number: state.number, from_ns, length_ns: state.length_ns, first_counts, load });
    }

    /// Whether every load has been at work for the requested time, or never will be.
    fn enough(&self, state: &State, now_ns: u64, measure_start_ns: u64) -> bool {
        let there = || state.loads.iter().filter(|load| !load.gone);
        let patience_ns = there().count() as u64 * (2 * self.measure_ns + self.patience_ns);
        let told = state.lengths.as_ref().is_none_or(Lengths::are_enough);
        let done = told && there().all(|load| load.measured.active_ns >= self.measure_ns);
        done || state.lengths.as_ref().is_some_and(|lengths| !lengths.are_several())
            || now_ns.saturating_sub(measure_start_ns) > patience_ns
    }

    /// Freezes what served the last turn, if that is wanted, and thaws what serves `load`; returns when that was done,
    /// or 0 if there was nothing to do.
    fn wake(&self, state: &mut State, load: usize) -> u64 {
        if !self.freezer.is_there() || state.awake == Some(load) {
            return 0;
        }
        let began_ns = clock::monotonic_ns();
        state.ran_on |= !state.awake.is_none_or(|last| self.freezer.set(last, true));
        state.ran_on |= !self.freezer.set(load, false);
        state.awake = Some(load);
        let done_ns = clock::monotonic_ns();
        if state.measuring {
            state.loads[load].freezing_ns += done_ns - began_ns;
        }
        done_ns
    }

    /// There are no more turns.
    fn thaw_all(&self, loads: usize) {
        for load in 0..loads {
            // A service that cannot be thawed is detected where its end is awaited.
            self.freezer.set(load, false);
        }
    }

    fn next_round(&self, state: &mut State) {
        state.measured_rounds += u32::from(state.measuring);
        let (slice_ns, cell) = match (&mut state.lengths, self.slice_ns) {
            (Some(lengths), _) => lengths.next_round(),
            (None, Some(slice_ns)) => (slice_ns, None),
            (None, None) if state.measuring => (state.slice_ns(self.at_least_ns), None),
            (None, None) => (WARMING_NS, None),
        };
        state.cell = cell;
        let share = (state.random() % 2001) as i64 - 1000;
        state.length_ns = slice_ns.saturating_add_signed(slice_ns as i64 / 10 * share / 1000);
        if state.rounds.is_empty() {
            let mut there: Vec<usize> = (0..state.loads.len()).filter(|load| !state.loads[*load].gone).collect();
            state.shuffle(&mut there);
            let mut rounds = balanced(there.len());
            state.shuffle(&mut rounds);
            let named = |round: Vec<usize>| round.into_iter().map(|at| there[at]).collect();
            state.rounds = rounds.into_iter().map(named).collect();
        }
        let mut round = state.rounds.pop().unwrap_or_default();
        // A load that has two turns in a row does not rest before the second.
        if round.first() == state.last.as_ref() {
            round.reverse();
        }
        state.last = round.last().copied();
        state.round = round.into();
    }
}

impl State {
    /// The length of a turn: ten response times of the slowest load, as measured during warm-up, which are operations
    /// in flight divided by operations a second (Little 1961).
    fn slice_ns(&self, at_least_ns: u64) -> u64 {
        self.slowest_ns().saturating_mul(RESPONSES).clamp(SHORTEST_NS, LONGEST_NS).max(at_least_ns)
    }

    /// The response time of the slowest load; 0 if none is known.
    fn slowest_ns(&self) -> u64 {
        let response_ns = |load: &Load| match load.warming.answers {
            0 => 0,
            answers => (u128::from(load.warming.active_ns) * u128::from(load.in_flight) / u128::from(answers)) as u64,
        };
        self.loads.iter().filter(|load| !load.gone).map(response_ns).max().unwrap_or(0)
    }

    /// Reads what services have used, between the turn of one load and that of the next, if either is counted.
    fn account(&mut self, ended: Option<usize>, next: Option<usize>) {
        let Some(accounts) = &mut self.accounts else { return };
        let is_counted = self.measuring && self.lengths.is_none() && accounts.counts(self.measured_rounds);
        accounts.pass(ended, next.filter(|_| is_counted), clock::monotonic_ns());
        if next.is_none() {
            accounts.read_late();
        }
    }

    /// What the turn that has just ended shows about the cost of its move. If all workers of `load` have figures, the
    /// turn took from the first start of any worker to the last answer of any, as its time is counted: that one worker
    /// finishes before another is a cost of moves. A worker without figures was held up, which is no cost of moves; the
    /// others' figures are used.
    fn told_by(&mut self, span: Worked, load: usize) -> Option<Told> {
        let (took_ns, amid): (Vec<u64>, Vec<Amid>) = std::mem::take(&mut self.told).into_iter().unzip();
        let workers = self.loads[load].workers.unwrap_or(1);
        let amid = Amid::beside(&amid, workers)?;
        let whole_ns = span.end_ns - span.start_ns;
        let mean_ns = || took_ns.iter().sum::<u64>() / took_ns.len() as u64;
        let took_ns = if took_ns.len() == workers { whole_ns } else { mean_ns() };
        Some(Told { took_ns, answers: span.answers, amid })
    }

    /// Xorshift: good enough to avoid staying in step with anything.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn shuffle<T>(&mut self, things: &mut [T]) {
        for at in (1..things.len()).rev() {
            let other = (self.random() % (at as u64 + 1)) as usize;
            things.swap(at, other);
        }
    }
}

impl Seat {
    /// How long loads warm up together.
    pub(crate) fn settle(&self) -> Duration {
        Duration::from_nanos(self.turns.settle_ns)
    }

    /// Reports that the load is connected, with this many workers, and keeps this many operations in flight. Waits for
    /// all others; returns when the first turn begins. None if there will be none.
    pub(crate) fn join(&self, workers: usize, in_flight: u64) -> Option<u64> {
        let mut state = self.turns.state();
        let load = &mut state.loads[self.load];
        (load.workers, load.in_flight) = (Some(workers), in_flight);
        self.turns.begin(&mut state);
        while state.start_ns.is_none() && !state.ended {
            state = self.turns.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.start_ns
    }

    /// Waits for the load's next turn after number `seen`. None if there will be none, if the load `leaves`, or if
    /// everything is `over`, which ends it for the others too.
    pub(crate) fn next(&self, seen: u64, leaves: impl Fn() -> bool, over: impl Fn() -> bool) -> Option<Turn> {
        let mut state = self.turns.state();
        loop {
            if over() && !state.ended {
                state.ended = true;
                self.turns.thaw_all(state.loads.len());
                self.turns.changed.notify_all();
            }
            if state.ended || state.loads[self.load].gone || leaves() {
                return None;
            }
            if let Some(turn) = state.turn.filter(|turn| turn.load == self.load && turn.number > seen) {
                return Some(turn);
            }
            let waited = self.turns.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The load has sent the first operations of its turn: what served the previous one is asleep by now.
    pub(crate) fn begun(&self) {
        self.turns.state().accounts.iter_mut().for_each(Accounts::read_late);
    }

    /// A worker has finished the turn; the last worker of the load hands over to the next load.
    pub(crate) fn done(&self, turn: Turn, worked: Worked) {
        let mut state = self.turns.state();
        if state.turn != Some(turn) {
            return;
        }
        state.told.extend(worked.amid.map(|amid| (worked.end_ns - worked.start_ns, amid)));
        state.lost |= worked.lost;
        let span = state.span.get_or_insert(Worked { answers: 0, stuck_ns: 0, ..worked });
        span.start_ns = span.start_ns.min(worked.start_ns);
        span.end_ns = span.end_ns.max(worked.end_ns);
        (span.answers, span.stuck_ns) = (span.answers + worked.answers, span.stuck_ns + worked.stuck_ns);
        let span = *span;
        state.working = state.working.saturating_sub(1);
        if state.working > 0 {
            return;
        }
        let (measuring, cell, round) = (state.measuring, state.cell, state.measured_rounds);
        let told = state.told_by(span, self.load);
        let used = state.accounts.as_ref().and_then(|accounts| accounts.own(self.load));
        let load = &mut state.loads[self.load];
        // Without turns, an operation that waits does not stop the others from continuing.
        let took_ns = span.end_ns - span.start_ns + span.stuck_ns / load.in_flight.max(1);
        if let (true, Some(told)) = (measuring, told) {
            load.told.push(told);
            cell.into_iter().for_each(|cell| load.by_length.add(cell, told.amid));
        }
        load.by_round.add(round, span.answers, took_ns);
        if measuring {
            load.by_time.add(&span, took_ns, used);
        }
        let sum = if measuring { &mut load.measured } else { &mut load.warming };
        sum.turns += 1;
        sum.meant_ns += turn.length_ns;
        sum.active_ns += took_ns;
        sum.longest = sum.longest.max((took_ns, span.start_ns));
        sum.answers += span.answers;
        // A load that gets no answer in all this time would take it from the others again and again.
        load.gone |= span.answers == 0 && took_ns > 2 * turn.length_ns + SECOND_NS;
        if !measuring {
            state.overrun_ns = state.overrun_ns.max(took_ns.saturating_sub(turn.length_ns));
        }
        self.turns.pass(&mut state, clock::monotonic_ns());
        self.turns.changed.notify_all();
    }

    /// Whether any of the loads has lost an operation: then one may have had less time than requested.
    pub(crate) fn lost(&self) -> bool {
        self.turns.state().lost
    }

    /// The results for turns of each length, if several were compared.
    pub(crate) fn lengths(&self) -> Vec<TurnLength> {
        let state = self.turns.state();
        state.lengths.as_ref().map_or_else(Vec::new, |lengths| lengths.rows(&state.loads[self.load].by_length))
    }

    /// What serves the load used in the turns of each load; empty if that was not counted.
    pub(crate) fn cpu_by_turn(&self) -> Vec<TurnUse> {
        self.turns.state().accounts.as_ref().map_or_else(Vec::new, |accounts| accounts.used(self.load))
    }

    /// How fast it was in parts of its turns; empty if lengths were compared.
    pub(crate) fn batches(&self) -> Vec<f64> {
        let state = self.turns.state();
        let rounds = if state.lengths.is_none() { state.measured_rounds } else { 0 };
        state.loads[self.load].by_round.rates(rounds)
    }

    /// How fast it was at what time; empty if lengths were compared.
    pub(crate) fn spans(&self) -> Vec<TurnSpan> {
        let state = self.turns.state();
        let used = state.accounts.as_ref().and_then(|accounts| accounts.own(self.load));
        if state.lengths.is_none() { state.loads[self.load].by_time.rows(used) } else { Vec::new() }
    }

    /// The summary of its turns.
    pub(crate) fn summary(&self) -> TurnsSummary {
        let state = self.turns.state();
        let load = &state.loads[self.load];
        let Sum { turns, meant_ns, active_ns, answers, longest: (longest_ns, longest_at_ns) } = load.measured;
        let (slice_ns, longest_at_ns) = (meant_ns / u64::from(turns).max(1), (turns > 0).then_some(longest_at_ns));
        // None if most turns did not yield a figure.
        let move_ns = move_ns(&load.told).filter(|_| 2 * load.told.len() as u64 >= u64::from(turns));
        let warming = warming(&load.told).filter(|_| move_ns.is_some() && state.lengths.is_none());
        let all_frozen = self.turns.freezer.is_there() && !state.ran_on;
        let freeze_ns = all_frozen.then(|| load.freezing_ns / u64::from(turns).max(1));
        TurnsSummary {
            turns,
            slice_ns,
            active_ns,
            answers,
            longest_ns,
            longest_at_ns,
            move_ns,
            warming,
            freeze_ns,
            untold: false,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        state.loads[self.load].gone = true;
        if state.turn.is_some_and(|turn| turn.load == self.load) {
            self.turns.pass(&mut state, clock::monotonic_ns());
        }
        self.turns.begin(&mut state);
    }
}

#[cfg(test)]
mod tests;
