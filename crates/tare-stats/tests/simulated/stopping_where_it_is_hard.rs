//! Runs that end for their width where noise is not independent, normal and of equal spread: chopped runs, turn by
//! turn, on machines whose noise fades within a millisecond or an hour, that step amid a run, that have bursts and
//! deployments with heavy tails, and with a form that has five times the spread of the others.
//!
//! Block by block, as the runner does it: it looks at the width after 6, 8, 10 ... blocks, ends the run when that is
//! what was asked for, and the report then claims no less. Whoever is narrow by luck ends early, so this is where
//! intervals would miss the truth most often.

use crate::records;
use crate::simulated::experiment::empty;
use crate::simulated::noise::Random;
use crate::simulated::rounds::{Deployment, ROUNDS, TURN_S, Wave, arm, in_turns, measured, study};
use crate::simulated::spread::Luck;
use crate::simulated::{error, is_thorough};
use std::fmt;
use std::ops::Add;
use std::time::Duration;
use tare_core::design::{Arrangement, BLOCKS_MAX_DEFAULT, Chop, Design};
use tare_core::plan::{PlannedTrial, plan};
use tare_core::record::{COMPLETE, End, PRECISE_ENOUGH, Record, TrialData};
use tare_stats::{Analysis, Interval, Ratio, Verdict, analyse, is_look, precise_enough};

/// What one turn on a machine varies by, standard deviation of the log. It is in everybody's turns.
const SHARED: f64 = 0.03;
/// What a turn of a deployment varies by of its own, as a share, times the spread of its form.
const OWN: f64 = 0.01;
/// From the last turn of a block until the first of the next one, s.
const DEPLOYING_S: f64 = 20.0;
/// A step comes somewhere in so many blocks, which most runs have.
const STEP_WITHIN: f64 = 8.0;
/// On average so much time with turns passes between two bursts, s: there is one in about every third block.
const BURST_EVERY_S: f64 = 4.0;
/// How long a burst lasts at least, s, and the exponent of the share that lasts longer: a variance there is not, and
/// one in a hundred lasts for more than all of a block.
const BURST: (f64, f64) = (0.05, 1.5);
/// What the step and a burst do to rates, log scale.
const STEP: f64 = 0.2;
const SLOWED: f64 = -0.7;
/// Blocks in which intervals would come down to the widths that are asked for if their spread were known. The first
/// width many runs have at their first look, and what they claim is more than they found. Of normal noise that is known
/// by nothing but itself intervals hold least often after about as many blocks as the last, which is 93.9 %: there are
/// looks enough by then for one to be lucky, and what luck hides is not yet little.
const ASKED: [f64; 3] = [6.0, 14.0, 25.0];
/// The margin of equivalence, in half-widths: most equals lie within it.
const MARGIN: f64 = 3.0;
/// The variable that says how many runs there are.
const RUNS: &str = "TARE_SIMULATED_RUNS";
/// Blocks of the run that shows what a machine's spread is.
const SHOWING: u32 = 100;

/// What is hard about a machine but that its noise fades.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    name: &'static str,
    /// It is another one from some turn on.
    step: bool,
    /// Now and then it is slow, mostly for moments and sometimes for seconds; and what deployments differ by has the
    /// tails of Student's t with 3 degrees of freedom.
    bursts: bool,
    /// Of the arms: the baseline, its second copy, the forms.
    spreads: &'static [f64],
}

const EQUAL: &[f64] = &[1.0, 1.0, 1.0];
const UNEQUAL: &[f64] = &[1.0, 1.0, 1.0, 5.0];

#[derive(Debug, Clone, Copy)]
struct Machine {
    /// What deployments of a form of spread 1 differ by, log scale.
    between: f64,
    /// The correlation time of what all share and of what is each deployment's own, s.
    fades_s: f64,
    trouble: Trouble,
}

/// A machine over the whole of a run: what it does goes on while others are deployed.
struct Course {
    machine: Machine,
    shared: Wave,
    /// Turns that there were.
    turns: f64,
    /// After how many of them it steps, and by how much on the log scale.
    step: (f64, f64),
    /// For how long a burst goes on, s.
    burst_s: f64,
}

impl Course {
    fn begin(machine: Machine, random: &mut Random) -> Course {
        let within = STEP_WITHIN * (ROUNDS * machine.trouble.spreads.len()) as f64;
        let step = (within * random.uniform(), if random.uniform() < 0.5 { STEP } else { -STEP });
        Course { machine, shared: Wave::begin(random), turns: 0.0, step, burst_s: 0.0 }
    }

