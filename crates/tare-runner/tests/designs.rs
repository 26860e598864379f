//! Designs in the runner: blocks that are run again, runs that end by themselves, forms that stand side by side.

use crate::stage;

use stage::{Trouble, fresh, header, outcomes, run, run_with};
use std::path::Path;
use std::time::Duration;
use tare_core::design::{Arrangement, Chop, FIRST_LOOK, Slices};
use tare_core::record::{Header, Record, TrialData};
use tare_core::trial::Outcome;
use tare_runner::{Ending, read_record};
use tare_stats::{Missing, Warning, analyse, contest, is_lead_look, is_look};

fn is_unfinished(warning: &Warning) -> bool {
    matches!(warning, Warning::Missing { what: Missing::Unfinished { .. } })
}

fn alternating(forms: &[&str], repeat: u32, rounds: u64) -> Header {
    let mut header = header(forms, repeat);
    let seconds = Duration::from_secs;
    header.study.design.arrangement = Arrangement::Alternate(Slices { settle: seconds(1), measure: seconds(2) });
    header.study.measure = seconds(2 * rounds);
    header
}

/// Block and arm of the trials that run a block again.
fn again(record: &Record) -> Vec<(u32, u32, String)> {
    let trials = record.trials.iter().map(|trial| &trial.record.trial);
    trials.filter_map(|trial| Some((trial.again?, trial.block, trial.arm()))).collect()
}

#[test]
fn a_block_with_a_void_trial_is_run_again_at_the_end_and_replaces_it() {
    let (_folder, path) = fresh();
    // The box answers wrongly once, in the second block.
    let once = |form: &str, opened| if (form, opened) == ("box", 1) { Trouble::WrongAnswers } else { Trouble::None };
    let ran = run_with(&path, &header(&["plain", "box"], 5), &once, None);
    assert_eq!(ran.ending, Ending::Complete);
    let record = read_record(&path).unwrap();
    let mut second = again(&record);
    second.sort();
    let arm = |name: &str| (1, 5, name.to_owned());
    assert_eq!(second, [arm("box"), arm("plain"), arm("plain (A/A)")]);
    assert_eq!(record.trials.len(), 18, "both runs of the block are kept");
    let analysis = analyse(&record);
    assert_eq!(analysis.blocks_replaced, [1]);
    let ratio = &analysis.metrics.iter().find(|metric| metric.name == "throughput").unwrap().ratios[1];
    assert_eq!((ratio.arm.as_str(), &ratio.blocks), ("box", &vec![0, 2, 3, 4, 5]));
}

#[test]
fn no_more_than_a_fifth_of_the_blocks_is_run_again_and_what_never_works_not_at_all() {
    let (folder, path) = fresh();
    let often = |form: &str, opened| if form == "box" && opened < 5 { Trouble::WrongAnswers } else { Trouble::None };
    run_with(&path, &header(&["plain", "box"], 10), &often, None);
    let record = read_record(&path).unwrap();
    assert_eq!(again(&record).iter().map(|(of, ..)| *of).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1]);
    let path = folder.path().join("never");
    run(&path, &header(&["plain", "box"], 3), &[("box", Trouble::Start)], None);
    assert_eq!(again(&read_record(&path).unwrap()), []);
}

#[test]
fn a_second_run_that_was_interrupted_is_completed() {
    let (_folder, path) = fresh();
    let header = header(&["plain", "box"], 2);
    let once = |form: &str, opened| if (form, opened) == ("box", 0) { Trouble::WrongAnswers } else { Trouble::None };
    // Six trials of the plan, then the second of the block that is run again.
    let first = run_with(&path, &header, &once, Some(8));
    assert_eq!(first.ending, Ending::Interrupted);
    assert_eq!(again(&read_record(&path).unwrap()).len(), 1);
    assert_eq!(run(&path, &header, &[], None).ending, Ending::Complete);
    let record = read_record(&path).unwrap();
    assert_eq!(again(&record).len(), 3);
    assert_eq!(record.trials.len(), 9);
}

