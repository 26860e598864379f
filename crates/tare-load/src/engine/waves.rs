//! How answers come in during a turn of a closed loop. A wave is as many answers as there can be operations in flight:
//! the first wave meets a service that has rested, during the last one nothing is started any more, and those in
//! between are like a loop that never rests. Whole waves are counted because a loop may stay in step with itself.
//!
//! A turn starts operations until its time is over *and* the current wave is complete. If it counted up to the last
//! whole wave before a fixed moment, the wave containing that moment would be left out, and that is more often a long
//! one than a short one: rates would read high by cv^2 / waves, with cv the coefficient of variation of a wave's
//! duration. When that wave is counted to its end, the number of waves is a stopping time, and the expected total time
//! is the mean time of a wave times the expected number of waves (A. Wald, Annals of Mathematical Statistics 15
//! (1944)).

/// Waves that a loop needs to get going.
const FIRST: u64 = 2;
/// With fewer whole waves inside a turn, on average over turns, there is no figure.
const LEAST: u64 = 3;
/// A turn that took more than this many times as long as the median one had a stall.
const STALLED: u64 = 3;

/// The waves of a turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waves {
    size: u64,
    // How many of the first answers have times that do not count, because the service had rested.
    rested: u64,
    answers: u64,
    last_ns: u64,
    // From this moment on the turn's time is over, so the current wave is its last whole one.
    until_ns: u64,
    length_ns: u64,
    // The number of the answer that completes the current wave; 0 once nothing is started any more.
    completes: u64,
    // When the loop had got going, and when the last whole wave since then was complete.
    going_ns: u64,
    whole_ns: u64,
    whole: u64,
    // The moment midway between then and the turn's end; when the first whole wave after that moment was complete, and
    // how many there were by then.
    half_at_ns: u64,
    half_ns: u64,
    half: u64,
}

/// The whole waves inside turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amid {
    /// How many there were.
    pub waves: u64,
    /// How many answers they had.
    pub answers: u64,
    /// How long they took, ns.
    pub ns: u64,
    /// Those up to the middle of the turn, and those after it.
    pub halves: [Half; 2],
}

/// Whole waves of the first or the second halves of turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Half {
    /// How many answers they had.
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
    /// Begins a turn with `size` operations in flight at once, which is to last until `until_ns`; `first_counts` says
    /// whether the times of its first wave count.
    pub(crate) fn begin(size: usize, now_ns: u64, until_ns: u64, first_counts: bool) -> Waves {
        let size = size as u64;
        let rested = if first_counts { 0 } else { size };
        let (completes, length_ns) = (size.max(1) * FIRST, until_ns.saturating_sub(now_ns));
        Waves { size, rested, last_ns: now_ns, until_ns, length_ns, completes, ..Waves::default() }
    }

    /// Whether the last answer came from a service that had rested, so that its time does not count.
    #[inline]
    pub(crate) fn is_rested(&self) -> bool {
        self.answers <= self.rested
    }

    /// Counts a reply; returns whether it completes the turn, so that nothing more is started.
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
        // Up to the end of the current wave, like the turn itself, so that neither half reads high.
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

    /// When the last reply came; the beginning if there was none.
    pub(crate) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// When the last wave should be over, for a turn that began at `start_ns` and in which nothing is started after
    /// `now_ns`: a service that does one operation after the other works for all of it, however few are left. A quarter
    /// is added, because few answers do not give a more precise figure.
    pub(crate) fn over_ns(&self, start_ns: u64, now_ns: u64) -> u64 {
        let wave_ns = u128::from(now_ns - start_ns) * u128::from(self.size) / u128::from(self.answers.max(1));
        now_ns.saturating_add(u64::try_from(wave_ns + wave_ns / 4).unwrap_or(u64::MAX))
    }

    /// Its whole waves while the loop was going; none if there were none.
    pub(crate) fn amid(&self) -> Option<Amid> {
        // If no wave was completed after the loop had got going, `whole_ns` is 0.
        let ns = self.whole_ns.saturating_sub(self.going_ns);
        let half = |waves: u64, ns: u64| Half { answers: waves * self.size, ns };
        // A second half that overruns its end by more than a turn is cut off and yields no figure; so a first half that
        // does so must not either, or stalls would be missing in one of the two. A turn whose last wave began before
        // the middle has only a first half.
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
    /// The sum of this and another, one after the other.
    pub(crate) fn and(self, other: Amid) -> Amid {
        let [first, second] = self.halves;
        Amid {
            waves: self.waves + other.waves,
            answers: self.answers + other.answers,
            ns: self.ns + other.ns,
            halves: [first.and(other.halves[0]), second.and(other.halves[1])],
        }
    }

    /// The combined waves of workers that were at work at the same time, out of `all` of them.
    pub(crate) fn beside(workers: &[Amid], all: usize) -> Option<Amid> {
        let sum = workers.iter().copied().reduce(Amid::and)?;
        let told = workers.len() as u64;
        // A worker without figures is assumed to be as fast as the others.
        let answers = |sum: u64| sum * all as u64 / told;
        let halves = sum.halves.map(|half| Half { answers: answers(half.answers), ns: half.ns / told });
        Some(Amid { waves: sum.waves / told, answers: answers(sum.answers), ns: sum.ns / told, halves })
    }

    /// Answers a second; none if this many turns have too few waves for a figure.
    pub(crate) fn rate(&self, turns: u64) -> Option<f64> {
        (self.answers > 0 && self.waves >= LEAST * turns).then(|| self.answers as f64 / (self.ns as f64 / 1e9))
    }
}

