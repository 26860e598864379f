//! Stacks as people write them.

use crate::lab::{Memory, Stacks, imported, imported_over, notes, read, shown};
use std::path::PathBuf;
use std::time::Duration;
use tare_compose::Imported;
use tare_core::workload::{Readiness, Service, Volume, Workload};

fn stack(name: &str) -> (Imported, Workload) {
    let imported = imported(&Stacks, &format!("{name}/compose.yaml"), &[]);
    let imported = imported.unwrap_or_else(|told| panic!("{name}: {}", told.join("\n")));
    let workload = read(&imported);
    // Every file that the workload wants was copied.
    for (_, _, path) in workload.files_wanted() {
        let name = path.strip_prefix("out").unwrap().to_str().unwrap().to_owned();
        assert!(imported.files.contains_key(&name), "{name}");
    }
    (imported, workload)
}

fn service<'w>(workload: &'w Workload, name: &str) -> &'w Service {
    workload.services.iter().find(|service| service.name == name).unwrap()
}

fn order(workload: &Workload) -> Vec<&str> {
    workload.services.iter().map(|service| service.name.as_str()).collect()
}

#[test]
fn a_poll_runs_and_its_names_are_addresses() {
    let (imported, workload) = stack("vote");
    assert_eq!(order(&workload), ["redis", "vote", "db", "result", "worker"]);
    assert_eq!(service(&workload, "vote").environment["REDIS_URL"], "redis://${{addresses.redis.6379}}/0");
    let url = &service(&workload, "result").environment["DATABASE_URL"];
    assert_eq!(url, "postgres://postgres:from-the-file@${{addresses.db.5432}}/votes");
    let worker = service(&workload, "worker");
    assert_eq!(worker.command[2..], ["${{addresses.redis.6379}}", "--store", "${{addresses.db.5432}}"]);
    assert!(matches!(&worker.ready, Readiness::Log { text, .. } if text.is_empty()));
    let spoken = &workload.protocol;
    assert_eq!((spoken.protocol.as_str(), spoken.service.as_str()), ("http", "vote"));
    assert_eq!(spoken.port.as_deref(), Some("80"));
    assert!(!imported.is_stopped());
    // Two pages listen at port 80, so only forms in which each has a network of its own are left.
    assert!(!imported.files["study.yaml"].contains("native"), "{}", imported.files["study.yaml"]);
    assert_eq!(imported.built.iter().map(|build| build.service.as_str()).collect::<Vec<_>>(), ["result"]);
    let wanted =
        ["12 services.result.ports", "14 services.result.command", "22 services.worker.command", "38 networks"];
    assert_eq!(notes(&imported), wanted);
    let check = service(&workload, "redis").ready.command().map(|words| words.join(" "));
    assert_eq!(check.as_deref(), Some("/bin/sh -c redis-cli ping"), "the page waits for it");
    insta::assert_snapshot!("vote", shown(&imported));
}

#[test]
fn services_are_written_for_another_load() {
    let (imported, _) = stack("vote");
    let stack = &imported.stack;
    assert_eq!((stack.loaded(), stack.ports(), stack.shared_port(9000)), ("vote", vec![80], Some(80)));
    assert!(stack.images().contains("postgres:16"), "{:?}", stack.images());
    let text = stack.services(9000, Some(Duration::from_secs(15)), Duration::from_secs(1));
    let loaded = &text[text.find("  vote:").unwrap()..text.find("  db:").unwrap()];
    for wanted in ["ports: {\"80\": 80, \"9000\": 9000}", "ready: {port: \"9000\", within: 15s}", "stop_within: 1s"] {
        assert!(loaded.contains(wanted), "{wanted}: {text}");
    }
    let (imported, _) = self::stack("wordpress");
    assert_eq!(imported.stack.shared_port(3306), Some(3306), "the database has that port");
    assert_eq!(imported.stack.shared_port(80), None);
    assert!(
        imported.stack.services(80, None, Duration::from_secs(1)).contains("stop_within: 60s"),
        "it says so itself"
    );
}

