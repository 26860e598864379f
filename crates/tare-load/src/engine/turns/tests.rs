use super::*;
use serde_json::Value;
use std::process::{Command, Stdio};
use tare_core::held::Held;
use tare_core::load::LoadProfile;
use tare_core::telemetry::Scope;

/// The results of loads whose operations take these times, one at a time.
fn played(each: &[Duration], slice: Option<Duration>, leaves: Option<usize>) -> Vec<TurnsSummary> {
    let played = played_beside(each, leaves, load::Turns { slice, ..load::Turns::default() }, &|_| ());
    played.into_iter().map(|(summary, _)| summary).collect()
}

/// The same with servers, and what they used in each load's turns. `look` is called with the load whose turn it is.
fn played_beside(
    each: &[Duration],
    leaves: Option<usize>,
    turns: load::Turns,
    look: &(dyn Fn(usize) + Sync),
) -> Vec<(TurnsSummary, Vec<TurnUse>)> {
    let at_work = Mutex::new(());
    let play = |(load, (seat, each)): (usize, (Seat, Duration))| {
        seat.join(1, 1).unwrap();
        let mut seen = 0;
        while let Some(turn) = seat.next(seen, || false, || false) {
            let alone = at_work.try_lock().expect("one at a time is at work");
            seen = turn.number;
            while clock::monotonic_ns() < turn.from_ns {}
            look(load);
            seat.begun();
            let start_ns = clock::monotonic_ns();
            let mut answers = 0;
            while clock::monotonic_ns() < start_ns + turn.length_ns {
                std::thread::sleep(each);
                answers += 1;
            }
            drop(alone);
            if leaves == Some(load) && seen > 10 {
                break;
            }
            seat.done(
                turn,
                Worked { start_ns, end_ns: clock::monotonic_ns(), stuck_ns: 0, answers, lost: false, amid: None },
            );
        }
        (seat.summary(), seat.cpu_by_turn())
    };
    let loop_of_one = LoadProfile::Closed { connections: 1, pipeline: 1 };
    let plan = LoadPlan {
        settle: Duration::from_millis(100),
        measure: Duration::from_millis(200),
        seed: 7,
        ..LoadPlan::of("", Value::Null, ([127, 0, 0, 1], 1).into(), loop_of_one)
    };
    let beside = vec![plan.clone(); each.len() - 1];
    std::thread::scope(|scope| {
        let turns = load::Turns { beside, ..turns };
        let seats = Turns::seats(&plan, &turns, None).unwrap().into_iter();
        let threads: Vec<_> =
            seats.zip(each.iter().copied()).enumerate().map(|part| scope.spawn(move || play(part))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn everybody_is_at_work_for_as_long_as_was_asked() {
    let millis = Duration::from_millis;
    let summaries = played(&[millis(1), millis(2), millis(1)], Some(millis(10)), None);
    for summary in &summaries {
        assert!(summary.active_ns >= 200_000_000, "{summary:?}");
        assert!((9_000_000..=11_000_000).contains(&summary.slice_ns), "{summary:?}");
        assert_eq!(summary.turns, summaries[0].turns);
    }
}

#[test]
fn a_turn_is_ten_response_times_of_the_slowest() {
    let summaries = played(&[Duration::from_millis(1), Duration::from_millis(4)], None, None);
    // A sleep of 4 ms takes 4.1 ms, or a few more on a busy machine; lengths vary by a tenth.
    assert!(summaries.iter().all(|summary| (36_000_000..100_000_000).contains(&summary.slice_ns)), "{summaries:?}");
}

#[test]
fn whoever_leaves_is_not_waited_for() {
    let millis = Duration::from_millis;
    let summaries = played(&[millis(1), millis(1), millis(1)], Some(millis(10)), Some(1));
    assert!(summaries[1].active_ns < 200_000_000, "{summaries:?}");
    assert!(summaries[0].active_ns >= 200_000_000 && summaries[2].active_ns >= 200_000_000, "{summaries:?}");
}

#[test]
fn who_waits_is_frozen_and_runs_on_at_the_end() {
    let sleeper = || Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("there is a sleep");
    let mut servers = [sleeper(), sleeper(), sleeper()];
    let ids = servers.each_ref().map(std::process::Child::id);
    let state = |id: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it is there");
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).expect("it has a state")
    };
    // A signal may take a moment to arrive.
    let becomes = |id: u32, wanted: char| {
        let began_ns = clock::monotonic_ns();
        while state(id) != wanted {
            assert!(clock::monotonic_ns() < began_ns + 5 * SECOND_NS, "{id} is {}", state(id));
            std::thread::yield_now();
        }
    };
    let look = |turn: usize| {
        for (load, id) in ids.iter().enumerate() {
            becomes(*id, if load == turn { 'S' } else { 'T' });
        }
    };
    let millis = Duration::from_millis;
    let held = ids.map(|id| vec![Held::Process(id)]).to_vec();
    let turns = load::Turns { slice: Some(millis(10)), held, ..load::Turns::default() };
    let with_servers = played_beside(&[millis(1), millis(1), millis(1)], None, turns, &look);
    ids.iter().for_each(|id| becomes(*id, 'S'));
    for server in &mut servers {
        server.kill().and_then(|()| server.wait()).expect("it is ours");
    }
    for (summary, _) in with_servers {
        // How long it takes depends on the machine.
        assert!(summary.freeze_ns.expect("all of them were") > 0, "{summary:?}");
    }
    assert_eq!(played(&[millis(1), millis(1)], Some(millis(10)), None)[0].freeze_ns, None);
}

/// Whether the process has become `sleep` and sleeps.
fn is_asleep(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it is there").contains("(sleep) S")
}

#[test]
fn who_works_in_the_turns_of_others_is_told_from_who_rests() {
    let server = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).spawn().expect("there is a shell")
    };
    let mut servers = [server("exec sleep 60"), server("while :; do :; done")];
    // A shell uses CPU time until it has become `sleep`, which on a busy machine may be later than the first turns.
    let began_ns = clock::monotonic_ns();
    while !is_asleep(servers[0].id()) {
        assert!(clock::monotonic_ns() < began_ns + 20 * SECOND_NS, "there is no sleep");
        std::thread::sleep(Duration::from_millis(1));
    }
    let scope = |server: &std::process::Child| {
        vec![Scope { name: "server".into(), serving: true, pids: vec![server.id()], cgroups: Vec::new() }]
    };
    let serving = servers.iter().map(scope).collect();
    let millis = Duration::from_millis;
    let turns = load::Turns { slice: Some(millis(10)), serving, ..load::Turns::default() };
    let played = played_beside(&[millis(1), millis(1)], None, turns, &|_| ());
    for server in &mut servers {
        server.kill().and_then(|()| server.wait()).expect("it is ours");
    }
    let [(_, rests), (_, works)] = played.as_slice() else { panic!("there are two") };
    let share = |used: &TurnUse| used.cpu_ns as f64 / used.during_ns as f64;
    assert!(rests.iter().all(|used| used.during_ns > 0 && used.cpu_ns == 0), "{rests:?}");
    // How much of a CPU it gets is the scheduler's choice: on a busy machine a few per cent, and less in some turns.
    assert!(works.len() == 2 && works.iter().all(|used| share(used) > 0.001), "{works:?}");
}