    /// What the next turn meets, log scale, `last_s` after the one before it began.
    fn meets(&mut self, last_s: f64, random: &mut Random) -> f64 {
        let Machine { fades_s, trouble, .. } = self.machine;
        self.burst_s -= last_s;
        if trouble.bursts && self.burst_s <= 0.0 && random.uniform() < TURN_S / BURST_EVERY_S {
            self.burst_s = BURST.0 * random.uniform().powf(-1.0 / BURST.1);
        }
        let mut log = SHARED * self.shared.next((-TURN_S / fades_s).exp(), random);
        log += if self.burst_s > 0.0 { SLOWED } else { 0.0 };
        log += if trouble.step && self.turns > self.step.0 { self.step.1 } else { 0.0 };
        self.turns += 1.0;
        log
    }

    /// The trials of a block, and the time until the next.
    fn block(&mut self, planned: &[PlannedTrial], random: &mut Random) -> Vec<TrialData> {
        let Machine { between, fades_s, trouble } = self.machine;
        let luck = if trouble.bursts { Luck::Heavy } else { Luck::Normal };
        let deployment = |planned: &PlannedTrial| {
            let spread = trouble.spreads[arm(planned)];
            let log = between * spread * luck.draw(random);
            Deployment::new(log, OWN * spread, random)
        };
        let deployments: Vec<Deployment> = planned.iter().map(deployment).collect();
        let parts = in_turns(deployments, fades_s, |last_s, random| self.meets(last_s, random), random);
        self.shared.next((-DEPLOYING_S / fades_s).exp(), random);
        self.burst_s -= DEPLOYING_S;
        let mut trials: Vec<TrialData> = planned.iter().map(empty).collect();
        for (trial, parts) in trials.iter_mut().zip(&parts) {
            measured(trial, parts, 0.0);
            let load = trial.record.load.as_mut().expect("it took turns");
            // Halves of turns tell that nobody gets warm: where they tell nothing, nobody is called equivalent.
            load.turns.as_mut().expect("it took turns").warming = Some(0.0);
        }
        trials
    }
}

/// A run of at most so many blocks, all forms being equal: it ends as soon as its intervals reach as far as `asked`, a
/// share, if that is said.
fn carry_out(machine: Machine, asked: Option<f64>, most: u32, random: &mut Random) -> Record {
    let arms = machine.trouble.spreads.len();
    let mut study = study(arms, most);
    // Slices of a length that was asked for are not held against others, which would be in the record.
    let chop = Chop { slice: Some(Duration::from_secs_f64(TURN_S)), ..Chop::default() };
    study.design = Design {
        arrangement: Arrangement::Chop(chop),
        half_width: asked,
        margin: asked.map(|asked| MARGIN * asked),
        ..Design::default()
    };
    let plan = plan(&study, &[], (random.uniform() * 1e15) as u64);
    let mut record = records::record(study, plan.clone(), Vec::new());
    record.end = None;
    let (mut course, mut how) = (Course::begin(machine, random), COMPLETE);
    for planned in plan.chunks(arms) {
        record.trials.extend(course.block(planned, random));
        // All stand side by side, so a round is one block.
        if is_look(planned[0].block + 1) && precise_enough(&record) {
            how = PRECISE_ENOUGH;
            break;
        }
    }
    record.end = Some(End { ended: String::new(), how: how.to_owned(), asked_by: None });
    record
}

fn forms(analysis: &Analysis) -> Vec<&Ratio> {
    analysis.metrics[0].ratios.iter().filter(|ratio| ratio.arm != analysis.control).collect()
}

fn interval(ratio: &Ratio) -> Interval {
    ratio.interval.expect("six blocks make an interval")
}

/// The half-widths that runs on a machine are asked for, as shares.
fn asked(machine: Machine, random: &mut Random) -> [f64; ASKED.len()] {
    let analysis = analyse(&carry_out(machine, None, SHOWING, random));
    let half_width = |ratio: &Ratio| 0.5 * (interval(ratio).high / interval(ratio).low).ln();
    let widest = forms(&analysis).into_iter().map(half_width).fold(0.0, f64::max);
    ASKED.map(|blocks| (widest * (f64::from(SHOWING) / blocks).sqrt()).exp_m1())
}

