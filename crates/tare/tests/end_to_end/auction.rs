//! The auction site: the tests of its own program, and the whole of it deployed.

use crate::end_to_end::lab::{Lab, text};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;
use tare_core::trial::Outcome;

#[test]
fn the_auction_s_own_tests_pass() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/auction/tests/run");
    let libraries = ["junit4", "tomcat10-embed-core", "HikariCP", "amqp-client", "curator-recipes", "postgresql"];
    let lacking = libraries.iter().find(|name| !Path::new(&format!("/usr/share/java/{name}.jar")).exists());
    if let Some(name) = lacking {
        return println!("skipped: there is no {name}.jar in /usr/share/java");
    }
    let ran = Command::new("sh").arg(&script).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("OK ("), "{said}{}", String::from_utf8_lossy(&ran.stderr));
}

/// Minutes: three bundles are made of a hundred packages, and the data are loaded once.
#[test]
fn the_auction_deploys_answers_and_counts_in_each_form() {
    if std::env::var_os("TARE_THOROUGH").is_none() {
        return println!("skipped: TARE_THOROUGH is not set, as ./test --thorough NAME does");
    }
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let study = "study: auction\nworkload: auction\nrepeat: 1\nplacement: free\nqos: strict\n\
                 load: {users: {users: 40, behaviour: official2, cycle: 1s}}\n\
                 time: {settle: 5s, measure: 10s, timeout: 60s}\nforms: {native: [], container: [container: {}], \
                 two: {layers: [], instances: {app: 2, web: 2}}}\n";
    let (_, record) = lab.run(study);
    assert_eq!(record.trials.len(), 4);
    for trial in record.trials.iter().map(|trial| &trial.record) {
        let arm = trial.trial.arm();
        assert_eq!(trial.outcome, Outcome::Measured, "{arm}");
        let load = trial.load.as_ref().unwrap();
        // Users bid, hear of bids beside that, and the site says that it kept count.
        let count = |name: &str| load.operations[name].count;
        assert!(count("place-bid") > 0 && count("next-bid") > count("place-bid"), "{arm}: {:?}", load.operations);
        assert!(load.failures.is_empty(), "{arm}: {:?}", load.failures);
        let kept = load.checks.iter().find(|check| check.name.contains("/auction/data/invariants"));
        assert!(kept.is_some_and(|check| check.passed), "{arm}: {:?}", load.checks);
    }
}

/// What is killed, by what stands in its command line.
const VICTIMS: [(&str, &[&str]); 3] = [
    ("app", &["tare.auction.Main", "app", "java"]),
    ("messages", &["beam.smp", "rabbit", "boot"]),
    ("database", &["postgres", "config_file=/etc/tare/postgresql.conf"]),
];

/// The eldest process with each of `words` as an argument, as the end of one that is a path, or as its beginning.
fn process(words: &[&str]) -> Option<u32> {
    let folders = std::fs::read_dir("/proc").ok()?.flatten();
    let pids = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<u32>().ok());
    let has_all = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let is = |argument: &str, word: &str| argument.rsplit('/').next() == Some(word) || argument.starts_with(word);
        words.iter().all(|word| line.split('\0').any(|argument| is(argument, word)))
    };
    pids.filter(has_all).min()
}

/// Minutes. One of the site's servers dies in each trial, while users are at work.
#[test]
fn a_server_of_the_auction_that_dies_under_load_is_named_by_the_trial() {
    if std::env::var_os("TARE_THOROUGH").is_none() {
        return println!("skipped: TARE_THOROUGH is not set, as ./test --thorough NAME does");
    }
    let Some(lab) = Lab::open(&["mmdebstrap"]) else { return };
    let study = "study: dying\nworkload: auction\nrepeat: 1\nplacement: free\nqos: strict\n\
                 load: {users: {users: 40, behaviour: official2, cycle: 1s}}\n\
                 time: {settle: 5s, measure: 20s, timeout: 60s}\nforms: {native: [], same: []}\n";
    let (study, record) = (lab.write("dying.yaml", study), lab.path("record"));
    let mut run = lab.command(&["run", text(&study), "--out", text(&record)]).spawn().unwrap();
    for (_, words) in VICTIMS {
        // Load begins when the web server, the last one, is ready; the load processes are there from then on.
        let victim = until(|| process(&["nginx: master process"]).and_then(|_| process(words)), &mut run);
        std::thread::sleep(Duration::from_secs(10));
        assert!(Command::new("kill").args(["-9", &victim.to_string()]).status().unwrap().success());
        until(|| (process(words).is_none()).then_some(()), &mut run);
        until(|| process(&["tare.auction.Main"]).is_none().then_some(()), &mut run);
    }
    run.wait().unwrap();
    lab.expect_clean();
    let ended = lab.record(&record).trials;
    assert_eq!(ended.len(), VICTIMS.len());
    for (trial, (victim, _)) in ended.iter().map(|trial| &trial.record).zip(VICTIMS) {
        let Outcome::Failed { why, .. } = &trial.outcome else { panic!("{victim}: {:?}", trial.outcome) };
        assert!(why.message.contains(&format!("service {victim} ended under load")), "{victim}: {why}");
        assert!(trial.metrics.is_empty() && trial.logs.contains_key(victim), "{victim}: {why}");
    }
}

/// What comes in time, while the run goes on.
fn until<T>(mut what: impl FnMut() -> Option<T>, run: &mut Child) -> T {
    for _ in 0..6000 {
        if let Some(found) = what() {
            return found;
        }
        assert!(run.try_wait().unwrap().is_none(), "the run ended before it came so far");
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("it did not come within ten minutes");
}
