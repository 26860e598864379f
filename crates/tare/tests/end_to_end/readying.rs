//! Services that are ready by a health check of their image, or by their end, in the forms that need no guest.

use crate::end_to_end::images::save;
use crate::end_to_end::lab::{Lab, flat, text};
use tare_core::record::TrialRecord;
use tare_core::trial::{Outcome, Stage};

/// Programs of this machine, and a server that is fit only some time after it answers.
const FILES: &str = r##"
for program in sh sleep redis-server redis-cli; do
  file=$(command -v $program)
  for part in $file $(ldd $file | grep -o '/[^ )]*'); do mkdir -p .${part%/*}; cp -L $part .$part; done
done
test -e bin/sh || cp -L /bin/sh bin/sh
mkdir -p etc tmp; chmod 1777 tmp
printf 'root:x:0:0::/root:/bin/sh\n' > etc/passwd
{
  echo '#!/bin/sh'
  cat <<'END'
(sleep 1.2; echo fit > /tmp/fit) &
exec redis-server --port 8080 --bind 0.0.0.0 --protected-mode no --save '' --dir /tmp
END
} > entry
chmod 755 entry
"##;
const SAYS: &str = r#""Entrypoint":["/entry"],"Healthcheck":{
  "Test":["CMD-SHELL","redis-cli -p 8080 ping && test -s /tmp/fit"],
  "Interval":500000000,"Timeout":5000000000,"Retries":6}"#;
const NEEDS: [&str; 4] = ["tar", "sha256sum", "redis-server", "redis-cli"];
const STUDY: &str = "study: readying\nworkload: ./readying\nload: {closed: {connections: 2}}\nrepeat: 1\n\
                     time: {settle: 0s, measure: 1s}\n\
                     forms: {native: [], container: [container], host: [container: {network: host}]}\n";
const LOAD: &str = "load: {service: app, protocol: {redis: {mix: {get: 1, set: 1}, keys: 100, value_bytes: 8}}}\n";

/// A laboratory with that image, and a workload of these services.
fn with_services(services: &str) -> Option<Lab> {
    let lab = Lab::with_engine(&NEEDS)?;
    std::fs::create_dir_all(lab.path("readying")).unwrap();
    save(&lab.path("readying/app.tar"), SAYS, FILES);
    lab.write("readying/workload.yaml", format!("workload: readying\nservices:\n{services}{LOAD}"));
    Some(lab)
}

/// The services: one that runs this line of a shell and ends, and the server, ready by its port.
fn seeded(line: &str) -> String {
    format!(
        "  seed:\n    bundle: {{image: ./app.tar}}\n    as_image: true\n    command: [/bin/sh, -c, '{line}']\n    \
         ports: {{}}\n    ready: {{ended: true, within: 30s}}\n  app:\n    bundle: {{image: ./app.tar}}\n    as_image: \
         true\n    ready: {{port: 8080}}\n"
    )
}

#[test]
fn a_service_is_ready_once_the_health_check_of_its_image_succeeds() {
    let Some(lab) = with_services("  app: {bundle: {image: ./app.tar}, as_image: true}\n") else { return };
    let (said, record) = lab.run(STUDY);
    let taken = "ready from the image: its health check (/bin/sh -c redis-cli -p 8080 ping && test -s /tmp/fit)";
    assert!(flat(&said).contains(taken), "{said}");
    assert_eq!(record.trials.len(), 4, "with the control");
    for trial in record.trials.iter().map(|trial| &trial.record) {
        let arm = trial.trial.arm();
        assert_eq!(trial.outcome, Outcome::Measured, "{arm}");
        assert!(trial.stages[&Stage::Deploy] > 1.1, "{arm}: ready before it was fit: {:?}", trial.stages);
    }
}

#[test]
fn a_service_may_do_its_work_and_end_before_the_next_one_starts() {
    let Some(lab) = with_services(&seeded("sleep 1; echo sown")) else { return };
    let (_, record) = lab.run(STUDY);
    assert_eq!(record.trials.len(), 4, "with the control");
    for trial in record.trials.iter().map(|trial| &trial.record) {
        let arm = trial.trial.arm();
        assert_eq!(trial.outcome, Outcome::Measured, "{arm}");
        assert!(trial.finished["seed"] >= 0.9, "{arm}: {:?}", trial.finished);
        assert!(trial.mapped.keys().eq(["app"]) && trial.logs.is_empty(), "{arm}: {:?}", trial.mapped.keys());
        let left = trial.warnings.iter().find(|warning| warning.contains("teardown"));
        assert_eq!(left, None, "{arm}");
    }
}

#[test]
fn work_that_fails_is_told_with_its_exit_code_and_its_last_lines() {
    let Some(lab) = with_services(&seeded("echo the field is flooded; exit 3")) else { return };
    let (study, out) = (lab.write("study.yaml", STUDY), lab.path("record"));
    let said = lab.expect(1, &["run", text(&study), "--out", text(&out)]);
    assert!(flat(&said).contains("service seed did not do its work: exit code 3"), "{said}");
    lab.expect_clean();
    let record = lab.record(&out);
    let trials: Vec<&TrialRecord> = record.trials.iter().map(|trial| &trial.record).collect();
    assert!(trials.len() >= 3, "each form has tried");
    for trial in trials {
        let Outcome::Failed { stage: Stage::Deploy, why } = &trial.outcome else { panic!("{:?}", trial.outcome) };
        assert_eq!(why.message, "service seed did not do its work: exit code 3", "{}", trial.trial.arm());
        assert!(why.log.contains("the field is flooded"), "{}: {}", trial.trial.arm(), why.log);
    }
}
