//! How answers come in during a turn of a closed loop. A wave is as many answers as operations can be in flight: the
//! first one finds a service that has rested, during the last one nothing is started any more, and those in between are
//! what a loop that never rests looks like. Whole waves are counted, for a loop may stay in step with itself.
//!
//! A turn starts operations until its time is over *and* the wave under way is complete. Were it to count until the
//! last whole wave before a fixed moment, the wave that this moment falls into would be left out, and that is more
//! often a long one than a short one: rates would read high by cv^2 / waves, with cv the coefficient of variation of
//! what a wave takes. Counted on to its end, the number of waves is a stopping time, and the time that they take is on
//! average what each takes times their number (A. Wald, Annals of Mathematical Statistics 15 (1944)).

/// Waves that a loop needs to get going.
const FIRST: u64 = 2;
/// Fewer in the midst of a turn, as a mean over turns, tell nothing.
const LEAST: u64 = 3;
/// A turn that took so many times as long as the median one stood still.
const STALLED: u64 = 3;

/// The waves of a turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waves {
    size: u64,
    // The answers of a service that has rested, where their times do not count.
    rested: u64,
    answers: u64,
    last_ns: u64,
    // The turn's time is over, so the wave under way is its last whole one.
    until_ns: u64,
    length_ns: u64,
    // The answer that completes the wave under way; none will when nothing is started any more.
    completes: u64,
    // When the loop was going, and when the last whole wave since then was complete.
    going_ns: u64,
    whole_ns: u64,
    whole: u64,
    // The moment midway from there to the turn's end; when the first whole wave after it was complete, and how many
    // there were then.
    half_at_ns: u64,
    half_ns: u64,
    half: u64,
}

/// What whole waves amid turns took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amid {
    /// How many there were.
    pub waves: u64,
    /// So many answers.
    pub answers: u64,
    /// How long they took, ns.
    pub ns: u64,
    /// Those until the middle of the turn, and those after it.
    pub halves: [Half; 2],
}

/// Whole waves of the first or of the second halves of turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Half {
    /// So many answers.
    pub answers: u64,
    /// How long they took, ns.
    pub ns: u64,
}

impl Half {
    fn and(self, other: Half) -> Half {
        Half { answers: self.answers + other.answers, ns: self.ns + other.ns }
    }

    fn rate(self) -> Option<f64> {
        (self.answers > 0 && self.ns > 0).then(|| self.answers as f64 / self.ns as f64)
    }
}

impl Waves {
    /// A turn begins, with so many operations in flight at once, that is to last until `until_ns`; whether the times of
    /// its first wave count.
    pub(crate) fn begin(size: usize, now_ns: u64, until_ns: u64, first_counts: bool) -> Waves {
        let size = size as u64;
        let rested = if first_counts { 0 } else { size };
        let (completes, length_ns) = (size.max(1) * FIRST, until_ns.saturating_sub(now_ns));
        Waves { size, rested, last_ns: now_ns, until_ns, length_ns, completes, ..Waves::default() }
    }

    /// Whether the last answer was one of a service that has rested, and its time does not count.
    #[inline]
    pub(crate) fn is_rested(&self) -> bool {
        self.answers <= self.rested
    }

    /// A reply has come; whether it completes the turn, so that nothing is to be started any more.
    #[inline]
    pub(crate) fn answered(&mut self, now_ns: u64) -> bool {
        self.answers += 1;
        self.last_ns = now_ns;
        self.answers == self.completes && self.complete(now_ns)
    }

    #[cold]
    fn complete(&mut self, now_ns: u64) -> bool {
        self.completes += self.size.max(1);
        if self.going_ns == 0 {
            (self.going_ns, self.half_at_ns) = (now_ns, now_ns + self.until_ns.saturating_sub(now_ns) / 2);
            return false;
        }
        self.whole += 1;
        self.whole_ns = now_ns;
        // To the end of the wave under way, as the turn itself, so that neither half reads high.
        if self.half == 0 && now_ns >= self.half_at_ns {
            (self.half_ns, self.half) = (now_ns, self.whole);
        }
        let over = now_ns >= self.until_ns;
        if over {
            self.ebb();
        }
        over
    }

    /// Nothing is started any more.
    pub(crate) fn ebb(&mut self) {
        self.completes = 0;
    }

    /// How many replies there were.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    /// When the last one came; the beginning where none did.
    pub(crate) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// When the last wave of a turn should be over that began at `start_ns` and in which nothing is started any more
    /// since `now_ns`: a service that does one operation after the other works for all of it, however few are left. A
    /// quarter more, for by few answers it is not known better.
    pub(crate) fn over_ns(&self, start_ns: u64, now_ns: u64) -> u64 {
        let wave_ns = u128::from(now_ns - start_ns) * u128::from(self.size) / u128::from(self.answers.max(1));
        now_ns.saturating_add(u64::try_from(wave_ns + wave_ns / 4).unwrap_or(u64::MAX))
    }