#[test]
fn a_blog_finds_its_database() {
    let (imported, workload) = stack("wordpress");
    assert_eq!(order(&workload), ["db", "wordpress"]);
    let wordpress = service(&workload, "wordpress");
    assert_eq!(wordpress.environment["WORDPRESS_DB_HOST"], "${{addresses.db.3306}}");
    assert_eq!((wordpress.resources.cpus, wordpress.resources.cpu_quota), (2, Some(1.5)));
    assert_eq!(wordpress.resources.memory_bytes, 1 << 30);
    let db = service(&workload, "db");
    assert_eq!(db.command, ["docker-entrypoint.sh", "--max-connections=200"]);
    assert_eq!(db.stop_within.as_secs(), 60);
    assert_eq!(notes(&imported), ["32 services.db.cap_add", "33 services.db.ulimits"]);
    insta::assert_snapshot!("wordpress", shown(&imported));
}

#[test]
fn names_stay_where_no_address_can_stand() {
    let (imported, workload) = stack("proxy");
    assert_eq!(workload.name, "shop");
    assert_eq!(service(&workload, "proxy").environment["APP"], "http://${{addresses.app.8000}}");
    let app = service(&workload, "app");
    assert_eq!(app.command, ["gunicorn", "--bind", "0.0.0.0:8000", "shop:app"]);
    assert_eq!(app.environment["DATABASE_URL"], "postgresql+psycopg://shop:shop@${{addresses.db.5432}}/shop");
    assert!(!app.environment.contains_key("API_KEY"), "nobody has set it");
    assert_eq!((app.user, app.resources.cpu_quota, app.resources.memory_bytes), ((1000, 1000), Some(0.5), 300 << 20));
    assert_eq!(app.volumes["/tmp"], Volume::of(64 << 20));
    assert_eq!(service(&workload, "db").ready.within().as_secs(), 80);
    assert_eq!((app.environment["DB_HOST"].as_str(), order(&workload)), ("db", vec!["db", "app", "proxy"]));
    assert!(imported.files["files/proxy/etc/nginx/conf.d/default.conf"].contains("http://app:8000"));
    let notes = notes(&imported);
    for wanted in ["8 services.proxy.volumes", "15 services.app.command"] {
        assert!(notes.iter().any(|note| note == wanted), "{wanted}: {notes:?}");
    }
    assert!(!imported.is_stopped());
    insta::assert_snapshot!("proxy", shown(&imported));
}

#[test]
fn what_belongs_to_the_machine_is_told() {
    let (imported, workload) = stack("monitoring");
    // Its configuration names what it asks.
    assert_eq!(order(&workload), ["node-exporter", "prometheus", "grafana", "agent"]);
    let grafana = service(&workload, "grafana");
    assert_eq!(grafana.environment["GF_DATASOURCE_URL"], "http://${{addresses.prometheus.9090}}");
    let told = shown(&imported);
    let wanted = [
        "services.prometheus.command: it is the whole command here",
        "services.node-exporter.pid: ",
        "services.node-exporter.volumes: / is the machine's whole file system: no form hands it over",
        "services.node-exporter.volumes: /etc/localtime is not copied",
        "services.agent.volumes: /var/run/docker.sock is the engine's socket: no form hands it over",
        "services.agent.sysctls: ",
    ];
    for wanted in wanted {
        assert!(told.contains(wanted), "{wanted}:\n{told}");
    }
    insta::assert_snapshot!("monitoring", told);
}

#[test]
fn anchors_and_merge_keys_are_followed() {
    let (imported, workload) = stack("anchors");
    assert_eq!(order(&workload), ["rabbit", "web", "worker-1"]);
    assert_eq!(service(&workload, "web").command, ["/app", "web"]);
    let worker = service(&workload, "worker-1");
    assert_eq!(worker.command, ["/app", "worker"]);
    assert_eq!(worker.environment["QUEUE"], "amqp://guest:guest@${{addresses.rabbit.5672}}");
    assert_eq!(worker.environment["LEVEL"], "debug");
    assert_eq!(notes(&imported), ["21 services.worker_1.deploy.replicas"]);
    insta::assert_snapshot!("anchors", shown(&imported));
}

#[test]
fn services_extend_others_of_this_file_and_of_another() {
    let (imported, workload) = stack("extends");
    let web = service(&workload, "web");
    assert_eq!(web.command, ["/app", "serve"]);
    assert_eq!((web.environment["A"].as_str(), web.environment["B"].as_str()), ("1", "3"));
    assert_eq!(web.ports.values().copied().collect::<Vec<_>>(), [7000, 7001]);
    let cache = service(&workload, "cache");
    assert_eq!(cache.command, ["memcached", "-m", "64"]);
    assert_eq!((cache.environment["LIMIT"].as_str(), cache.environment["PLAIN"].as_str()), ("64 MB", "a#b"));
    let hostname = imported.notes.iter().find(|note| note.key == "services.cache.hostname").unwrap();
    assert!(hostname.file.ends_with("parts.yaml"), "{}", hostname.file);
    insta::assert_snapshot!("extends", shown(&imported));
}

