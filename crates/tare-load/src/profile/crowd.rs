//! Users: who is due, what they do, how long they pause, and their companions. A user is a few numbers in flat tables,
//! and a companion is another user stored after all users.

use super::behaviour::{Condition, Path, Subject};
use super::companions::Kind;
use super::level::Levels;
use super::pause;
use super::wheel::Wheel;
use super::{Share, Start, stream};
use crate::clock::SECOND_NS;
use crate::draw::Draw;
use crate::script::{Slot, ValueRef};
use std::ops::Range;
use tare_core::load::{Ending, Pause};

/// A companion without a right answer asks again after this long at the earliest.
const REFUSED_NS: u64 = SECOND_NS;

/// Whether a user is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// Active.
    Here,
    /// Inactive, until called in.
    Away,
    /// A companion that starts nothing more.
    Ending,
}

/// The state of a user.
#[derive(Debug, Clone, Copy)]
struct User {
    /// Operations begun.
    begun: u32,
    /// The place on the path.
    place: u16,
    presence: Presence,
    /// For a companion: its number among those active beside its user, in the order of their starts.
    rank: u8,
}

/// What users of one worker do: their own path and pause, and their companions.
pub(crate) struct Ways {
    /// Which operation a user runs next.
    pub path: Path,
    /// How long a user pauses.
    pub pause: Pause,
    /// Whether a user starts over after an operation without a right answer. Companions always do.
    pub restarts: bool,
    /// The kinds of companions.
    pub kinds: Vec<Kind>,
}

/// One worker's users.
///
/// Users with numbers below the level are active. A user who is called in starts in the middle of a pause, as if they
/// had always been there, so the rate of starts is even from the beginning. A user who is no longer wanted leaves when
/// their next start would be due, together with their companions.
///
/// Users have the numbers from 0 on; the places of their companions follow, grouped by user.
pub(crate) struct Crowd {
    ways: Ways,
    levels: Levels,
    seed: u64,
    share: Share,
    users: Vec<User>,
    // How many are users proper, and how many places there are beside each.
    own: u32,
    beside: u32,
    wheel: Wheel,
    // Users below this number have been called in, and when the next one will be.
    called: u32,
    call_ns: u64,
    // Up to when the level has been followed.
    seen_ns: u64,
}

impl Crowd {
    /// This worker's share of `users`, active as `levels` says from `now_ns` on.
    pub(crate) fn new(levels: Levels, users: u64, ways: Ways, seed: u64, share: Share, now_ns: u64) -> Self {
        let own = share.of(users) as u32;
        let beside = ways.kinds.last().map_or(0, |kind| kind.places.end);
        let count = own as usize * (1 + beside as usize);
        let mut crowd = Crowd {
            ways,
            levels,
            seed,
            share,
            users: vec![User { begun: 0, place: 0, presence: Presence::Away, rank: 0 }; count],
            own,
            beside,
            wheel: Wheel::new(count, now_ns),
            called: 0,
            call_ns: u64::MAX,
            seen_ns: now_ns,
        };
        crowd.follow();
        // Calls in those present from the beginning, so that this does not delay the start.
        crowd.call(now_ns);
        crowd
    }

    /// When the next user is due or to be called in; `u64::MAX` if there is none.
    #[inline]
    pub(crate) fn next_ns(&mut self) -> u64 {
        self.wheel.peek().min(self.call_ns)
    }