/// A turn from which the cost of its move can be worked out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// From its first start to its last answer, ns.
    pub took_ns: u64,
    /// Its answers.
    pub answers: u64,
    /// Its whole waves.
    pub amid: Amid,
}

/// How much longer turns took than their answers take inside turns, ns, on average; none if they have too few waves.
/// The rate inside turns is that of all together, because the mean of ratios of few answers is biased. A stall is no
/// cost of moves, whether it falls inside a turn or at its ends: turns with a stall are left out here, and still count
/// in full elsewhere.
pub(crate) fn move_ns(turns: &[Told]) -> Option<i64> {
    let lasting = lasting(turns);
    let (count, amid) = (lasting.len() as u64, lasting.iter().map(|turn| turn.amid).fold(Amid::default(), Amid::and));
    let each_ns = 1e9 / amid.rate(count)?;
    let (took_ns, answers) =
        lasting.iter().fold((0, 0), |(took, answers), turn| (took + turn.took_ns, answers + turn.answers));
    Some(((took_ns as f64 - answers as f64 * each_ns) / count as f64) as i64)
}

/// By what share answers come faster in the second halves of turns than in the first, while the loop was going: what is
/// still warming up after each move. None if too few turns have both halves.
pub(crate) fn warming(turns: &[Told]) -> Option<f64> {
    let lasting = lasting(turns);
    let both = lasting.iter().filter(|turn| turn.amid.halves[1].answers > 0).count();
    let [first, second] = lasting.iter().map(|turn| turn.amid).fold(Amid::default(), Amid::and).halves;
    (2 * both > lasting.len()).then(|| Some(second.rate()? / first.rate()? - 1.0)).flatten()
}

/// The turns without a stall.
fn lasting(turns: &[Told]) -> Vec<&Told> {
    let mut took: Vec<u64> = turns.iter().map(|turn| turn.took_ns).collect();
    took.sort_unstable();
    let longest_ns = took.get(took.len() / 2).map_or(0, |middle| middle.saturating_mul(STALLED));
    turns.iter().filter(|turn| turn.took_ns <= longest_ns).collect()
}

/// Operations still in flight after the time allowed for the last wave of a turn.
pub(super) struct Stuck {
    latest_ns: u64,
    // How many connections are up, and how many there are in total: if one is down, only the others could have
    // continued.
    up_of: (u64, u64),
    // Up to when time has been added, and the sum for all operations together.
    seen_ns: u64,
    sum_ns: u64,
}

impl Stuck {
    /// No time yet, for a turn that ends at `latest_ns` at the latest, with `up_of` connections up and in total.
    pub(super) fn after(latest_ns: u64, up_of: (u64, u64)) -> Stuck {
        Stuck { latest_ns, up_of, seen_ns: latest_ns, sum_ns: 0 }
    }

    /// This many have been `waiting` until now.
    pub(super) fn add(&mut self, waiting: u64, now_ns: u64) {
        self.sum_ns += waiting * now_ns.saturating_sub(self.seen_ns);
        self.seen_ns = self.seen_ns.max(now_ns);
    }

    /// How long operations were in flight after the turn's latest end, summed, as if all connections were up.
    pub(super) fn sum_ns(&self) -> u64 {
        let (up, all) = self.up_of;
        self.sum_ns * all / up.max(1)
    }

    /// The turn's end without that time.
    pub(super) fn end_ns(&self, end_ns: u64) -> u64 {
        end_ns.min(self.latest_ns)
    }
}

#[cfg(test)]
mod tests;