    /// What its whole waves took while the loop was going; none where there is none.
    pub(crate) fn amid(&self) -> Option<Amid> {
        // Where the loop got going and no wave was whole after that, the second moment is not there.
        let ns = self.whole_ns.saturating_sub(self.going_ns);
        let half = |waves: u64, ns: u64| Half { answers: waves * self.size, ns };
        // A second half that overruns its end by more than a turn is cut off and tells nothing; so does a first one, or
        // stalls would be missing in one of the two. Whose last wave began before the middle has a first half alone.
        let late_ns = self.half_ns.saturating_sub(self.half_at_ns);
        let halves = match self.half {
            _ if late_ns > self.length_ns => <[Half; 2]>::default(),
            0 => <[Half; 2]>::default(),
            first => {
                [half(first, self.half_ns - self.going_ns), half(self.whole - first, self.whole_ns - self.half_ns)]
            }
        };
        let amid = Amid { waves: self.whole, answers: self.whole * self.size, ns, halves };
        (self.whole > 0 && ns > 0).then_some(amid)
    }
}

impl Amid {
    /// These and others, one after the other.
    pub(crate) fn and(self, other: Amid) -> Amid {
        let [first, second] = self.halves;
        Amid {
            waves: self.waves + other.waves,
            answers: self.answers + other.answers,
            ns: self.ns + other.ns,
            halves: [first.and(other.halves[0]), second.and(other.halves[1])],
        }
    }

    /// What those of several workers come to that are at work at the same moment, where `all` of them are.
    pub(crate) fn beside(workers: &[Amid], all: usize) -> Option<Amid> {
        let sum = workers.iter().copied().reduce(Amid::and)?;
        let told = workers.len() as u64;
        // Of a worker that cannot tell it is taken that it was as fast as the others.
        let answers = |sum: u64| sum * all as u64 / told;
        let halves = sum.halves.map(|half| Half { answers: answers(half.answers), ns: half.ns / told });
        Some(Amid { waves: sum.waves / told, answers: answers(sum.answers), ns: sum.ns / told, halves })
    }

    /// Answers a second; none where so many turns hold too few waves to tell.
    pub(crate) fn rate(&self, turns: u64) -> Option<f64> {
        (self.answers > 0 && self.waves >= LEAST * turns).then(|| self.answers as f64 / (self.ns as f64 / 1e9))
    }
}

/// A turn that tells what its move cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// From its first start to its last answer, ns.
    pub took_ns: u64,
    /// Its answers.
    pub answers: u64,
    /// Its whole waves.
    pub amid: Amid,
}

/// How much longer turns were than their answers take amid them, ns, as a mean; none where they hold too few waves. The
/// rate amid them is that of all together, for the mean of ratios of few answers is another one. A stall is no cost of
/// moves, whether it falls amid a turn or into its ends: turns that stood still are left out, and stay whole.
pub(crate) fn move_ns(turns: &[Told]) -> Option<i64> {
    let lasting = lasting(turns);
    let (count, amid) = (lasting.len() as u64, lasting.iter().map(|turn| turn.amid).fold(Amid::default(), Amid::and));
    let each_ns = 1e9 / amid.rate(count)?;
    let (took_ns, answers) =
        lasting.iter().fold((0, 0), |(took, answers), turn| (took + turn.took_ns, answers + turn.answers));
    Some(((took_ns as f64 - answers as f64 * each_ns) / count as f64) as i64)
}

/// By which share answers come faster in the second halves of turns than in the first ones, where the loop was going:
/// what still gets warm after each move. None where too few turns have both.
pub(crate) fn warming(turns: &[Told]) -> Option<f64> {
    let lasting = lasting(turns);
    let both = lasting.iter().filter(|turn| turn.amid.halves[1].answers > 0).count();
    let [first, second] = lasting.iter().map(|turn| turn.amid).fold(Amid::default(), Amid::and).halves;
    (2 * both > lasting.len()).then(|| Some(second.rate()? / first.rate()? - 1.0)).flatten()
}

/// The turns that did not stand still.
fn lasting(turns: &[Told]) -> Vec<&Told> {
    let mut took: Vec<u64> = turns.iter().map(|turn| turn.took_ns).collect();
    took.sort_unstable();
    let longest_ns = took.get(took.len() / 2).map_or(0, |middle| middle.saturating_mul(STALLED));
    turns.iter().filter(|turn| turn.took_ns <= longest_ns).collect()
}

/// Operations that are still in flight when the last wave of a turn has had its time.
pub(super) struct Stuck {
    latest_ns: u64,
    // How many connections there are, and of how many: where one is down, the others are all that could go on.
    up_of: (u64, u64),
    // What of the time since then is added, and how much that is for all of them together.
    seen_ns: u64,
    sum_ns: u64,
}

impl Stuck {
    /// None yet, of a turn that may end at `latest_ns` at the latest, with so many of so many connections.
    pub(super) fn after(latest_ns: u64, up_of: (u64, u64)) -> Stuck {
        Stuck { latest_ns, up_of, seen_ns: latest_ns, sum_ns: 0 }
    }

    /// So many have been `waiting` until now.
    pub(super) fn add(&mut self, waiting: u64, now_ns: u64) {
        self.sum_ns += waiting * now_ns.saturating_sub(self.seen_ns);
        self.seen_ns = self.seen_ns.max(now_ns);
    }

    /// How long they were in flight after the turn's latest end, all added up, as if all connections were there.
    pub(super) fn sum_ns(&self) -> u64 {
        let (up, all) = self.up_of;
        self.sum_ns * all / up.max(1)
    }

    /// The turn's end without that.
    pub(super) fn end_ns(&self, end_ns: u64) -> u64 {
        end_ns.min(self.latest_ns)
    }
}

#[cfg(test)]
mod tests;