#[test]
fn a_run_ends_when_it_is_precise_enough_and_not_before() {
    let (folder, path) = fresh();
    let mut header = header(&["plain", "box"], 40);
    header.study.design.half_width = Some(0.02);
    let ran = run(&path, &header, &[], None);
    assert_eq!(ran.ending, Ending::PreciseEnough);
    let record = read_record(&path).unwrap();
    assert_eq!(record.end.as_ref().unwrap().how, "precise enough");
    let analysis = analyse(&record);
    assert!((6..20).contains(&analysis.blocks_measured), "{}", analysis.blocks_measured);
    assert_eq!(analysis.blocks_measured % 2, 0, "it looks after fixed numbers of blocks");
    let throughput = analysis.metrics.iter().find(|metric| metric.name == "throughput").unwrap();
    let interval = throughput.ratios.iter().find(|ratio| ratio.arm == "box").unwrap().interval.unwrap();
    let half_width = 0.5 * (interval.high / interval.low).ln();
    assert!((half_width - 1.02_f64.ln()).abs() < 1e-9, "it claims what was asked for: {half_width}");
    assert!(!analysis.warnings.iter().any(is_unfinished), "{:?}", analysis.warnings);
    let path = folder.path().join("exact");
    header.study.design.half_width = Some(1e-6);
    header.plan.truncate(24);
    assert_eq!(run(&path, &header, &[], None).ending, Ending::Complete);
}

#[test]
fn a_search_ends_when_one_form_leads_beyond_chance_and_not_for_its_width() {
    let (folder, path) = fresh();
    let mut header = header(&["plain", "box"], 40);
    header.study.design.best_in = Some("throughput".to_owned());
    assert_eq!(run(&path, &header, &[("box", Trouble::Slow)], None).ending, Ending::Decided);
    let record = read_record(&path).unwrap();
    assert_eq!(record.end.as_ref().unwrap().how, "decided");
    assert!(record.end.as_ref().unwrap().is_whole() && record.lost().is_empty());
    let contest = contest(&record, "throughput").unwrap();
    assert!(contest.decided && is_lead_look(contest.blocks), "{contest:?}");
    let warnings = analyse(&record).warnings;
    assert!(warnings.contains(&Warning::EndedByFinding), "{warnings:?}");
    assert!(!warnings.iter().any(is_unfinished), "{warnings:?}");
    // Having ended by itself, it is not measured on.
    let trials = record.trials.len();
    assert_eq!(run(&path, &header, &[("box", Trouble::Slow)], None).ending, Ending::Decided);
    assert_eq!(read_record(&path).unwrap().trials.len(), trials);
    // Of equals none leads, and its plan is carried out.
    let path = folder.path().join("equal");
    header.plan.truncate(36);
    assert_eq!(run(&path, &header, &[], None).ending, Ending::Complete);
}

#[test]
fn the_first_look_is_where_studies_are_told_it_is() {
    assert!(is_look(FIRST_LOOK) && (0..FIRST_LOOK).all(|blocks| !is_look(blocks)));
}

/// A run that is precise enough and has a void trial in its second block: its record, and how many trials it took
/// before it ran that block again.
fn precise_with_a_void(path: &Path, at_most: Option<Duration>, stop_in_run: Option<u32>) -> (Ending, Record, usize) {
    let mut header = header(&["plain", "box"], 40);
    header.study.design.half_width = Some(0.02);
    header.study.at_most = at_most;
    let once = |form: &str, opened| if (form, opened) == ("box", 1) { Trouble::WrongAnswers } else { Trouble::None };
    let ending = run_with(path, &header, &once, stop_in_run).ending;
    let record = read_record(path).unwrap();
    let planned = record.trials.iter().filter(|trial| trial.record.trial.again.is_none()).count();
    (ending, record, planned)
}

#[test]
fn no_time_to_run_a_block_again_takes_nothing_from_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let (ending, _, planned) = precise_with_a_void(&folder.path().join("free"), None, None);
    assert_eq!(ending, Ending::PreciseEnough);
    // Trials take two seconds; the block that would be run again has no room.
    let just = Duration::from_secs(2 * planned as u64 + 1);
    let path = folder.path().join("precise");
    let (ending, record, _) = precise_with_a_void(&path, Some(just), None);
    assert_eq!((ending, again(&record).len()), (Ending::PreciseEnough, 0));
    let path = folder.path().join("complete");
    let mut header = header(&["plain", "box"], 2);
    header.study.at_most = Some(Duration::from_secs(13));
    let once = |form: &str, opened| if (form, opened) == ("box", 0) { Trouble::WrongAnswers } else { Trouble::None };
    assert_eq!(run_with(&path, &header, &once, None).ending, Ending::Complete);
}