/// Two workers; the second finishes a while after the first in every turn.
#[test]
fn what_workers_wait_for_each_other_is_a_cost_of_moves() {
    let worked = |start_ns: u64, end_ns: u64| {
        let amid = Amid { waves: 10, answers: 40, ns: 8_000_000, ..Amid::default() };
        Worked { start_ns, end_ns, stuck_ns: 0, answers: 50, lost: false, amid: Some(amid) }
    };
    let plan =
        LoadPlan::of("", Value::Null, ([127, 0, 0, 1], 1).into(), LoadProfile::Closed { connections: 8, pipeline: 1 });
    let mut seats = Turns::seats(&plan, &load::Turns::default(), None).unwrap();
    let seat = seats.pop().expect("there is one load");
    let mut state = seat.turns.state();
    state.loads[0].workers = Some(2);
    let (first, second) = (worked(0, 10_000_000), worked(100_000, 11_000_000));
    let told = |state: &mut State, all: &[Worked]| {
        state.told = all.iter().filter_map(|of| Some((of.end_ns - of.start_ns, of.amid?))).collect();
        state.told_by(Worked { answers: 100, end_ns: 11_000_000, ..first }, 0).unwrap()
    };
    assert_eq!(told(&mut state, &[first, second]).took_ns, 11_000_000);
    // At 80 answers in 8 ms, 100 answers take 10 ms.
    let both = [told(&mut state, &[first, second]); 3];
    assert_eq!(move_ns(&both), Some(1_000_000));
    assert_eq!(told(&mut state, &[first]).took_ns, 10_000_000, "the second was held up, which is no cost of moves");
    drop(state);
}