/// The same run, had `form` done so many times as much in each of its turns.
fn had_done(record: &Record, form: &str, times: f64) -> Record {
    let mut other = record.clone();
    for trial in other.trials.iter_mut().filter(|trial| trial.record.trial.form == form) {
        *trial.record.metrics.get_mut("throughput").expect("it was measured") *= times;
        let load = trial.record.load.as_mut().expect("it took turns");
        load.batches.iter_mut().for_each(|rate| *rate *= times);
        let turns = load.turns.as_mut().expect("it took turns");
        turns.answers = (turns.answers as f64 * times) as u64;
    }
    other
}

/// What came out of runs of equals, as numbers of them.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    runs: f64,
    /// They ended for their width.
    ended: f64,
    blocks: f64,
    /// All intervals of forms hold 1.
    held: f64,
    /// They would, as narrow as they were when the run ended.
    held_as_is: f64,
    /// A form got a verdict.
    wrong: f64,
    /// The last form is called equivalent, which it is.
    equivalent: f64,
    /// It is called so although it is off by the margin, up in every second run and down in the others.
    off: f64,
}

impl Tally {
    /// Of one run.
    fn of(record: &Record, up: bool) -> Tally {
        let one = |holds: bool| f64::from(u8::from(holds));
        let hold = |analysis: &Analysis| forms(analysis).into_iter().all(|ratio| interval(ratio).contains(1.0));
        let analysis = analyse(record);
        let forms = forms(&analysis);
        let last = forms.last().expect("there is a form");
        let end = End { ended: String::new(), how: COMPLETE.to_owned(), asked_by: None };
        let as_is = Record { end: Some(end), ..record.clone() };
        let by_margin = 1.0 + record.header.study.design.margin();
        let off = analyse(&had_done(record, &last.arm, if up { by_margin } else { 1.0 / by_margin }));
        let called = |ratio: &&Ratio| matches!(ratio.verdict, Verdict::Better | Verdict::Worse);
        let equivalent = |ratio: &Ratio| ratio.arm == last.arm && ratio.equivalent == Some(true);
        Tally {
            runs: 1.0,
            ended: one(record.end.as_ref().is_some_and(|end| end.how == PRECISE_ENOUGH)),
            blocks: f64::from(analysis.blocks_measured),
            held: one(hold(&analysis)),
            held_as_is: one(hold(&analyse(&as_is))),
            wrong: one(forms.iter().any(called)),
            equivalent: one(analysis.metrics[0].ratios.iter().any(equivalent)),
            off: one(off.metrics[0].ratios.iter().any(equivalent)),
        }
    }

    /// What is promised of runs that may end for their width, whatever the noise.
    fn hold_to_account(&self, what: &str) {
        let (runs, slack) = (self.runs, error(0.05, self.runs));
        // With 2000 runs the simulation is exact enough to do without slack.
        let of_coverage = if runs < 2000.0 { slack } else { 0.0 };
        assert!(self.held / runs >= 0.93 - of_coverage, "{what}: {self}");
        assert!(self.wrong / runs <= 0.05 + slack, "{what}: {self}");
        assert!(self.off / runs <= 0.05 + slack, "{what}: {self}");
    }
}

impl Add for Tally {
    type Output = Tally;

