//! Names of services, and what becomes of them.

use crate::lab::{notes, of_text, read};

#[test]
fn services_that_name_each_other_are_told() {
    let text = "services:\n  a: {image: x, ports: ['80'], environment: [B=http://b:81]}\n  b:\n    \
                image: y\n    expose: ['81']\n    environment: [A=http://a:80]\n";
    let made = of_text(text).unwrap();
    assert_eq!(notes(&made), ["!6 services.b.environment.A"]);
    let note = &made.notes[0];
    assert!(note.instead.contains("'a' starts after 'b'"), "{}", note.instead);
    let problem = note.as_problem().to_string();
    assert!(problem.contains("compose.yaml:6:19") && problem.contains("A=http://a:80"), "{problem}");
}

#[test]
fn addresses_in_lists_are_put_in_and_those_left_alone_are_told() {
    let text = "services:\n  a: {image: x, ports: ['80']}\n  b: {image: y}\n  c:\n    image: z\n    environment:\n\
                \x20     LIST: a:29092,b:29092\n      TEXT: chown a:1000 /data\n";
    let made = of_text(text).unwrap();
    let workload = read(&made);
    let c = workload.services.iter().find(|service| service.name == "c").unwrap();
    assert_eq!(c.environment["LIST"], "${{addresses.a.29092}},${{addresses.b.29092}}");
    assert_eq!(c.environment["TEXT"], "chown a:1000 /data");
    assert!(notes(&made).contains(&"8 services.c.environment.TEXT".to_owned()), "{:?}", made.notes);
}

#[test]
fn a_name_alone_has_its_service_start_before_and_is_told_where_it_cannot() {
    let of = |more: &str| {
        let text = format!(
            "services:\n  app:\n    image: x\n    ports: ['80']\n    command: [serve, --db-host, db]\n    environment: \
             {{QUEUE_HOST: mq, DB: app}}\n  db: {{image: known/db, {more}}}\n  mq: {{image: rabbitmq, environment: \
             {{NODE: app}}}}\n"
        );
        of_text(&text).unwrap()
    };
    let made = of("container_name: My_DB");
    let workload = read(&made);
    let order: Vec<&str> = workload.services.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(order, ["db", "mq", "app"], "what is sure of it goes before what a word may mean");
    let app = &workload.services[2];
    assert_eq!((app.command[2].as_str(), app.environment["QUEUE_HOST"].as_str()), ("db", "mq"));
    assert!(workload.services[0].names.iter().eq(["my_db"]));
    assert!(!made.is_stopped(), "{:?}", made.notes);
    let made = of("depends_on: [app]");
    assert_eq!(notes(&made).iter().filter(|note| note.starts_with('!')).count(), 1, "{:?}", made.notes);
    let stops = made.notes.iter().find(|note| note.instead.contains("'db' starts after 'app'")).unwrap();
    assert_eq!(stops.key, "services.app.command");
}

#[test]
fn each_name_leads_to_one_service() {
    let text = "services:\n  a:\n    image: x\n    ports: ['80']\n    networks: {default: {aliases: [db, 'no \
                name']}}\n  b: {image: y, hostname: DB, container_name: a, links: ['a:web']}\n";
    let made = of_text(text).unwrap();
    let workload = read(&made);
    assert!(workload.services[0].names.iter().eq(["db", "web"]), "{:?}", workload.services[0].names);
    assert!(workload.services[1].names.is_empty());
    let told = |key: &str, text: &str| made.notes.iter().any(|note| note.key == key && note.instead.contains(text));
    assert!(told("services.a.networks.aliases", "'no name' is no name"), "{:?}", made.notes);
    assert!(told("services.b.hostname", "'db' leads to 'a' alone"), "{:?}", made.notes);
    assert!(told("services.b.container_name", "'a' leads to 'a' alone"), "{:?}", made.notes);
}

#[test]
fn a_service_may_name_itself() {
    let text = "services: {mq: {image: x, ports: ['9092'], environment: {ADVERTISED: 'PLAINTEXT://mq:9092'}}}\n";
    let made = of_text(text).unwrap();
    assert_eq!(read(&made).services[0].environment["ADVERTISED"], "PLAINTEXT://mq:9092");
    assert!(made.notes.is_empty(), "it stands there in every form: {:?}", made.notes);
}