#[test]
fn a_run_that_was_precise_enough_is_not_measured_on() {
    let folder = tempfile::tempdir().unwrap();
    let (_, whole, planned) = precise_with_a_void(&folder.path().join("free"), None, None);
    assert_eq!(again(&whole).len(), 3);
    // Interrupted in the midst of the block that is run again.
    let path = folder.path().join("r");
    let (ending, record, _) = precise_with_a_void(&path, None, Some(planned as u32 + 2));
    assert_eq!((ending, again(&record).len()), (Ending::Interrupted, 1));
    assert_eq!(record.end.as_ref().unwrap().how, "precise enough");
    // Had it been killed, nothing would say so; it completes the block, and no other is measured.
    std::fs::remove_file(path.join("end.json")).unwrap();
    let (ending, record, now_planned) = precise_with_a_void(&path, None, None);
    assert_eq!((ending, again(&record).len(), now_planned), (Ending::PreciseEnough, 3, planned));
    // Whatever the block that was run again brought: it mends, and decides nothing.
    let mends = record.trials.iter().filter(|trial| trial.record.trial.again.is_some());
    for (at, mend) in mends.enumerate() {
        let file = path.join(format!("trials/{:04}/trial.json", mend.record.trial.index));
        let mut trial: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        trial["metrics"]["throughput"] = serde_json::json!(1000 * (at + 1));
        std::fs::write(&file, trial.to_string()).unwrap();
    }
    std::fs::remove_file(path.join("end.json")).unwrap();
    assert_eq!(precise_with_a_void(&path, None, None).2, planned);
    // And so when it was killed right after the last trial, before it looked.
    for folder in ["trials", "end.json"] {
        let (from, to) = (path.join(folder), path.join(format!("{folder}.old")));
        std::fs::rename(&from, &to).unwrap();
    }
    std::fs::create_dir(path.join("trials")).unwrap();
    for index in 0..planned {
        let name = format!("{index:04}");
        std::fs::rename(path.join("trials.old").join(&name), path.join("trials").join(&name)).unwrap();
    }
    assert_eq!(precise_with_a_void(&path, None, None).2, planned);
}

