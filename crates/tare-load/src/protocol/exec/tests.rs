//! Tools that are one line of shell: how they are started, limited, judged and ended.

use super::*;
use serde_json::json;
use std::time::Instant;
use tare_core::command::CommandEnd;
use tare_core::config;
use tare_core::load::LoadOrder;

/// A tool that prints what the parser looks for.
const GOOD: &str = "echo rate: 100; echo done: 50; echo p99: 2ms";

fn options(text: &str) -> serde_json::Value {
    config::read("workload.yaml", text, |node, problems| PROTOCOL.read(node, problems)).unwrap()
}

/// Options with a shell as the tool, and further lines.
fn shell(script: &str, more: &str) -> serde_json::Value {
    let regex = r"['rate: (?<throughput>\S+)', 'done: (?<operations>\d+)', 'p99: (?<p99>\S+)', 'bad: (?<errors>\d+)']";
    options(&format!("command: [/bin/sh, -c, {script:?}]\nparser: {{regex: {regex}}}\n{more}"))
}

fn plan(options: serde_json::Value) -> LoadPlan {
    let (measure, timeout) = (Duration::from_secs(2), Duration::from_secs(1));
    let closed = LoadProfile::Closed { connections: 7, pipeline: 3 };
    LoadPlan { measure, timeout, seed: 11, ..LoadPlan::of("exec", options, ([127, 0, 0, 1], 9).into(), closed) }
}

fn run(plan: &LoadPlan) -> (Vec<SecondRow>, Result<LoadSummary, Fault>) {
    let mut rows = Vec::new();
    let mut write = |line| {
        if let LoadLine::Second(row) = line {
            rows.push(row);
        }
        Ok(())
    };
    let result = PROTOCOL.drive(plan, &mut Emit::new(&mut write, None));
    (rows, result)
}

/// The same inside a form: each command is passed to `form`, which returns the outcome.
fn run_inside(
    plan: &LoadPlan,
    form: impl Fn(&CommandStart) -> Result<CommandEnd, Fault>,
) -> (Vec<CommandStart>, Result<LoadSummary, Fault>) {
    let (sender, orders) = std::sync::mpsc::channel();
    let mut asked = Vec::new();
    let mut write = |line| {
        if let LoadLine::Inside(command) = line {
            sender.send(LoadOrder::Ran(Box::new(form(&command)))).unwrap();
            asked.push(*command);
        }
        Ok(())
    };
    let result = PROTOCOL.drive(plan, &mut Emit::new(&mut write, Some(orders)));
    (asked, result)
}

/// A plan whose tool runs inside a form of three CPUs.
fn inside(options: serde_json::Value) -> LoadPlan {
    LoadPlan { inside: Some(Inside { cpus: 3 }), ..plan(options) }
}

/// The outcome of a command that printed this.
fn printed(stdout: &str) -> CommandEnd {
    CommandEnd {
        ended: Ended::Exit(0),
        stdout: stdout.to_owned(),
        stderr: "a warning".to_owned(),
        took: Duration::from_secs(4),
        cpu_s: Some(2.5),
    }
}

fn fault(options: serde_json::Value) -> Fault {
    run(&plan(options)).1.expect_err("it cannot go well")
}

#[test]
fn what_a_tool_reports_becomes_a_summary() {
    let (rows, summary) = run(&plan(shell(&format!("{GOOD}; echo bad: 3"), "operation: get\n")));
    let summary = summary.unwrap();
    let operation = &summary.operations["get"];
    assert_eq!((operation.count, operation.errors, operation.service_time.as_str()), (50, 3, ""));
    assert_eq!(summary.reported, BTreeMap::from([("p99_us".to_owned(), 2000.0), ("throughput".to_owned(), 100.0)]));
    assert!(summary.measure_end_ns > summary.measure_start_ns && summary.saturated.is_none());
    assert_eq!(rows.iter().map(|row| (row.measured, row.operations)).collect::<Vec<_>>(), [(true, 0), (true, 50)]);
}

