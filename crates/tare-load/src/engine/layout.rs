//! What a plan means for workers: how many connections there are, whose they are, and where starts come from.

use super::timeline::{Guide, Span, Timeline};
use crate::clock::{self, SECOND_NS, span_ns};
use crate::operation::OperationRow;
use crate::profile::{
    Crowd, Kind, Levels, Line, Path, Replay, Schedule, Share, Source, Spoken, Ways, places_beside, read_replay,
};
use std::sync::Arc;
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::load::{Behaviour, Distribution, LoadPlan, LoadProfile, Pause, UserConnections};

/// The most connections made for single operations that exist at one time in the whole run: about as many as there are
/// local ports to one endpoint.
const FRESH_MAX: u64 = 30_000;
/// Every worker must be ready before the first start. This is the time for that, and the extra time for each user, ns.
const LEAD_NS: u64 = 2_000_000;
const LEAD_PER_USER_NS: u64 = 500;

/// How operations find their connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Each connection starts the next operation when one is answered.
    Closed,
    /// An operation takes any free connection, or waits for one.
    Shared,
    /// Each user has a connection.
    Own,
    /// Each operation makes a connection of its own.
    Fresh,
}

/// A plan, laid out.
pub(crate) struct Layout {
    /// How operations find their connections.
    pub manner: Manner,
    /// Connections of the whole run.
    pub connections: u64,
    /// Users of the whole run whose state outlives operations: one per connection, or one per user.
    pub users: u64,
    /// Places for companions beside each user; each has a connection and a state of its own.
    pub beside: u64,
    /// Operations in flight on each connection.
    pub pipeline: u64,
    /// The most operations that may be due and unanswered in the whole run.
    pub in_flight: u64,
    /// Whether connections are made when they are first needed.
    pub lazy: bool,
    /// Whether operations are counted by their planned starts.
    pub planned: bool,
    /// Whether there are levels, each reported as a row of its own.
    pub levels: bool,
    base: LoadProfile,
    profile: LoadProfile,
    lines: Option<Arc<[Line]>>,
}

/// One worker's part of a closed loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loop {
    share: Share,
    connections: u64,
    pipeline: u64,
}

impl Loop {
    /// How many operations the worker keeps in flight while the whole run keeps `level` connections busy; without a
    /// level, all of its connections.
    pub(crate) fn in_flight(&self, level: Option<f64>) -> u64 {
        let connections = level.map_or(self.connections, |level| self.connections.min(level as u64));
        self.share.of(connections) * self.pipeline
    }
}

impl Layout {
    /// Lays out the profile of a plan. With `fresh` each operation makes a connection of its own.
    ///
    /// # Errors
    /// When the profile asks for no load, or its file cannot be read.
    pub(crate) fn new(plan: &LoadPlan, operations: &[OperationRow], fresh: bool) -> Result<Self, Fault> {
        let mut base = plan.profile.base().clone();
        if let (LoadProfile::Closed { connections, pipeline }, true) = (&base, fresh) {
            if *pipeline > 1 {
                let message = "a connection that is made for one operation has no pipeline";
                return Err(Fault::new(message).remedy("leave 'pipeline' at 1, or keep connections").as_mistake());
            }
            // A connection that lasts for one operation is equivalent to a user who does not pause.
            base = LoadProfile::Users {
                users: *connections,
                behaviour: Behaviour::Mix,
                pause: Pause::Think(Distribution::Constant(Duration::ZERO)),
                connections: UserConnections::Fresh,
                ramp: Duration::ZERO,
            };
        }
        let levels = matches!(plan.profile, LoadProfile::Steps { .. } | LoadProfile::Guided { .. });
        let mut layout = Layout {
            manner: if fresh { Manner::Fresh } else { Manner::Shared },
            connections: 0,
            users: 0,
            beside: 0,
            pipeline: 1,
            in_flight: u64::MAX,
            lazy: fresh,
            planned: true,
            levels,
            profile: plan.profile.clone(),
            lines: None,
            base: base.clone(),
        };
        match &base {
            LoadProfile::Closed { connections, pipeline } => {
                (layout.manner, layout.planned) = (Manner::Closed, levels);
                (layout.connections, layout.pipeline) = (u64::from(*connections), u64::from(*pipeline));
            }
            LoadProfile::Open { connections, in_flight, .. } | LoadProfile::Replay { connections, in_flight, .. } => {
                let slots = if fresh { FRESH_MAX.min(u64::from(*in_flight)) } else { u64::from(*connections) };
                (layout.connections, layout.in_flight) = (slots, u64::from(*in_flight));
            }
            LoadProfile::Users { users, connections, ramp, behaviour, .. } => {
                layout.users = u64::from(*users);
                layout.seat(behaviour, *connections, fresh)?;
                // Users who arrive one by one connect when they arrive, and so do companions.
                let comes = levels || !ramp.is_zero() || layout.beside > 0;
                layout.lazy = layout.manner == Manner::Fresh || layout.manner == Manner::Own && comes;
            }
            LoadProfile::Steps { .. } | LoadProfile::Guided { .. } => {
                return Err(Fault::new("levels within levels mean nothing").as_mistake());
            }
        }
        if let LoadProfile::Replay { file, speed, .. } = &base {
            layout.lines = Some(read_replay(file, *speed, operations)?);
        }
        if layout.users == 0 {
            layout.users = layout.connections;
        }
        if layout.connections == 0 || layout.pipeline == 0 || layout.in_flight == 0 || plan.timeout.is_zero() {
            return Err(Fault::new("connections, users, pipeline, in_flight and timeout must be above 0").as_mistake());
        }
        Ok(layout)
    }