#[test]
fn side_by_side_all_but_the_one_under_load_are_frozen() {
    let (_folder, path) = fresh();
    let ran = run(&path, &alternating(&["plain", "box"], 1, 3), &[], None);
    assert_eq!(ran.ending, Ending::Complete);
    // Each deployment is frozen as soon as it stands, and load runs only while exactly one is thawed.
    let (mut standing, mut thawed, mut loads) = (0, 0, 0);
    for line in &ran.log {
        match line.split(' ').next().unwrap() {
            "open" => standing += 1,
            "freeze" if standing < 3 || loads == 0 => {}
            "freeze" => thawed -= 1,
            "thaw" => thawed += 1,
            _ => {}
        }
        if line == "drive Run" {
            loads += 1;
            assert_eq!((standing, thawed), (3, 1), "{:?}", ran.log);
        }
    }
    assert_eq!(loads, 9, "three deployments, three rounds");
    assert_eq!(ran.log.iter().filter(|line| *line == "close").count(), 3);
    let record = read_record(&path).unwrap();
    let mut places = Vec::new();
    for trial in &record.trials {
        assert_eq!(trial.record.outcome, Outcome::Measured);
        assert_eq!(trial.record.slices.iter().map(|slice| slice.round).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(trial.record.slices.iter().all(|slice| slice.metrics["throughput"] > 0.0));
        assert_eq!(trial.record.load.as_ref().unwrap().operations["GET"].count, 30);
        places.extend(trial.record.slices.iter().map(|slice| slice.place));
    }
    places.sort_unstable();
    assert_eq!(places, (0..9).collect::<Vec<_>>());
}

fn chopped(forms: &[&str], repeat: u32) -> Header {
    let mut header = header(forms, repeat);
    header.study.design.arrangement = Arrangement::Chop(Chop::default());
    header
}

#[test]
fn chopped_all_stand_unfrozen_and_one_process_loads_them() {
    let (_folder, path) = fresh();
    let ran = run(&path, &chopped(&["plain", "box"], 2), &[], None);
    assert_eq!(ran.ending, Ending::Complete);
    assert!(!ran.log.iter().any(|line| line.starts_with("freeze")), "{:?}", ran.log);
    let at = |what: &str| ran.log.iter().position(|line| line.starts_with(what)).unwrap();
    let first: Vec<&str> = ran.log[..at("close")].iter().map(String::as_str).collect();
    let opened = first.iter().filter(|line| line.starts_with("open")).count();
    let loads: Vec<usize> = (0..first.len()).filter(|at| first[*at] == "drive Run").collect();
    // Three by turns of several lengths, three by turns that count, and each once more alone.
    assert_eq!((opened, loads.len()), (3, 9), "{first:?}");
    assert!(loads[5] - loads[3] == 2, "nothing happens between turns: {first:?}");
    assert!(loads[6..].iter().all(|at| (first[at - 1], first[at + 1]) == ("begin probe", "end probe")), "{first:?}");
    for trial in &read_record(&path).unwrap().trials {
        assert_eq!(trial.record.outcome, Outcome::Measured);
        let alone = trial.record.alone.as_ref().unwrap();
        assert!(trial.record.load.as_ref().unwrap().turns.unwrap().active_ns > 0 && alone.turns.is_none());
        assert!(trial.record.metrics["throughput"] > 0.0 && trial.seconds.is_empty());
        assert_eq!(used_by_turn(trial), (900, vec![10, 10]), "in its own turns, and in those of the others");
    }
}

#[test]
fn chopped_all_samplers_rest_at_the_same_moments_where_there_is_time_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let rests = |name: &str, seconds: u64| {
        let mut header = chopped(&["plain", "box"], 1);
        header.study.measure = Duration::from_secs(seconds);
        let ran = run(&folder.path().join(name), &header, &[], None);
        assert_eq!(ran.ending, Ending::Complete);
        let at = |what: &str| ran.log.iter().rposition(|said| said.starts_with(what));
        if let (Some(rest), Some(turned)) = (at("rest at"), at("turns ")) {
            let three = [rest - 2, rest - 1, rest].map(|at| ran.log[at].clone());
            assert!(three[0] == three[1] && three[1] == three[2] && rest < turned, "{:?}", ran.log);
            assert!(ran.log[..rest - 2].ends_with(&["begin probe"; 3].map(str::to_owned)), "{:?}", ran.log);
        }
        ran.log
            .iter()
            .filter(|said| said.starts_with("rest at"))
            .map(|said| said.matches(" for 2s").count())
            .collect::<Vec<_>>()
    };
    // Not while turns of several lengths are compared, and not while one form is loaded alone.
    let (short, usual) = (rests("short", 3), rests("usual", 4));
    assert_eq!((short, usual), (vec![], vec![2; 3]));
}

/// What a trial's services used in its own turns, and in those of other arms.
fn used_by_turn(trial: &TrialData) -> (u64, Vec<u64>) {
    let (mut used, own) = (trial.record.cpu_by_turn.clone(), trial.record.trial.arm());
    let own = used.remove(&own).expect("its own turns are among them").cpu_ns;
    (own, used.into_values().map(|used| used.cpu_ns).collect())
}

/// The turns that a run asked for: no shorter than this, compared up to that.
fn turns(log: &[String]) -> Vec<&str> {
    log.iter().filter_map(|line| line.strip_prefix("turns ")).collect()
}

#[test]
fn slices_are_as_long_as_the_first_block_finds_and_stay_so() {
    for (trouble, at_least) in [(Trouble::None, "Some(10ms) None"), (Trouble::Cold, "Some(20ms) None")] {
        let (_folder, path) = fresh();
        let header = chopped(&["plain", "box", "dies"], 3);
        let troubles = [("box", trouble), ("dies", Trouble::DiesUnderLoad)];
        // It is ended in the second block, and goes on with what the first one found.
        let first = run(&path, &header, &troubles, Some(14));
        assert_eq!(first.ending, Ending::Interrupted);
        assert_eq!(turns(&first.log), ["None Some(200ms)", at_least, at_least]);
        let then = run(&path, &header, &troubles, None);
        assert_eq!(turns(&then.log), [at_least; 2]);
        let record = read_record(&path).unwrap();
        let compared = record.trials.iter().filter(|trial| !trial.record.lengths.is_empty());
        let compared: Vec<(u32, String)> =
            compared.map(|trial| (trial.record.trial.block, trial.record.trial.arm())).collect();
        assert_eq!(compared.len(), 3, "{compared:?}");
        assert!(compared.iter().all(|(block, arm)| *block == 0 && arm != "dies"), "{compared:?}");
        let warmth = analyse(&record).warmth;
        assert_eq!(warmth.len(), 1);
        assert!(at_least.contains(&format!("{}ms", warmth[0].slice().as_millis())), "{warmth:?}");
    }
}