#[test]
fn places_are_filled_from_the_plan() {
    let script =
        format!("{GOOD}; echo bad: ${{host}}-${{port}}-${{connections}}-${{pipeline}}-${{seconds}}-${{seed}}-$X");
    let summary = run(&plan(shell(&script, "environment: {X: \"${cpus}!\"}\n"))).1.unwrap();
    let command = &summary.facts["tool.command"];
    assert!(command.contains("bad: 127.0.0.1-9-7-3-2-11-"), "{command}");
    let rate = fault(shell(&format!("{GOOD} # ${{rate}}"), ""));
    assert!(rate.message.contains("nothing to put into"), "{rate}");
}

#[test]
fn a_result_may_be_in_a_file() {
    let script = format!("({GOOD}) > ${{output}}; echo nothing here");
    let summary = run(&plan(shell(&script, ""))).1.unwrap();
    assert_eq!(summary.reported["throughput"], 100.0);
    assert!(fault(shell("true # ${output}", "")).message.contains("should write its result"));
}

#[test]
fn a_load_that_the_command_does_not_mention_is_refused() {
    let mut plan = plan(shell(GOOD, ""));
    plan.profile = serde_json::from_value(
        json!({"open": {"rate": 10.0, "arrivals": "constant", "connections": 1, "in_flight": 1}}),
    )
    .unwrap();
    assert!(run(&plan).1.unwrap_err().message.contains("has no ${rate}"));
    plan.options = shell(&format!("{GOOD} # ${{rate}}"), "");
    assert!(run(&plan).1.is_ok());
}

#[test]
fn exit_codes_and_missing_figures_are_judged() {
    let failed = fault(shell("echo trouble >&2; exit 3", ""));
    assert!(failed.message.contains("exit code 3") && failed.log.contains("trouble"), "{failed:?}");
    let tolerated = shell(&format!("{GOOD}; exit 3"), "exit_codes: [0, 3]\n");
    assert!(run(&plan(tolerated)).1.is_ok());
    let nothing = fault(shell("echo hello", ""));
    assert!(nothing.message.contains("neither a throughput") && nothing.log.contains("hello"), "{nothing:?}");
    assert!(fault(shell("kill -9 $$", "")).message.contains("signal 9"));
}

/// Whether any process of this machine has `mark` in its command line.
fn alive(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(mark))
}

