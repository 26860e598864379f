//! Users: who is due, what they do, how long they pause. A user is a few numbers in flat tables.

use super::behaviour::{Condition, Path};
use super::level::Levels;
use super::pause;
use super::wheel::Wheel;
use super::{Share, Start, stream};
use crate::protocol::Draw;
use tare_core::load::Pause;

/// Where a user stands.
#[derive(Debug, Clone, Copy)]
struct User {
    /// Operations begun.
    begun: u32,
    /// The place on the path.
    place: u16,
    /// Whether the user is away: not asking for anything, waiting to be called.
    away: bool,
}

/// One worker's users.
///
/// Users with numbers below the level are active. A user that comes in is in the midst of a pause, as one who has
/// always been there would be: so the rate of starts is even from the beginning on. One that is no longer wanted leaves
/// when the next start would be due.
pub(crate) struct Crowd {
    path: Path,
    pause: Pause,
    levels: Levels,
    seed: u64,
    share: Share,
    users: Vec<User>,
    wheel: Wheel,
    // Users below this number were called in, and the next one will be at that moment.
    called: u32,
    call_ns: u64,
    // Up to where the level was followed.
    seen_ns: u64,
}

impl Crowd {
    /// This worker's share of `users`, active as `levels` says from `now_ns` on.
    pub(crate) fn new(
        levels: Levels,
        users: u64,
        path: Path,
        pause: Pause,
        seed: u64,
        share: Share,
        now_ns: u64,
    ) -> Self {
        let count = share.of(users) as usize;
        let mut crowd = Crowd {
            path,
            pause,
            levels,
            seed,
            share,
            users: vec![User { begun: 0, place: 0, away: true }; count],
            wheel: Wheel::new(count, now_ns),
            called: 0,
            call_ns: u64::MAX,
            seen_ns: now_ns,
        };
        crowd.follow();
        // Those who are there from the beginning, so that nobody waits for it then.
        crowd.call(now_ns);
        crowd
    }

    /// When the next user is due or to be called in; `u64::MAX` when there is none.
    #[inline]
    pub(crate) fn next_ns(&mut self) -> u64 {
        self.wheel.peek().min(self.call_ns)
    }

    /// The next start that is due at `now_ns`. `holds` says what holds of a user.
    #[inline]
    pub(crate) fn take(&mut self, now_ns: u64, holds: impl Fn(u32, &Condition) -> bool) -> Option<Start> {
        if self.call_ns <= now_ns {
            self.call(now_ns);
        }
        loop {
            let user = self.wheel.pop(now_ns)?;
            let planned_ns = self.wheel.time(user);
            let global = self.share.global(u64::from(user));
            let state = &mut self.users[user as usize];
            if global as f64 >= self.levels.at(planned_ns) {
                state.away = true;
                self.called = self.called.min(user);
                self.seen_ns = self.seen_ns.max(planned_ns);
                self.follow();
                continue;
            }
            let mut draw = Draw::at(self.seed, stream::PATHS ^ global, u64::from(state.begun));
            let operation = self.path.next(&mut state.place, &mut draw, |condition| holds(user, condition));
            state.begun = state.begun.wrapping_add(1);
            return Some(Start { planned_ns, draw, user, operation });
        }
    }

    /// The user's operation came to its end at `now_ns`.
    #[inline]
    pub(crate) fn done(&mut self, user: u32, now_ns: u64) {
        let begun = self.users[user as usize].begun;
        let global = self.share.global(u64::from(user));
        let mut draw = Draw::at(self.seed, stream::PAUSES ^ global, u64::from(begun));
        let length = pause::draw(self.pause.distribution(), &mut draw);
        let next_ns = match self.pause {
            Pause::Think(_) => now_ns.saturating_add(length),
            Pause::Cycle(_) => self.wheel.time(user).saturating_add(length).max(now_ns),
        };
        self.wheel.insert(user, next_ns);
    }

    /// See [`super::Source::jump`].
    pub(crate) fn jump(&mut self, at_ns: u64, level: f64) {
        self.levels.jump(at_ns, level);
        self.follow();
    }

    /// Finds out when the next user is to be called in.
    fn follow(&mut self) {
        let next = self.users.get(self.called as usize);
        let wanted = self.share.global(u64::from(self.called)) + 1;
        let moment = next.and_then(|_| self.levels.reaches(self.seen_ns, wanted as f64));
        self.call_ns = moment.unwrap_or(u64::MAX);
    }

