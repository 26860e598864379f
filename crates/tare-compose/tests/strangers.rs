//! Stacks as strangers write them, with what people copy from one project to the next: what would surprise is told, or
//! means the same in every form.

use crate::lab::{Stacks, imported, notes, of_text, read, shown};
use tare_compose::Imported;
use tare_core::workload::Workload;

fn stack(name: &str) -> (Imported, Workload) {
    let imported = imported(&Stacks, &format!("{name}/compose.yaml"), &[]);
    let imported = imported.unwrap_or_else(|told| panic!("{name}: {}", told.join("\n")));
    let workload = read(&imported);
    (imported, workload)
}

/// Each is read without a mistake, and all that is made of it stays as it is.
#[test]
fn what_is_made_of_each_stays_as_it_is() {
    for name in ["django", "hostnet", "kafka", "node", "elk", "rabbit", "oneshot"] {
        let (imported, _) = stack(name);
        insta::assert_snapshot!(name, shown(&imported));
    }
}

#[test]
fn a_password_in_a_file_is_that_of_the_load() {
    let text = "\
services:
  db:
    image: postgres:16
    ports: ['5432']
    environment: {POSTGRES_PASSWORD_FILE: /run/secrets/pw, POSTGRES_USER: app}
    secrets: [pw]
secrets: {pw: {environment: TOKEN}}
";
    let made = of_text(text).unwrap();
    let load = made.files["workload.yaml"].split("load:\n").nth(1).unwrap().to_owned();
    assert!(load.contains("user: app") && load.contains("password: t0ken"), "{load}");
}

#[test]
fn the_loopback_of_the_machine_is_the_service_that_is_meant() {
    let (made, workload) = stack("hostnet");
    let app = workload.services.iter().find(|service| service.name == "app").unwrap();
    assert_eq!(app.environment["REDIS_URL"], "redis://${{addresses.redis.6379}}");
    assert_eq!(app.environment["SELF"], "http://localhost:3000/health", "that is itself");
    let notes = notes(&made);
    assert!(
        notes.iter().any(|note| note.starts_with("!") && note.ends_with("services.sidecar.network_mode")),
        "{notes:?}"
    );
    // In a network of its own, a service means itself under Compose, too.
    let text = "services: {a: {image: x, ports: ['80'], environment: {R: 'redis://localhost:6379'}}, \
                b: {image: redis, ports: ['6379']}}\n";
    assert_eq!(read(&of_text(text).unwrap()).services[0].environment["R"], "redis://localhost:6379");
}

#[test]
fn what_is_not_started_again_and_others_need_does_its_work_and_ends() {
    let text = |restart: &str, more: &str| {
        format!(
            "services: {{init: {{image: x, entrypoint: [/init], restart: {restart}{more}}}, \
             web: {{image: y, ports: ['80'], depends_on: [init]}}}}\n"
        )
    };
    let ends = |text: &str| {
        let made = of_text(text).unwrap();
        let workload = read(&made);
        let init = workload.services.iter().find(|service| service.name == "init").unwrap();
        (init.ready.ends(), made.notes.iter().any(|note| note.key == "services.init.restart"))
    };
    assert_eq!(ends(&text("'no'", "")), (true, true));
    assert_eq!(ends(&text("no", "")), (true, true));
    assert_eq!(ends(&text("always", "")), (false, false));
    assert_eq!(ends(&text("'no'", ", ports: ['90']")), (false, false), "a server listens");
    assert_eq!(ends(&text("'no'", ", healthcheck: {test: /ok}")), (false, false), "a server is asked");
}