#[test]
fn a_tool_that_does_not_end_is_ended_with_all_it_started() {
    let mark = "4242.125";
    let script = format!("trap '' TERM; (trap '' TERM; sleep {mark}) & sleep {mark}; sleep {mark}");
    let late = fault(shell(&script, "within: 300ms\n"));
    assert!(late.message.contains("had not ended"), "{late}");
    // A killed process is gone once its parent, or the process that inherited it, has reaped it.
    let patience = Instant::now() + Duration::from_secs(10);
    while alive(mark) {
        assert!(Instant::now() < patience, "something of the tool is still running");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_background_process_does_not_outlive_its_tool() {
    let mark = "4242.375";
    let summary = run(&plan(shell(&format!("{GOOD}; sleep {mark} & exit 0"), ""))).1;
    assert!(summary.is_ok(), "{summary:?}");
    let patience = Instant::now() + Duration::from_secs(10);
    while alive(mark) {
        assert!(Instant::now() < patience, "the background process is still running");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_tool_that_prints_without_end_is_ended() {
    let endless = fault(shell("exec yes rate: 5", "within: 60s\n"));
    assert!(endless.message.contains("more than 16 MiB") || endless.message.contains("signal 13"), "{endless}");
}

#[test]
fn settling_runs_the_tool_for_its_time_and_counts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs").display().to_string();
    let mut plan = plan(shell(&format!("echo x >> {path}; {GOOD}; test $(wc -l < {path}) = 2 || sleep 100"), ""));
    plan.settle = Duration::from_millis(300);
    let summary = run(&plan).1.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    assert_eq!(summary.operations["operation"].count, 50);
}

#[test]
fn a_missing_tool_is_named_with_its_package() {
    let missing = PROTOCOL.check_needs(&options("command: [/nowhere/wrk, x]\n")).unwrap_err();
    assert!(missing.message.contains("/nowhere/wrk") && missing.remedy == "apt-get install wrk", "{missing}");
    let own = options("command: [unheard-of-tool]\nparser: wrk\npackage: heard-of\n");
    assert_eq!(PROTOCOL.check_needs(&own).unwrap_err().remedy, "apt-get install heard-of");
    assert!(PROTOCOL.check_needs(&shell(GOOD, "")).is_ok());
}

#[test]
fn population_and_readiness_are_commands() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data").display().to_string();
    let more = format!("populate: [[/bin/sh, -c, 'echo x > {path}']]\nready: [/usr/bin/test, -e, {path}]\n");
    let mut plan = plan(shell(GOOD, &more));
    plan.task = LoadTask::Ready;
    assert!(run(&plan).1.is_err(), "it is not there yet");
    plan.task = LoadTask::Populate;
    assert_eq!(run(&plan).1.unwrap().checks.len(), 1);
    plan.task = LoadTask::Ready;
    assert!(run(&plan).1.is_ok());
}

#[test]
fn a_tool_inside_the_form_is_read_by_the_same_parser() {
    let more = "where: inside\ndirectory: /data\nenvironment: {X: \"${cpus}\"}\n";
    let plan = inside(shell("measure ${host}:${port} ${cpus} ${seconds}", more));
    let (asked, summary) = run_inside(&plan, |_| Ok(printed("rate: 100\ndone: 50\nbad: 1\n")));
    let [command] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(command.command, ["/bin/sh", "-c", "measure 127.0.0.1:9 3 2"]);
    let environment = [("LC_ALL", "C"), ("X", "3")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!((&command.environment, command.directory.as_str()), (&environment.into(), "/data"));
    assert_eq!(command.within, Duration::from_secs(2 + 1) + SLACK);
    let summary = summary.unwrap();
    assert_eq!((summary.operations["operation"].count, summary.operations["operation"].errors), (50, 1));
    assert_eq!(summary.reported["throughput"], 100.0);
    assert_eq!(summary.facts["tool.ran"], "inside the form");
    assert!(!summary.facts.contains_key("tool.busy") && summary.saturated.is_none());
    assert_eq!((summary.generator_cpu_s, summary.generator_cpus), (0.0, 0), "its CPU time is the form's");
    assert_eq!(summary.inside.unwrap().cpu_s, Some(2.5));
    assert!(summary.measure_end_ns > summary.measure_start_ns);
    // A rate that is not reported is computed from the time measured inside.
    let (_, summary) = run_inside(&plan, |_| Ok(printed("done: 50")));
    assert_eq!(summary.unwrap().reported["throughput"], 12.5);
}

#[test]
fn population_readiness_and_settling_are_inside_as_well() {
    let more = "where: inside\npopulate: [[fill, a], [fill, b]]\nready: [look]\nwithin: 9s\n";
    let mut plan = inside(shell("go", more));
    let programs = |asked: &[CommandStart]| asked.iter().map(|it| it.command.join(" ")).collect::<Vec<_>>();
    plan.task = LoadTask::Populate;
    let (asked, summary) = run_inside(&plan, |_| Ok(printed("")));
    assert_eq!((programs(&asked), summary.unwrap().checks.len()), (vec!["fill a".to_owned(), "fill b".to_owned()], 2));
    plan.task = LoadTask::Ready;
    let (asked, summary) = run_inside(&plan, |_| Ok(CommandEnd { ended: Ended::Exit(1), ..printed("") }));
    assert_eq!((programs(&asked), asked[0].within), (vec!["look".to_owned()], READY));
    assert!(summary.unwrap_err().message.contains("exit code 1"));
    plan.task = LoadTask::Run;
    plan.settle = Duration::from_millis(300);
    // Settling may be cut off by its time; measuring may not.
    let late = |settles: bool| {
        move |command: &CommandStart| -> Result<CommandEnd, Fault> {
            let is_settling = command.within == Duration::from_millis(300);
            let ended = if is_settling == settles { Ended::Late } else { Ended::Exit(0) };
            Ok(CommandEnd { ended, ..printed("done: 50") })
        }
    };
    let (asked, summary) = run_inside(&plan, late(true));
    assert_eq!((asked.len(), summary.unwrap().operations["operation"].count), (2, 50));
    let why = run_inside(&plan, late(false)).1.unwrap_err();
    assert!(why.message.contains("had not ended after") && why.log.contains("a warning"), "{why:?}");
}

/// A tool inside the form that prints this report of fio's.
fn fio(report: &str, ended: Ended) -> Result<LoadSummary, Fault> {
    let plan = inside(options("command: [/bin/sh, /job.sh]\nparser: fio\nwhere: inside\n"));
    run_inside(&plan, |_| Ok(CommandEnd { ended, ..printed(report) })).1
}

#[test]
fn a_tool_that_reports_its_own_error_voids_and_does_not_break() {
    let report = include_str!("fixtures/fio-no-space.txt");
    let summary = fio(report, Ended::Exit(1)).unwrap();
    let failed: Vec<&Check> = summary.checks.iter().filter(|check| !check.passed).collect();
    assert!(failed.iter().any(|check| check.detail.contains("No space left")), "{failed:?}");
    assert!(fio(report, Ended::Late).is_err(), "it was cut off");
    let good = include_str!("fixtures/fio-plus.txt");
    assert!(fio(good, Ended::Exit(1)).unwrap_err().message.contains("exit code 1"), "nothing in it says why");
    assert!(fio("", Ended::Exit(0)).unwrap_err().remedy.contains("json+"));
}

#[test]
fn the_words_of_a_known_tool_bring_advice() {
    let text = "command: [/bin/sh, /job.sh]\nparser: fio\nwhere: inside\npopulate: [[/fill]]\n";
    let mut plan = inside(options(text));
    plan.task = LoadTask::Populate;
    let full = |_: &CommandStart| -> Result<CommandEnd, Fault> {
        let stderr = "fio: io_u error on file data: No space left on device".to_owned();
        Ok(CommandEnd { ended: Ended::Exit(1), stderr, ..printed("") })
    };
    let why = run_inside(&plan, full).1.unwrap_err();
    assert!(why.remedy.contains("volume larger"), "{why:?}");
    // JMeter of Debian 12 ends with 0, without a result.
    let plan = inside(options("command: [/jmeter, -n]\nparser: jmeter\nwhere: inside\n"));
    let said = "Error in NonGUIDriver com.thoughtworks.xstream.security.ForbiddenClassException: ScriptWrapper";
    let why = run_inside(&plan, |_: &CommandStart| Ok(printed(said))).1.unwrap_err();
    assert!(why.remedy.contains("install JMeter 5"), "{why:?}");
}

#[test]
fn what_runs_before_it_counts_is_not_measured() {
    let report = include_str!("fixtures/fio-plus.txt").replace("\"ramp_time\" : \"0\"", "\"ramp_time\" : \"1\"");
    let summary = fio(&report, Ended::Exit(0)).unwrap();
    assert_eq!(summary.operations.keys().collect::<Vec<_>>(), ["read", "write"]);
    assert_eq!(summary.inside.unwrap().cpu_s, Some(2.5 * 0.75), "one second of four");
    let names = PROTOCOL.facts(&options("command: [fio]\n")).operations;
    assert_eq!(names, ["read", "write", "mixed"]);
}

#[test]
fn what_cannot_run_inside_is_told_and_never_waited_for() {
    let options = shell("go", "where: inside\n");
    assert!(PROTOCOL.facts(&options).runs_inside && !PROTOCOL.facts(&shell("go", "")).runs_inside);
    assert_eq!(PROTOCOL.check_needs(&options_of_missing("inside")), Ok(()), "it is in the bundle, not here");
    assert!(PROTOCOL.check_needs(&options_of_missing("beside")).is_err());
    assert!(fault(options.clone()).message.contains("there is none"), "no form to run it in");
    let (_, refused) = run_inside(&inside(options.clone()), |_| Err(Fault::new("could not run go: no such file")));
    assert!(refused.unwrap_err().message.contains("no such file"));
    // Nothing to run it; then nothing left to run it.
    let deaf = run(&inside(options.clone())).1.unwrap_err();
    assert!(deaf.message.contains("did not run a command inside"), "{deaf}");
    let (sender, orders) = std::sync::mpsc::channel();
    drop(sender);
    let mut write = |_| Ok(());
    let gone = PROTOCOL.drive(&inside(options), &mut Emit::new(&mut write, Some(orders))).unwrap_err();
    assert!(gone.message.contains("did not run a command inside"), "{gone}");
}

fn options_of_missing(place: &str) -> serde_json::Value {
    options(&format!("command: [/nowhere/wrk, x]\nwhere: {place}\n"))
}