#[test]
fn slices_that_were_asked_for_are_compared_with_nothing() {
    let (_folder, path) = fresh();
    let mut header = chopped(&["plain", "box"], 1);
    let slice = Some(Duration::from_millis(30));
    header.study.design.arrangement = Arrangement::Chop(Chop { slice, ..Chop::default() });
    assert_eq!(turns(&run(&path, &header, &[], None).log), ["None None"]);
    assert_eq!(analyse(&read_record(&path).unwrap()).warmth, []);
}

#[test]
fn chopped_whoever_may_be_left_frozen_is_let_run_on_after_each_load() {
    let (folder, path) = fresh();
    let mut header = chopped(&["plain", "box"], 1);
    header.study.design.arrangement = Arrangement::Chop(Chop { freeze: true, ..Chop::default() });
    let ran = run(&path, &header, &[], None);
    assert_eq!(ran.ending, Ending::Complete);
    let told: Vec<&str> = ran.log.iter().map(|line| line.split(' ').next().unwrap()).collect();
    let places = |what: &str| -> Vec<usize> { (0..told.len()).filter(|at| told[*at] == what).collect() };
    let (held, thawed) = (places("held"), places("thaw"));
    // Three arms, in turns of several lengths and then in those that count; and once more at the end, as always.
    assert!(held.len() >= 6 && held.len() % 3 == 0 && thawed.len() == held.len() + 3, "{:?}", ran.log);
    for (load, held) in held.chunks(3).enumerate() {
        assert!(held[2] < thawed[3 * load], "{:?}", ran.log);
        assert!(load == 0 || thawed[3 * load - 1] < held[0], "who is told of anew has been let run on: {:?}", ran.log);
    }
    let plain = chopped(&["plain", "box"], 1);
    let ran = run(&folder.path().join("s"), &plain, &[], None);
    assert!(!ran.log.iter().any(|line| line.starts_with("held")), "{:?}", ran.log);
}