    fn add(self, other: Tally) -> Tally {
        Tally {
            runs: self.runs + other.runs,
            ended: self.ended + other.ended,
            blocks: self.blocks + other.blocks,
            held: self.held + other.held,
            held_as_is: self.held_as_is + other.held_as_is,
            wrong: self.wrong + other.wrong,
            equivalent: self.equivalent + other.equivalent,
            off: self.off + other.off,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean = |sum: f64| sum / self.runs;
        let [held, as_is, wrong] = [self.held, self.held_as_is, self.wrong].map(|count| 100.0 * mean(count));
        let [ended, equivalent, off] = [self.ended, self.equivalent, self.off].map(|count| 100.0 * mean(count));
        let (runs, blocks) = (self.runs, mean(self.blocks));
        write!(to, "{runs:5} runs, {blocks:4.1} blocks, {ended:5.1} % ended for their width; ")?;
        write!(to, "intervals hold in {held:5.1} %, {as_is:5.1} % as they were; wrong verdicts {wrong:4.1} %; ")?;
        write!(to, "equivalent are {equivalent:5.1} % of equals, {off:4.1} % off by the margin")
    }
}

/// Runs on one machine by the width that they are asked for, so many of each.
fn simulate(machine: Machine, runs: u32, seed: u64) -> [Tally; ASKED.len()] {
    let mut random = Random::new(seed);
    asked(machine, &mut random).map(|asked| {
        let one = |run: u32| {
            let record = carry_out(machine, Some(asked), BLOCKS_MAX_DEFAULT, &mut random);
            Tally::of(&record, run.is_multiple_of(2))
        };
        (0..runs).map(one).fold(Tally::default(), Tally::add)
    })
}

/// What came out of machines by the width that runs were asked for.
type Row = (Machine, [Tally; ASKED.len()]);

/// All runs on those machines that are `like` this, asked for one width or any.
fn sum(rows: &[Row], width: Option<usize>, like: impl Fn(&Machine) -> bool) -> Tally {
    let rows = rows.iter().filter(|(machine, _)| like(machine));
    let tallies = rows.flat_map(|(_, widths)| widths.iter().enumerate());
    let asked = tallies.filter(|(at, _)| width.is_none_or(|width| width == *at));
    asked.fold(Tally::default(), |sum, (_, tally)| sum + *tally)
}

const BETWEEN: [f64; 3] = [0.0, 0.005, 0.03];
const FADES_S: [f64; 5] = [0.001, 0.1, 10.0, 600.0, 3600.0];

/// Runs on each machine for each width: what the variable says, which takes as long as one likes; else 130 or 4.
fn runs() -> u32 {
    let asked = std::env::var(RUNS).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{RUNS} is no number")));
    asked.unwrap_or(if is_thorough() { 130 } else { 4 })
}

/// Holds to account what ends for its width on machines with this trouble: together, by how much deployments differ, by
/// how fast noise fades and by width; and each by itself, where it had so many runs that it can be.
fn ends_for_width_with(trouble: Trouble, seed: u64) {
    let name = trouble.name;
    let runs = runs();
    let machines = BETWEEN.into_iter().flat_map(|between| FADES_S.map(|fades_s| (between, fades_s)));
    let mut rows: Vec<Row> = Vec::new();
    // With the same draws for all, what they come to together would be no more exact than what one does.
    for ((between, fades_s), seed) in machines.zip(seed..) {
        let machine = Machine { between, fades_s, trouble };
        rows.push((machine, simulate(machine, runs, seed)));
        let tally = sum(&rows[rows.len() - 1..], None, |_| true);
        let what = format!("{name:9} {:3.1} % between, fades in {fades_s:5} s", 100.0 * between);
        eprintln!("{what}: {tally}");
        if is_thorough() {
            tally.hold_to_account(&what);
        }
    }
    let hold = |what: String, tally: Tally| {
        eprintln!("{name:9} {what:32}: {tally}");
        tally.hold_to_account(&format!("{name} {what}"));
    };
    for between in BETWEEN {
        hold(format!("{:3.1} % between", 100.0 * between), sum(&rows, None, |machine| machine.between == between));
    }
    for fades_s in FADES_S {
        hold(format!("fades in {fades_s} s"), sum(&rows, None, |machine| machine.fades_s == fades_s));
    }
    for (width, blocks) in ASKED.iter().enumerate() {
        hold(format!("a width of some {blocks} blocks"), sum(&rows, Some(width), |_| true));
    }
    let all = sum(&rows, None, |_| true);
    hold("all".to_owned(), all);
    // Else nothing was tested.
    assert!(all.ended > 0.5 * all.runs && all.equivalent > 0.5 * all.runs, "{name}: {all}");
    assert!(all.held_as_is < all.held, "{name}: no interval missed by being narrow: {all}");
}

#[test]
fn ending_for_width_keeps_its_promise_however_fast_noise_fades() {
    ends_for_width_with(Trouble { name: "fading", step: false, bursts: false, spreads: EQUAL }, 22_100);
}

#[test]
fn ending_for_width_keeps_its_promise_with_a_step_amid_the_run() {
    ends_for_width_with(Trouble { name: "step", step: true, bursts: false, spreads: EQUAL }, 22_200);
}

#[test]
fn ending_for_width_keeps_its_promise_with_bursts_and_heavy_tails() {
    ends_for_width_with(Trouble { name: "bursts", step: false, bursts: true, spreads: EQUAL }, 22_300);
}

#[test]
fn ending_for_width_keeps_its_promise_with_a_form_of_five_times_the_spread() {
    ends_for_width_with(Trouble { name: "unequal", step: false, bursts: false, spreads: UNEQUAL }, 22_400);
}

#[test]
fn ending_for_width_keeps_its_promise_with_all_of_these() {
    ends_for_width_with(Trouble { name: "all these", step: true, bursts: true, spreads: UNEQUAL }, 22_500);
}
