//! `--keep-failed`: what failed stands, with ways into it that hold, until it is let go; then the machine is clean.

use crate::end_to_end::lab::{Lab, said, text};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tare_core::trial::{Outcome, Stage};

/// How long a form may take until its service has failed; its bundle may have to be built first.
const FAILS_WITHIN: Duration = Duration::from_secs(600);

/// A Redis that runs and never says what it is waited for, in one form and its second copy.
fn never_ready(lab: &Lab, form: &str) -> PathBuf {
    lab.write(
        "idle/workload.yaml",
        "\
workload: idle
services:
  redis:
    bundle: {packages: [redis-server]}
    command: [/usr/bin/redis-server, --bind, 0.0.0.0, --protected-mode, 'no', --port, '7004', --save, '', --dir, /data]
    ports: {redis: 7004}
    volumes: {/data: 16MiB}
    resources: {memory: 64MiB}
    ready: {log: these words never come, within: 2s}
load:
  protocol: {redis: {keys: 1000}}
",
    );
    let study = "\
study: standing
workload: ./idle
load: {closed: {connections: 4}}
time: {settle: 100ms, measure: 1s, timeout: 2s}
design: blocks
repeat: 1
forms: {only: FORM}
";
    lab.write("standing.yaml", study.replace("FORM", form))
}

/// A run that keeps what failed standing, and what it has said.
struct Keeping {
    run: Child,
    output: PathBuf,
}

impl Keeping {
    fn begin(lab: &Lab, study: &Path, record: &Path) -> Keeping {
        let output = lab.path("output");
        let file = std::fs::File::create(&output).unwrap();
        let mut command = lab.command(&["run", text(study), "--keep-failed", "--out", text(record)]);
        let run = command.stdout(file).stderr(Stdio::null()).spawn().unwrap();
        let mut keeping = Keeping { run, output };
        let began = Instant::now();
        while !keeping.said().contains("it stands until this process gets SIGTERM") {
            assert!(keeping.run.try_wait().unwrap().is_none(), "the run ended early:\n{}", keeping.said());
            assert!(began.elapsed() < FAILS_WITHIN, "nothing is kept standing:\n{}", keeping.said());
            std::thread::sleep(Duration::from_millis(100));
        }
        keeping
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap()
    }

    /// What the line that begins with this word says.
    fn line(&self, word: &str) -> String {
        let said = self.said();
        let line = said.lines().find_map(|line| line.trim_start().strip_prefix(word)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no line begins with '{word}':\n{said}")).trim().to_owned()
    }

    /// Whether what stands answers the load's address.
    fn answers(&self) -> bool {
        let address = self.line("port").strip_prefix("redis at ").expect("the port has an address").parse().unwrap();
        std::net::TcpStream::connect_timeout(&address, Duration::from_secs(5)).is_ok()
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        // Only after a failure does it still run, and would keep the machine from all other tests.
        let _ = self.run.kill();
        let _ = self.run.wait();
    }
}

/// What a command prints, which has to go well.
fn printed(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command}: {}", said(&output));
    said(&output)
}

/// One trial failed in deploy, and the other one was not run.
fn expect_one_failed(lab: &Lab, record: &Path) {
    let trials = lab.record(record).trials;
    let [trial] = &trials[..] else { panic!("{} trials", trials.len()) };
    let Outcome::Failed { stage: Stage::Deploy, why } = &trial.record.outcome else { panic!("{:?}", trial.record) };
    assert!(why.message.contains("not ready within"), "{why}");
}

#[test]
fn a_failed_process_stands_until_a_signal_and_the_run_goes_on_later() {
    let Some(lab) = Lab::open(&["mmdebstrap", "nsenter"]) else { return };
    let (study, record) = (never_ready(&lab, "[]"), lab.path("record"));
    let mut keeping = Keeping::begin(&lab, &study, &record);
    assert!(keeping.answers(), "{}", keeping.said());
    let (files, output) = (keeping.line("files"), keeping.line("output"));
    assert!(Path::new(&files).join("usr/bin/redis-server").exists(), "{files}");
    assert!(std::fs::read_to_string(&output).unwrap().contains("Ready to accept connections"), "{output}");
    let process = files.strip_prefix("/proc/").and_then(|rest| rest.strip_suffix("/root")).expect("it names a process");
    let inside = printed(&format!("nsenter --target {process} --all /usr/bin/redis-server --version"));
    assert!(inside.contains("Redis server"), "{inside}");
    // It is alive, so it is nobody's to clean up.
    lab.expect_clean();
    assert!(lab.expect(0, &["clean"]).contains("is alive and is left alone"));
    assert!(keeping.answers());
    printed(&format!("kill -TERM {}", keeping.run.id()));
    assert_eq!(keeping.run.wait().unwrap().code(), Some(130), "{}", keeping.said());
    lab.expect_clean();
    assert!(!Path::new(&files).exists(), "the process is gone");
    expect_one_failed(&lab, &record);
    // The machine is free, and the run goes on with the trials that it has not run.
    lab.expect(1, &["resume", text(&record)]);
    lab.expect_clean();
    assert_eq!(lab.record(&record).trials.len(), 2);
}

#[test]
fn a_failed_container_stands_and_is_cleaned_up_when_its_run_is_killed() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "docker"]) else { return };
    let (study, record) = (never_ready(&lab, "[container: {}]"), lab.path("record"));
    let mut keeping = Keeping::begin(&lab, &study, &record);
    assert!(keeping.answers(), "{}", keeping.said());
    let logs = keeping.line("output");
    assert!(logs.starts_with("docker logs tare-"), "{logs}");
    assert!(printed(&format!("{logs} 2>&1")).contains("Ready to accept connections"));
    let container = logs.rsplit(' ').next().expect("it names a container").to_owned();
    let inside = printed(&format!("docker exec {container} /usr/bin/redis-server --version"));
    assert!(inside.contains("Redis server"), "{inside}");
    // Whoever waits for it is killed: what stands is a dead run's then, and looked after as such.
    keeping.run.kill().unwrap();
    keeping.run.wait().unwrap();
    lab.expect(0, &["clean"]);
    lab.expect_clean();
    let gone = Command::new("docker").args(["inspect", &container]).output().unwrap();
    assert!(!gone.status.success(), "{container} still stands");
    assert_eq!(lab.record(&record).trials.len(), 0, "the trial was not over");

    // Ended as Ctrl-C does, it is taken down, and its row is kept.
    let record = lab.path("record-2");
    let mut keeping = Keeping::begin(&lab, &study, &record);
    printed(&format!("kill -INT {}", keeping.run.id()));
    assert_eq!(keeping.run.wait().unwrap().code(), Some(130), "{}", keeping.said());
    lab.expect_clean();
    expect_one_failed(&lab, &record);
}
