//! The auction site: the tests of its own program, and the whole of it deployed.

use crate::lab::{Lab, text};
use std::path::Path;
use std::process::Command;
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
        return println!("skipped: TARE_THOROUGH is not set");
    }
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let study = "study: auction\nworkload: auction\nrepeat: 1\nplacement: free\nqos: strict\n\
                 load: {users: {users: 40, behaviour: official2, cycle: 1s}}\n\
                 time: {settle: 5s, measure: 10s, timeout: 60s}\nforms: {native: [], container: [container: {}], \
                 two: {layers: [], instances: {app: 2}}}\n";
    let (study, record) = (lab.write("auction.yaml", study), lab.path("record"));
    lab.expect(0, &["run", text(&study), "--out", text(&record)]);
    lab.expect_clean();
    let record = lab.record(&record);
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