#[test]
fn profiles_choose_services_and_what_others_wait_for_ends() {
    let (none, workload) = stack("profiles");
    assert_eq!(order(&workload), ["seed", "api"]);
    assert!(notes(&none).is_empty() && !none.is_stopped(), "{:?}", none.notes);
    let seed = service(&workload, "seed");
    assert!(seed.ready.ends() && seed.ports.is_empty() && workload.protocol.service == "api");
    assert!(none.assumed[0].contains("debug, mail"), "{:?}", none.assumed);
    let all = imported(&Stacks, "profiles/compose.yaml", &["full", "debug"]).unwrap();
    assert_eq!(order(&read(&all)), ["seed", "debug", "api", "mail"]);
    let told = imported(&Stacks, "profiles/compose.yaml", &["fall"]).unwrap_err();
    assert!(told[0].contains("did you mean 'full'?"), "{told:?}");
    insta::assert_snapshot!("profiles", shown(&none));
}

#[test]
fn secrets_and_configs_are_files() {
    let (imported, workload) = stack("secrets");
    assert_eq!(imported.files["files/db/run/secrets/root"], "s3cret\n");
    assert_eq!(imported.files["files/db/etc/token"], "t0ken");
    assert_eq!(imported.files["files/db/inline"], "size=1\n");
    assert_eq!(workload.files_wanted().len(), 4);
    assert_eq!(workload.protocol.protocol, "mysql");
    let key = "5 services.db.secrets";
    assert_eq!(notes(&imported), [key, key, "5 services.db.secrets.mode"]);
    insta::assert_snapshot!("secrets", shown(&imported));
}

#[test]
fn included_files_have_their_own_folder() {
    let (imported, workload) = stack("include");
    assert_eq!(order(&workload), ["db", "cache", "web"]);
    assert_eq!(imported.files["files/db/init.sql"], "CREATE DATABASE app;\n");
    let web = service(&workload, "web");
    assert_eq!(web.environment["DB"], "mysql://root@${{addresses.db.3306}}/app");
    assert_eq!(web.environment["CACHE"], "${{addresses.cache.11211}}");
    assert!(notes(&imported).is_empty(), "{:?}", imported.notes);
    insta::assert_snapshot!("include", shown(&imported));
}

#[test]
fn a_file_is_put_over_another() {
    let file = |name: &str, text: &str| (PathBuf::from(name), text.as_bytes().to_vec());
    let files = [
        file("c/compose.yaml", "services: {a: {image: x, ports: ['80'], environment: {A: 1, B: 2}}}\n"),
        file("c/compose.override.yaml", "services: {a: {environment: {B: 3}}, b: {image: y, depends_on: [a]}}\n"),
    ];
    let over = [PathBuf::from("c/compose.override.yaml")];
    let made = imported_over(&Memory(files.into()), "c/compose.yaml", &over, &[]).unwrap();
    let workload = read(&made);
    assert_eq!(order(&workload), ["a", "b"]);
    let environment = &service(&workload, "a").environment;
    assert_eq!([environment["A"].as_str(), environment["B"].as_str()], ["1", "3"]);
    let wanted = "c/compose.override.yaml is put over c/compose.yaml; name c/compose.yaml to import it alone";
    assert!(made.assumed.iter().any(|told| told == wanted), "{:?}", made.assumed);
}

#[test]
fn keys_of_many_kinds_are_read() {
    let (imported, workload) = stack("kinds");
    let queue = service(&workload, "queue-main");
    assert_eq!((queue.resources.cpus, queue.resources.cpu_quota), (2, Some(1.5)));
    assert_eq!(queue.ports.len(), 1);
    assert!(queue.names.iter().eq(["queue", "queue.main"]), "{:?}", queue.names);
    let notes = notes(&imported);
    let wanted = [
        "5 services.Queue.Main.ports",
        "7 services.Queue.Main.cpuset",
        "10 services.Queue.Main.scale",
        "15 services.reader.extra_hosts",
    ];
    assert_eq!(notes, wanted);
    insta::assert_snapshot!("kinds", shown(&imported));
}