    /// The next start that is due at `now_ns`. `value` gives a user's values.
    #[inline]
    pub(crate) fn take<'v>(&mut self, now_ns: u64, value: impl Fn(u32, Slot) -> ValueRef<'v>) -> Option<Start> {
        if self.call_ns <= now_ns {
            self.call(now_ns);
        }
        loop {
            let user = self.wheel.pop(now_ns)?;
            let planned_ns = self.wheel.time(user);
            let (owner, kind) = self.owner(user);
            let global = self.share.global(u64::from(owner));
            let stays = (global as f64) < self.levels.at(planned_ns);
            if kind.is_some() && (!stays || self.users[user as usize].presence == Presence::Ending) {
                self.users[user as usize].presence = Presence::Away;
                continue;
            }
            if !stays {
                self.users[user as usize].presence = Presence::Away;
                self.called = self.called.min(user);
                self.seen_ns = self.seen_ns.max(planned_ns);
                self.follow();
                continue;
            }
            let User { begun, mut place, .. } = self.users[user as usize];
            let mut draw = Draw::at(self.seed, stream::PATHS ^ self.number(user), u64::from(begun));
            let path = kind.map_or(&self.ways.path, |kind| &self.ways.kinds[kind].path);
            let holds = |condition: &Condition| match condition.of {
                Subject::Value(slot) => condition.holds(value(user, slot), |slot| value(user, slot)),
                Subject::Companions(kind) => {
                    let count = self.going(owner, kind).count() as i64;
                    condition.holds(ValueRef::Number(count), |slot| value(user, slot))
                }
            };
            let operation = path.next(&mut place, &mut draw, holds);
            let state = &mut self.users[user as usize];
            (state.place, state.begun) = (place, begun.wrapping_add(1));
            let Some(operation) = operation else {
                state.presence = Presence::Away;
                continue;
            };
            if kind.is_none() && self.beside > 0 {
                self.end_companions(user, operation);
            }
            return Some(Start { planned_ns, draw, user, operation });
        }
    }

    /// The user's operation ended at `now_ns`, with a right answer or not.
    #[inline]
    pub(crate) fn done(&mut self, user: u32, now_ns: u64, right: bool) {
        let User { begun, presence, .. } = self.users[user as usize];
        if presence == Presence::Ending {
            self.users[user as usize].presence = Presence::Away;
            return;
        }
        let (_, kind) = self.owner(user);
        if !right && (kind.is_some() || self.ways.restarts) {
            self.users[user as usize].place = 0;
        }
        let pause = kind.map_or(self.ways.pause, |kind| self.ways.kinds[kind].pause);
        let mut draw = Draw::at(self.seed, stream::PAUSES ^ self.number(user), u64::from(begun));
        let length = pause::draw(pause.distribution(), &mut draw);
        let next_ns = match pause {
            Pause::Think(_) => now_ns.saturating_add(length),
            Pause::Cycle(_) => self.wheel.time(user).saturating_add(length).max(now_ns),
        };
        // A companion that waits for news without a pause would flood a service that refuses to give any.
        let rested_ns = if right || kind.is_none() { 0 } else { now_ns.saturating_add(REFUSED_NS) };
        let next_ns = next_ns.max(rested_ns);
        self.wheel.insert(user, next_ns);
    }

    /// Whether this is a companion that its user has ended since its last start.
    pub(crate) fn has_ended(&self, user: u32) -> bool {
        self.users[user as usize].presence == Presence::Ending
    }

    /// How many kinds of companions there are.
    pub(crate) fn kinds(&self) -> usize {
        self.ways.kinds.len()
    }

    /// The user's operation was answered rightly at `now_ns`: returns the companion of this kind that starts with it.
    /// It must be given the user's values before anything else is taken.
    #[inline]
    pub(crate) fn right(&mut self, user: u32, operation: u16, kind: usize, now_ns: u64) -> Option<u32> {
        if user >= self.own || !self.ways.kinds[kind].starts_after(operation) {
            return None;
        }
        let free = self.places(user, kind).find(|at| self.users[*at as usize].presence == Presence::Away)?;
        let going = self.going(user, kind);
        let (count, rank) = going.fold((0, 0), |(count, rank), at| (count + 1, rank.max(self.users[at as usize].rank)));
        if count >= self.ways.kinds[kind].at_most {
            return None;
        }
        let state = &mut self.users[free as usize];
        (state.place, state.presence, state.rank) = (0, Presence::Here, rank.saturating_add(1));
        self.wheel.insert(free, now_ns);
        Some(free)
    }

    /// The user to whom a companion passes what it has learnt, and the slots: the user's, and its own.
    #[inline]
    pub(crate) fn told_by(&self, user: u32) -> Option<(u32, &[(Slot, Slot)])> {
        let (owner, kind) = self.owner(user);
        kind.map(|kind| (owner, self.ways.kinds[kind].tells.as_slice())).filter(|(_, tells)| !tells.is_empty())
    }

    /// The user itself, or the user that a companion belongs to together with its kind.
    #[inline]
    fn owner(&self, user: u32) -> (u32, Option<usize>) {
        if user < self.own {
            return (user, None);
        }
        let at = user - self.own;
        let place = at % self.beside;
        (at / self.beside, self.ways.kinds.iter().position(|kind| kind.places.contains(&place)))
    }

    /// The number in the whole run that determines a user's random choices; companions of one user have different ones.
    #[inline]
    fn number(&self, user: u32) -> u64 {
        if user < self.own {
            return self.share.global(u64::from(user));
        }
        let at = user - self.own;
        let place = u64::from(at % self.beside) + 1;
        self.share.global(u64::from(at / self.beside)) ^ place << stream::COMPANION_BIT
    }

    /// The places of a kind beside a user.
    fn places(&self, owner: u32, kind: usize) -> Range<u32> {
        let first = self.own + owner * self.beside;
        let places = &self.ways.kinds[kind].places;
        first + places.start..first + places.end
    }

    /// The active companions of a kind beside a user.
    fn going(&self, owner: u32, kind: usize) -> impl Iterator<Item = u32> {
        self.places(owner, kind).filter(|at| self.users[*at as usize].presence == Presence::Here)
    }

    /// Ends the companions that end with this operation of the user.
    fn end_companions(&mut self, owner: u32, operation: u16) {
        for kind in 0..self.ways.kinds.len() {
            let Some(ending) = self.ways.kinds[kind].ended_by(operation) else { continue };
            let rank = |at: &u32| self.users[*at as usize].rank;
            let ended: Vec<u32> = match ending {
                Ending::All => self.going(owner, kind).collect(),
                Ending::Newest => self.going(owner, kind).max_by_key(rank).into_iter().collect(),
            };
            for at in ended {
                self.users[at as usize].presence = Presence::Ending;
            }
        }
    }

    /// See [`super::Source::jump`].
    pub(crate) fn jump(&mut self, at_ns: u64, level: f64) {
        self.levels.jump(at_ns, level);
        self.follow();
    }

    /// Works out when the next user is to be called in.
    fn follow(&mut self) {
        let next = self.users[..self.own as usize].get(self.called as usize);
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
            if state.presence == Presence::Away {
                state.presence = Presence::Here;
                let global = self.share.global(u64::from(user));
                let mut draw = Draw::at(self.seed, stream::PHASES ^ global, u64::from(state.begun));
                let rest_ns = pause::rest(self.ways.pause.distribution(), &mut draw);
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
    use crate::operation::OperationRow;
    use crate::profile::Spoken;
    use proptest::prelude::*;
    use std::time::Duration;
    use tare_core::load::{Companion, Distribution, Followers};

    const ALONE: Share = Share { worker: 0, workers: 1 };

    fn crowd(levels: Levels, users: u64, pause: Pause, share: Share) -> Crowd {
        let ways = Ways { path: Path::Sequence(vec![0, 1, 2]), pause, restarts: false, kinds: Vec::new() };
        Crowd::new(levels, users, ways, 3, share, 0)
    }

    /// Every start up to `end_ns`, each answered after `service_ns`, with the user's number in the whole run.
    fn lived(mut crowd: Crowd, end_ns: u64, service_ns: u64) -> Vec<(u64, u64, u16)> {
        let mut starts = Vec::new();
        while crowd.next_ns() < end_ns {
            let now_ns = crowd.next_ns();
            if let Some(start) = crowd.take(now_ns, |_, _| ValueRef::Unset) {
                starts.push((start.planned_ns, crowd.share.global(u64::from(start.user)), start.operation));
                crowd.done(start.user, start.planned_ns + service_ns, true);
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
        // Missed starts are not made up for.
        assert!(of(Pause::Cycle(seconds(1.0)), 1500).iter().all(|gap| *gap == 1_500_000_000));
    }

    #[test]
    fn a_crowd_starts_as_often_as_its_pauses_say() {
        let pause =
            Pause::Cycle(Distribution::Exponential { mean: Duration::from_secs(1), max: Duration::from_secs(10) });
        let starts = lived(crowd(Levels::new(0, 1000.0), 1000, pause, ALONE), 20 * SECOND_NS, 0);
        // Renewals with exponential gaps are Poisson: 20,000 in total and 1000 in the first second, five deviations
        // each way.
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

    #[test]
    fn who_was_refused_begins_anew_where_the_behaviour_says_so() {
        let operations = |restarts| {
            let path = Path::Sequence(vec![0, 1, 2]);
            let ways = Ways { path, pause: Pause::Cycle(seconds(1.0)), restarts, kinds: Vec::new() };
            let mut crowd = Crowd::new(Levels::new(0, 1.0), 1, ways, 3, ALONE, 0);
            let mut taken = Vec::new();
            while taken.len() < 6 {
                let now_ns = crowd.next_ns();
                let Some(start) = crowd.take(now_ns, |_, _| ValueRef::Unset) else { continue };
                taken.push(start.operation);
                // The second and the fifth fail.
                crowd.done(start.user, now_ns, ![2, 5].contains(&taken.len()));
            }
            taken
        };
        assert_eq!(operations(false), [0, 1, 2, 0, 1, 2]);
        assert_eq!(operations(true), [0, 1, 0, 1, 2, 0]);
    }

    #[test]
    fn companions_begin_with_their_user_and_end_with_it() {
        let names = ["join", "poll", "look", "leave"];
        let operations = names.map(|name| OperationRow { name: name.to_owned(), weight: 1, lingers: false });
        let spoken = Spoken { operations: &operations, variable: &|_| None };
        let weighted = |to: &str| Followers::Weighted([(to.to_owned(), 1.0)].into());
        let follow = Companion {
            after: vec!["join".to_owned()],
            at_most: 2,
            until: [("leave".to_owned(), Ending::All)].into(),
            start: "poll".to_owned(),
            next: [("poll".to_owned(), weighted("poll"))].into(),
            pause: Pause::Cycle(seconds(0.25)),
            tells: [].into(),
        };
        let kinds = Kind::all(&[("follow".to_owned(), follow)].into(), spoken).unwrap();
        // Three joins, the third of which gets no companion; then it looks, and leaves.
        let path = Path::Sequence(vec![0, 0, 0, 2, 3, 2]);
        let ways = Ways { path, pause: Pause::Cycle(seconds(1.0)), restarts: true, kinds };
        let mut crowd = Crowd::new(Levels::new(0, 1.0), 2, ways, 3, ALONE, 0);
        let mut begun: Vec<(u64, u32, u16)> = Vec::new();
        while crowd.next_ns() < 6 * SECOND_NS {
            let now_ns = crowd.next_ns();
            let Some(start) = crowd.take(now_ns, |_, _| ValueRef::Unset) else { continue };
            begun.push((start.planned_ns, start.user, start.operation));
            let answered_ns = start.planned_ns + 1;
            crowd.right(start.user, start.operation, 0, answered_ns);
            crowd.done(start.user, answered_ns, true);
        }
        let first_ns = begun[0].0;
        let polls = |from: u64, to: u64| {
            let within = |at: u64| (first_ns + from * SECOND_NS..first_ns + to * SECOND_NS).contains(&at);
            begun.iter().filter(|(at, user, operation)| within(*at) && *user >= 2 && *operation == 1).count()
        };
        assert_eq!([polls(0, 1), polls(1, 2), polls(2, 3)], [4, 8, 8]);
        assert!((7..=8).contains(&polls(3, 4)) && polls(5, 6) == 0, "{begun:?}");
        assert!(begun.iter().all(|(_, user, operation)| (*user == 0) == (*operation != 1)), "{begun:?}");
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