    /// Calls in the users whose time has come.
    #[cold]
    fn call(&mut self, now_ns: u64) {
        while self.call_ns <= now_ns {
            let (user, at_ns) = (self.called, self.call_ns);
            self.seen_ns = self.seen_ns.max(at_ns);
            let state = &mut self.users[user as usize];
            if state.away {
                state.away = false;
                let global = self.share.global(u64::from(user));
                let mut draw = Draw::at(self.seed, stream::PHASES ^ global, u64::from(state.begun));
                let rest_ns = pause::rest(self.pause.distribution(), &mut draw);
                self.wheel.insert(user, at_ns.saturating_add(rest_ns));
            }
            self.called += 1;
            self.follow();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND_NS;
    use proptest::prelude::*;
    use std::time::Duration;
    use tare_core::load::Distribution;

    const ALONE: Share = Share { worker: 0, workers: 1 };

    fn crowd(levels: Levels, users: u64, pause: Pause, share: Share) -> Crowd {
        Crowd::new(levels, users, Path::Sequence(vec![0, 1, 2]), pause, 3, share, 0)
    }

    /// Every start up to `end_ns`, each answered after `service_ns`; with the user's number in the whole run.
    fn lived(mut crowd: Crowd, end_ns: u64, service_ns: u64) -> Vec<(u64, u64, u16)> {
        let mut starts = Vec::new();
        while crowd.next_ns() < end_ns {
            let now_ns = crowd.next_ns();
            if let Some(start) = crowd.take(now_ns, |_, _| false) {
                starts.push((start.planned_ns, crowd.share.global(u64::from(start.user)), start.operation));
                crowd.done(start.user, start.planned_ns + service_ns);
            }
        }
        starts
    }

    fn seconds(s: f64) -> Distribution {
        Distribution::Constant(Duration::from_secs_f64(s))
    }

    #[test]
    fn cycles_count_from_start_to_start_and_thinking_from_the_answer() {
        let of = |pause, service_ms: u64| {
            let starts = lived(crowd(Levels::new(0, 1.0), 1, pause, ALONE), 20 * SECOND_NS, service_ms * 1_000_000);
            let first = starts[0].0;
            assert!(first < SECOND_NS, "it begins within a pause");
            assert_eq!(starts.iter().take(4).map(|start| start.2).collect::<Vec<_>>(), [0, 1, 2, 0]);
            starts.windows(2).map(|pair| pair[1].0 - pair[0].0).collect::<Vec<_>>()
        };
        assert!(of(Pause::Think(seconds(1.0)), 300).iter().all(|gap| *gap == 1_300_000_000));
        assert!(of(Pause::Cycle(seconds(1.0)), 300).iter().all(|gap| *gap == SECOND_NS));
        // What is lost is not made up for.
        assert!(of(Pause::Cycle(seconds(1.0)), 1500).iter().all(|gap| *gap == 1_500_000_000));
    }

    #[test]
    fn a_crowd_starts_as_often_as_its_pauses_say() {
        let pause =
            Pause::Cycle(Distribution::Exponential { mean: Duration::from_secs(1), max: Duration::from_secs(10) });
        let starts = lived(crowd(Levels::new(0, 1000.0), 1000, pause, ALONE), 20 * SECOND_NS, 0);
        // Renewals of exponential gaps are Poisson: 20,000 in all and 1000 in the first second, five deviations each
        // way.
        assert!((19_290..20_710).contains(&starts.len()), "{}", starts.len());
        let early = starts.iter().filter(|start| start.0 < SECOND_NS).count();
        assert!((840..1160).contains(&early), "{early}");
    }

    #[test]
    fn users_come_and_go_with_the_level() {
        let mut levels = Levels::new(0, 0.0);
        levels.line(10 * SECOND_NS, 100.0);
        levels.jump(30 * SECOND_NS, 20.0);
        levels.jump(50 * SECOND_NS, 60.0);
        let starts = lived(crowd(levels, 100, Pause::Cycle(seconds(1.0)), ALONE), 70 * SECOND_NS, 0);
        let between = |from: u64, to: u64| {
            let within = starts.iter().filter(|start| (from * SECOND_NS..to * SECOND_NS).contains(&start.0));
            within.map(|start| start.1).collect::<Vec<_>>()
        };
        assert!((3..=5).contains(&between(0, 1).len().max(3)), "{:?}", between(0, 1));
        assert_eq!(between(20, 21).len(), 100);
        let few = between(40, 41);
        assert_eq!((few.len(), few.iter().max()), (20, Some(&19)));
        assert_eq!(between(60, 61).len(), 60);
    }

    proptest! {
        #[test]
        fn workers_share_one_plan(workers in 1..5u64, users in 1..40u64, ramp_s in 0..5u64) {
            let mut levels = Levels::new(0, 0.0);
            levels.line(ramp_s * SECOND_NS, users as f64);
            levels.jump(8 * SECOND_NS, (users / 2) as f64);
            levels.jump(10 * SECOND_NS, users as f64);
            let pause =
                Pause::Think(Distribution::Uniform { min: Duration::from_millis(10), max: Duration::from_secs(2) });
            let whole = lived(crowd(levels.clone(), users, pause, ALONE), 15 * SECOND_NS, 5);
            let share =
                |worker| lived(crowd(levels.clone(), users, pause, Share { worker, workers }), 15 * SECOND_NS, 5);
            let mut union: Vec<_> = (0..workers).flat_map(share).collect();
            union.sort_unstable();
            let mut whole = whole;
            whole.sort_unstable();
            prop_assert_eq!(union, whole);
        }
    }

    #[test]
    fn a_user_takes_little_room() {
        assert!(std::mem::size_of::<User>() <= 8);
    }
}