#[test]
fn chopped_in_pieces_each_is_a_slice_and_nothing_is_loaded_alone() {
    let (_folder, path) = fresh();
    let mut header = chopped(&["plain", "box"], 2);
    header.study.design.arrangement = Arrangement::Chop(Chop { pieces: Some(3), ..Chop::default() });
    let ran = run(&path, &header, &[], None);
    assert_eq!(ran.ending, Ending::Complete);
    let count = |what: &str| ran.log.iter().filter(|line| line.starts_with(what)).count();
    // Three arms in two blocks.
    assert_eq!((count("open"), count("drive Run")), (6, 18), "{:?}", ran.log);
    for trial in &read_record(&path).unwrap().trials {
        assert_eq!(trial.record.outcome, Outcome::Measured);
        assert_eq!(trial.record.slices.iter().map(|slice| slice.round).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(trial.record.slices.iter().all(|slice| slice.metrics["throughput"] > 0.0), "{:?}", trial.record.slices);
        assert_eq!(trial.record.load.as_ref().unwrap().turns.unwrap().turns, 3, "all pieces count");
        assert!(trial.record.alone.is_none());
        assert_eq!(used_by_turn(trial), (2700, vec![30, 30]), "all pieces count");
    }
}

#[test]
fn chopped_an_interrupted_block_leaves_no_row() {
    let (_folder, path) = fresh();
    let header = chopped(&["plain", "box"], 2);
    let first = run(&path, &header, &[], Some(11));
    assert_eq!(first.ending, Ending::Interrupted);
    assert_eq!(read_record(&path).unwrap().trials.len(), 3);
    assert_eq!(run(&path, &header, &[], None).ending, Ending::Complete);
    assert_eq!(read_record(&path).unwrap().trials.len(), 6);
}

#[test]
fn side_by_side_one_that_fails_leaves_the_others() {
    let forms = ["plain", "dies", "shut", "odd"];
    for header in [alternating(&forms, 2, 2), chopped(&forms, 2)] {
        let (_folder, path) = fresh();
        let troubles = [("dies", Trouble::DiesUnderLoad), ("shut", Trouble::Open), ("odd", Trouble::NeverReady)];
        let ran = run(&path, &header, &troubles, None);
        assert_eq!(ran.ending, Ending::Complete);
        let outcomes = outcomes(&path);
        for arm in ["plain", "plain (A/A)"] {
            assert_eq!(outcomes[arm], [Outcome::Measured, Outcome::Measured]);
        }
        for arm in ["dies", "shut", "odd"] {
            assert!(outcomes[arm].iter().all(|outcome| outcome.word() == "failed"), "{arm}: {outcomes:?}");
        }
        let count = |what: &str| ran.log.iter().filter(|line| line.starts_with(what)).count();
        assert_eq!(count("open"), count("close") + 2, "what was opened was closed");
    }
}

#[test]
fn side_by_side_an_interrupted_block_leaves_no_row_and_is_run_whole() {
    let (_folder, path) = fresh();
    let header = alternating(&["plain", "box"], 2, 2);
    // A block has six slices: the second block is cut short.
    let first = run(&path, &header, &[], Some(8));
    assert_eq!(first.ending, Ending::Interrupted);
    assert_eq!(read_record(&path).unwrap().trials.len(), 3);
    assert_eq!(first.log.last().map(String::as_str), Some("close"));
    // And if it was killed while it was written down, what is missing is not measured at another time.
    std::fs::remove_dir_all(path.join("trials/0001")).unwrap();
    assert_eq!(run(&path, &header, &[], None).ending, Ending::Complete);
    let record = read_record(&path).unwrap();
    assert_eq!(record.trials.len(), 6);
    assert_eq!(record.trials[1].record.outcome.word(), "skipped");
    assert!(record.trials[3..].iter().all(|trial| trial.record.slices.len() == 2));
}

#[test]
fn in_a_duet_each_load_has_its_own_inside() {
    let (_folder, path) = fresh();
    let mut header = header(&["plain", "box"], 1);
    header.study.design.arrangement = Arrangement::Duet;
    header.plan = tare_core::plan::plan(&header.study, &[], 7);
    let ran = run(&path, &header, &[("plain", Trouble::Inside), ("box", Trouble::Inside)], None);
    let pairs = header.plan.len() / 2;
    assert_eq!(ran.log.iter().filter(|line| *line == "begin tool -x beside toy").count(), 2 * pairs);
    assert!(outcomes(&path).values().flatten().all(|outcome| *outcome == Outcome::Measured));
}

#[test]
fn a_duet_loads_both_at_once_and_fails_both_when_one_breaks_off() {
    let (_folder, path) = fresh();
    let mut header = header(&["plain", "box", "dies"], 3);
    header.study.design.arrangement = Arrangement::Duet;
    header.plan = tare_core::plan::plan(&header.study, &[], 7);
    let ran = run(&path, &header, &[("dies", Trouble::DiesUnderLoad)], None);
    assert_eq!(ran.ending, Ending::Complete);
    let outcomes = outcomes(&path);
    let words = |arm: &str| outcomes[arm].iter().map(Outcome::word).collect::<Vec<_>>();
    assert_eq!(words("box"), ["measured"; 3]);
    assert_eq!(words("plain (A/A)"), ["measured"; 3]);
    assert_eq!(words("dies"), ["failed"; 3]);
    assert_eq!(words("plain").iter().filter(|word| **word == "measured").count(), 6);
    assert_eq!(words("plain").iter().filter(|word| **word == "skipped").count(), 3, "it was not to blame");
    let analysis = analyse(&read_record(&path).unwrap());
    let throughput = analysis.metrics.iter().find(|metric| metric.name == "throughput").unwrap();
    assert_eq!(throughput.method, tare_stats::Method::OwnError);
    assert_eq!(throughput.ratios.iter().find(|ratio| ratio.arm == "box").unwrap().blocks.len(), 3);
}

#[test]
fn settling_until_steady_ends_when_it_is_or_says_that_it_never_was() {
    let (_folder, path) = fresh();
    let mut header = header(&["plain"], 1);
    header.study.design.steady_within = Some(Duration::from_secs(20));
    run(&path, &header, &[], None);
    let record = read_record(&path).unwrap();
    // The load of this test has two rows a run, which is too few to call it steady.
    assert!(record.trials[0].record.warnings.iter().any(|warning| warning.contains("not shown to be steady within")));
    assert!(record.trials[0].seconds.iter().filter(|row| row.measured).count() == 1);
}
