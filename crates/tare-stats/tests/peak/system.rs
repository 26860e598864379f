//! A system of known capacity, simulated event by event: a station of several servers that is fed by users who think,
//! or by arrivals that do not wait, and whose speed the noise of a machine varies.

use crate::peak::noise::{Noise, host};
use crate::peak::random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tare_core::peak::{Count, Criterion};

/// How load comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Feed {
    /// A level is users, who think so long on average, s.
    Users(f64),
    /// A level is arrivals a second.
    Open,
}

/// What is peculiar about a system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Plain,
    /// Once `limit` operations wait, everything takes `slower` times as long until nobody waits any more.
    Hysteresis {
        limit: f64,
        slower: f64,
    },
    /// Above this level nothing is answered in time, below everything.
    Cliff {
        at: f64,
    },
    /// The share that is late grows with this power of the level and is 1 % at this one.
    Slope {
        at: f64,
        power: f64,
    },
    /// So many are late at any level.
    Always {
        share: f64,
    },
    /// This share of operations, whatever they are, makes everything wait, `long_s` on average: garbage is collected, a
    /// log is written out.
    Pauses {
        share: f64,
        long_s: f64,
    },
}

/// An operation: share of the mix, service time in units of the base, limit in seconds.
pub(crate) type Operation = (f64, f64, f64);

/// The system's make.
#[derive(Debug, Clone)]
pub(crate) struct Make {
    pub(crate) feed: Feed,
    pub(crate) servers: usize,
    pub(crate) base_s: f64,
    pub(crate) operations: Vec<Operation>,
    pub(crate) kind: Kind,
}

impl Make {
    /// The reference system of the published comparison: 8 servers, four operations, users who think 5 s.
    pub(crate) fn reference() -> Make {
        let operations = vec![(0.50, 0.6, 0.25), (0.30, 1.0, 0.26), (0.15, 1.6, 0.32), (0.05, 3.2, 0.45)];
        Make { feed: Feed::Users(5.0), servers: 8, base_s: 0.030, operations, kind: Kind::Plain }
    }

    /// The same with generous limits.
    pub(crate) fn loose() -> Make {
        let operations = vec![(0.50, 0.6, 2.0), (0.30, 1.0, 2.0), (0.15, 1.6, 2.5), (0.05, 3.2, 3.0)];
        Make { operations, ..Make::reference() }
    }

    /// The same fed by arrivals that wait for nobody.
    pub(crate) fn open() -> Make {
        Make { feed: Feed::Open, ..Make::reference() }
    }

    /// One fast server, as a cache is: 2000 operations a second, one kind, limit 20 ms.
    pub(crate) fn single() -> Make {
        Make { feed: Feed::Open, servers: 1, base_s: 0.001, operations: vec![(1.0, 1.0, 0.020)], kind: Kind::Plain }
    }

    /// A site of many services that share one CPU, as the auction's smallest size: sixteen operations, some of them
    /// rare, that take about 1.5 ms each of users who think 250 ms, and pauses that are as long as a strict limit is.
    pub(crate) fn site(limit_s: f64) -> Make {
        let common = [(0.20, 1.0), (0.11, 1.2), (0.10, 1.2), (0.09, 1.6), (0.08, 0.8)];
        let rare = [1.0, 1.0, 1.0, 1.0, 1.2, 1.2, 1.2, 0.8, 0.8, 0.8, 0.8].map(|work| (0.42 / 11.0, work));
        let operations = common.into_iter().chain(rare).map(|(share, work)| (share, work, limit_s)).collect();
        let kind = Kind::Pauses { share: 1.0 / 2000.0, long_s: 0.12 };
        Make { feed: Feed::Users(0.25), servers: 1, base_s: 0.0013, operations, kind }
    }

    pub(crate) fn criteria(&self) -> Vec<Criterion> {
        let name = |n: usize| Criterion { name: format!("operation {n} in time"), allowed: 0.01, late: true };
        (0..self.operations.len()).map(name).collect()
    }
}

/// By how much capacity is missing at the start of a deployment, and how fast that passes, s.
const COLD: (f64, f64) = (0.25, 90.0);
/// After a rise of the level capacity is short by this share of the rise (at most `.1`), which passes in `.2` s.
const TRANSIENT: (f64, f64, f64) = (0.2, 0.15, 10.0);