    /// Decides which connections users have, and the companions beside them.
    ///
    /// # Errors
    /// When there are companions and users share connections or make them afresh.
    fn seat(&mut self, behaviour: &Behaviour, connections: UserConnections, fresh: bool) -> Result<(), Fault> {
        self.manner = match (fresh, connections) {
            (true, _) | (_, UserConnections::Fresh) => Manner::Fresh,
            (_, UserConnections::Own) => Manner::Own,
            (_, UserConnections::Shared(_)) => Manner::Shared,
        };
        self.connections = match (self.manner, connections) {
            (Manner::Fresh, _) => self.users.min(FRESH_MAX),
            (_, UserConnections::Shared(connections)) => u64::from(connections),
            _ => self.users,
        };
        if let Behaviour::Markov { companions, .. } = behaviour {
            self.beside = u64::from(places_beside(companions));
        }
        if self.beside > 0 && self.manner != Manner::Own {
            let message = "companions have connections of their own, and so must have users";
            return Err(Fault::new(message).remedy("leave out 'connections'").as_mistake());
        }
        Ok(())
    }

    /// When everything happens, if the run begins as soon as every worker can be ready.
    pub(crate) fn timeline(&self, plan: &LoadPlan) -> Timeline {
        let lead_ns = match self.base {
            LoadProfile::Users { users, .. } => LEAD_NS + u64::from(users) * LEAD_PER_USER_NS,
            _ if self.planned => LEAD_NS,
            _ => 0,
        };
        let start_ns = clock::monotonic_ns() + lead_ns;
        let span = |number, level, from_ns, to_ns| Span { number, level, from_ns, to_ns };
        match &self.profile {
            LoadProfile::Steps { levels, warm, ramp, settle, measure, .. } => {
                let mut at_ns = start_ns + span_ns(plan.settle) + warm.map_or(0, |warm| span_ns(warm.time(*ramp)));
                let mut spans = Vec::new();
                for (number, level) in levels.iter().enumerate() {
                    let from_ns = at_ns + span_ns(*ramp) + span_ns(*settle);
                    at_ns = from_ns + span_ns(*measure);
                    spans.push(span(number as u64, *level, from_ns, at_ns));
                }
                let settle = Duration::from_nanos(spans[0].from_ns - start_ns);
                let measure = Duration::from_nanos(at_ns - spans[0].from_ns);
                let mut line = Timeline::new(start_ns, settle, measure);
                line.spans = spans;
                line
            }
            LoadProfile::Guided { .. } => {
                let mut line = Timeline::new(start_ns, Duration::ZERO, Duration::MAX);
                line.guide = Some(Guide::new());
                line
            }
            _ => {
                let mut line = Timeline::new(start_ns, plan.settle, plan.measure);
                if self.planned {
                    line.spans.push(span(0, 0.0, line.measure_start_ns, line.measure_end_ns));
                }
                line
            }
        }
    }