/// A deployment of a system on a machine.
pub(crate) struct System {
    make: Make,
    random: Random,
    /// Log capacity by second.
    capacity: Vec<f64>,
    now: f64,
    asleep: BinaryHeap<Reverse<Moment>>,
    free: Vec<f64>,
    level: f64,
    transient: (f64, f64),
    next_arrival: Option<f64>,
    overloaded: bool,
    /// Level times 0: load-minutes so far.
    pub(crate) load_s: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl System {
    /// A deployment on a machine of its own.
    pub(crate) fn deploy(make: &Make, noise: &Noise, seed: u64) -> System {
        let mut random = Random::new(seed);
        let machine = host(noise, 6 * 3600, &mut random);
        let boot = noise.boot * random.normal();
        System::deploy_on(make, &machine, 0.0, boot, 1.0, random)
    }

    /// A deployment at `start` s on a machine that others use as well, with `factor` times the capacity.
    pub(crate) fn deploy_on(
        make: &Make,
        machine: &[f64],
        start: f64,
        boot: f64,
        factor: f64,
        random: Random,
    ) -> System {
        let age = |second: usize| (second as f64 - start).max(0.0);
        let warm = |second: usize| 1.0 - COLD.0 * (-age(second) / COLD.1).exp();
        let capacity = machine.iter().enumerate();
        let capacity = capacity.map(|(second, log)| (log + boot).exp() * factor * warm(second)).collect();
        System {
            random,
            capacity,
            now: start,
            asleep: BinaryHeap::new(),
            free: vec![start; make.servers],
            level: 0.0,
            transient: (0.0, start),
            next_arrival: None,
            overloaded: false,
            load_s: 0.0,
            make: make.clone(),
        }
    }

    /// No cold start and no transients: for the long-run truth.
    pub(crate) fn warm(mut self) -> System {
        self.capacity
            .iter_mut()
            .enumerate()
            .for_each(|(second, value)| *value /= 1.0 - COLD.0 * (-(second as f64) / COLD.1).exp());
        self.level = f64::INFINITY;
        self
    }

    pub(crate) fn now(&self) -> f64 {
        self.now
    }

    /// Holds `level` for `seconds`; what was counted of the operations started meanwhile.
    pub(crate) fn run(&mut self, level: f64, seconds: f64) -> Vec<Count> {
        let mut counts = vec![Count::default(); self.make.operations.len()];
        let (from, to) = (self.now, self.now + seconds);
        if self.level > 0.0 && level != self.level {
            let rise = (TRANSIENT.0 * (level / self.level).ln()).max(0.0).min(TRANSIENT.1);
            self.transient = (rise, from);
        }
        self.level = level;
        if let Feed::Users(think_s) = self.make.feed {
            let users = level.round().max(1.0) as usize;
            while self.asleep.len() < users {
                let wait = self.random.exponential(think_s) * self.random.uniform();
                self.asleep.push(Reverse(Moment(from + wait)));
            }
        }
        while let Some(start) = self.next_start(level, from, to) {
            let (operation, late) = self.serve(start);
            counts[operation].of += 1.0;
            counts[operation].over += f64::from(u8::from(late));
        }
        self.now = to;
        self.load_s += seconds;
        counts
    }

    fn next_start(&mut self, level: f64, from: f64, to: f64) -> Option<f64> {
        match self.make.feed {
            Feed::Users(_) => {
                let users = level.round().max(1.0) as usize;
                loop {
                    let Reverse(Moment(start)) = *self.asleep.peek()?;
                    if start >= to {
                        return None;
                    }
                    // A user too many leaves when it would act.
                    let leaves = self.asleep.len() > users;
                    self.asleep.pop();
                    if !leaves {
                        return Some(start);
                    }
                }
            }
            Feed::Open => {
                let start = self.next_arrival.unwrap_or(from).max(from);
                let start = if self.next_arrival.is_none_or(|next| next < from) {
                    start + self.random.exponential(1.0 / level)
                } else {
                    start
                };
                if start >= to {
                    self.next_arrival = Some(start);
                    return None;
                }
                self.next_arrival = Some(start + self.random.exponential(1.0 / level));
                Some(start)
            }
        }
    }

    /// Serves an operation that starts at `start`: which it was, and whether it was late.
    fn serve(&mut self, start: f64) -> (usize, bool) {
        let draw = self.random.uniform();
        let mut below = 0.0;
        let last = self.make.operations.len() - 1;
        let operations = self.make.operations.iter();
        let chosen = operations.map(|(share, ..)| {
            below += share;
            below
        });
        let chosen = chosen.take(last).take_while(|below| draw > *below).count();
        let (_, multiple, limit) = self.make.operations[chosen];
        let mut server = 0;
        for other in 1..self.free.len() {
            if self.free[other] < self.free[server] {
                server = other;
            }
        }
        let begin = start.max(self.free[server]);
        let second = (begin as usize).min(self.capacity.len() - 1);
        let (rise, since) = self.transient;
        let mut speed = self.capacity[second];
        if begin >= since && rise > 0.0 {
            speed *= 1.0 - rise * (-(begin - since) / TRANSIENT.2).exp();
        }
        let work = self.random.exponential(0.5) + self.random.exponential(0.5);
        let mut took = self.make.base_s * multiple * work / speed;
        if let Kind::Hysteresis { limit, slower } = self.make.kind {
            let waiting = begin - start;
            self.overloaded = if self.overloaded { waiting > 0.0 } else { waiting > limit };
            took *= if self.overloaded { slower } else { 1.0 };
        }
        if let Kind::Pauses { share, long_s } = self.make.kind
            && self.random.uniform() < share
        {
            took += self.random.exponential(long_s);
        }
        let end = begin + took;
        self.free[server] = end;
        if let Feed::Users(think_s) = self.make.feed {
            self.asleep.push(Reverse(Moment(end + self.random.exponential(think_s))));
        }
        let late = match self.make.kind {
            Kind::Plain | Kind::Hysteresis { .. } | Kind::Pauses { .. } => end - start > limit,
            Kind::Cliff { at } => self.level / self.capacity[second] > at,
            Kind::Slope { at, power } => {
                let share = 0.01 * (self.level / self.capacity[second] / at).powf(power);
                self.random.uniform() < share
            }
            Kind::Always { share } => self.random.uniform() < share,
        };
        (chosen, late)
    }
}