    /// The level over time.
    fn course(&self, plan: &LoadPlan, timeline: &Timeline) -> Levels {
        let start_ns = timeline.start_ns;
        match (&self.profile, &self.base) {
            (LoadProfile::Guided { start, .. }, _) => Levels::new(start_ns, *start),
            (LoadProfile::Steps { levels, warm, ramp, settle, measure, .. }, _) => {
                let first = warm.map_or(levels[0], |warm| warm.level);
                let mut course = Levels::new(start_ns, if ramp.is_zero() { first } else { 0.0 });
                let mut at_ns = start_ns + span_ns(plan.settle);
                let mut hold = |level: f64, time: Duration| {
                    if ramp.is_zero() {
                        course.jump(at_ns, level)
                    } else {
                        course.line(at_ns + span_ns(*ramp), level)
                    }
                    at_ns += span_ns(*ramp) + span_ns(time);
                    course.line(at_ns, level);
                };
                warm.iter().for_each(|warm| hold(warm.level, warm.hold));
                levels.iter().for_each(|level| hold(*level, *settle + *measure));
                course
            }
            (_, LoadProfile::Open { rate, .. }) => Levels::new(start_ns, *rate),
            (_, LoadProfile::Users { users, ramp, .. }) if !ramp.is_zero() => {
                let mut course = Levels::new(start_ns, 0.0);
                course.line(start_ns + span_ns(*ramp), f64::from(*users));
                course
            }
            (_, LoadProfile::Users { users, .. }) => Levels::new(start_ns, f64::from(*users)),
            (_, LoadProfile::Closed { connections, .. }) => Levels::new(start_ns, f64::from(*connections)),
            _ => Levels::new(start_ns, 0.0),
        }
    }

    /// Where one worker's starts come from.
    ///
    /// # Errors
    /// When users are to run an unknown operation.
    pub(crate) fn source(
        &self,
        plan: &LoadPlan,
        timeline: &Timeline,
        spoken: Spoken<'_>,
        share: Share,
    ) -> Result<Source, Fault> {
        let course = self.course(plan, timeline);
        Ok(match &self.base {
            LoadProfile::Closed { .. } => Source::Closed(course),
            LoadProfile::Open { arrivals, .. } => {
                Source::Open(Schedule::new(course, *arrivals, OperationRow::mix(spoken.operations), plan.seed, share))
            }
            LoadProfile::Users { users, behaviour, pause, .. } => {
                let (restarts, kinds) = match behaviour {
                    Behaviour::Markov { restarts, companions, .. } => (*restarts, Kind::all(companions, spoken)?),
                    Behaviour::Mix | Behaviour::Sequence(_) => (false, Vec::new()),
                };
                let ways = Ways { path: Path::new(behaviour, spoken)?, pause: *pause, restarts, kinds };
                let users = u64::from(*users);
                Source::Users(Box::new(Crowd::new(course, users, ways, plan.seed, share, timeline.start_ns)))
            }
            _ => {
                let lines = self.lines.clone().expect("a replay has lines");
                Source::Replay(Replay::new(lines, timeline.start_ns, plan.seed, share))
            }
        })
    }

    /// How many connections a worker has.
    pub(crate) fn connections_of(&self, share: Share) -> u64 {
        share.of(self.connections) * (1 + self.beside)
    }

    /// The numbers, in the whole run, of a worker's users whose state outlives operations; companions follow them.
    pub(crate) fn users_of(&self, share: Share) -> impl Iterator<Item = u64> {
        let own = share.of(self.users);
        // A companion starts with its user's state, whatever it was created with.
        (0..own * (1 + self.beside)).map(move |local| share.global(local))
    }

    /// What one worker keeps in flight, if this is a closed loop.
    pub(crate) fn closed_loop(&self, share: Share) -> Option<Loop> {
        let (connections, pipeline) = (self.connections, self.pipeline);
        (self.manner == Manner::Closed).then_some(Loop { share, connections, pipeline })
    }

    /// The longest that a worker may wait before it checks for orders.
    pub(crate) fn news_ns(&self) -> u64 {
        if matches!(self.profile, LoadProfile::Guided { .. }) { SECOND_NS / 200 } else { u64::MAX }
    }
}
