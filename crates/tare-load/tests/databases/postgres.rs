//! Tests against a real PostgreSQL.

use super::{Server, command, complete, drive, fact, folder, free_port, installed, own, plan, populate_and_run};
use std::fmt::Write as _;
use std::path::PathBuf;
use tare_core::load::LoadTask;

/// The programs of the newest version installed.
pub(super) fn programs() -> Option<PathBuf> {
    let versions: Vec<String> = (13..=20).rev().map(|version| format!("/usr/lib/postgresql/{version}/bin")).collect();
    installed(&versions.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A server with the user `tare`, whose password is `tare` and is proved by SCRAM; the user `old` proves theirs by MD5.
pub(super) fn server() -> Option<Server> {
    let Some(programs) = programs() else {
        eprintln!("skipped: no PostgreSQL is installed (package postgresql)");
        return None;
    };
    let folder = folder();
    let path = folder.path();
    std::fs::write(path.join("password"), "tare").unwrap();
    let mut initdb = command(&programs.join("initdb"), path);
    initdb.args(["--pgdata=data", "--username=tare", "--pwfile=password", "--auth=scram-sha-256", "--no-locale", "-N"]);
    complete(initdb, path);
    let data = path.join("data");
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    for (name, text) in [("server.crt", certified.cert.pem()), ("server.key", certified.signing_key.serialize_pem())] {
        std::fs::write(data.join(name), text).unwrap();
        own(&data.join(name));
        std::fs::set_permissions(data.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    let mut access = "host all old 127.0.0.1/32 md5\n".to_owned();
    access.push_str(&std::fs::read_to_string(data.join("pg_hba.conf")).unwrap());
    std::fs::write(data.join("pg_hba.conf"), access).unwrap();
    let port = free_port();
    let mut settings = format!("port={port}\nlisten_addresses='127.0.0.1'\nfsync=off\nssl=on\n");
    write!(settings, "unix_socket_directories='{}'\nmax_connections=40\n", path.display()).unwrap();
    std::fs::write(data.join("tare.conf"), settings).unwrap();
    let mut start = command(&programs.join("postgres"), path);
    start.args(["-D", "data", "-c", "config_file=data/postgresql.conf"]);
    let main = data.join("postgresql.conf");
    let text = std::fs::read_to_string(&main).unwrap() + "\ninclude 'tare.conf'\n";
    std::fs::write(main, text).unwrap();
    let server = Server { process: start.spawn().unwrap(), folder, port };
    server.await_ready("postgres", &options("", "- sql: SELECT 1"));
    Some(server)
}

fn options(more: &str, script: &str) -> String {
    let script: String = script.lines().map(|line| format!("    {line}\n")).collect();
    format!("{more}\nuser: tare\npassword: tare\noperations:\n  work:\n    tries: 1000\n    script:\n{script}")
}

/// Every operation increments one of the same few rows, at an isolation level at which only one of those that conflict
/// can continue.
const CONFLICTS: &str = "\
- begin: {isolation: serializable}
- sql: SELECT n FROM counters WHERE id = ${id}
  expect: {rows: 1}
  capture: {n: 1}
- set: {more: n + 1}
- sql: UPDATE counters SET n = ${more} WHERE id = ${id}
  expect: {affected: 1}
- sql: INSERT INTO log (id) VALUES (${id})
- commit: {rollback: 10%}
";

const TABLES: &str = "\
feeds: {id: {uniform: {from: 1, to: 2}}}
populate:
- sql: [\"DROP TABLE IF EXISTS counters, log\", \"CREATE TABLE counters (id int PRIMARY KEY, n int, t text)\", CREATE TABLE log (id int)]
- {table: counters, rows: 2, columns: {id: row, n: 0, t: {text: \"a\\tb\\\\${row}\"}}}
verify:
  rows: {counters: 2, log: 0}
  invariants:
  - {name: as many counted as logged, sql: SELECT (SELECT sum(n) FROM counters) = (SELECT count(*) FROM log), is: t}
  - {name: texts are kept, sql: \"SELECT string_agg(t, ' ' ORDER BY id) = E'a\\\\tb\\\\\\\\1 a\\\\tb\\\\\\\\2' FROM counters\", is: t}
  growth: [{name: each left a line, sql: SELECT count(*) FROM log, by: [work]}]
";

#[test]
fn transactions_are_tried_again_and_nothing_is_lost() {
    let Some(server) = server() else { return };
    let summary = populate_and_run("postgres", &options(TABLES, CONFLICTS), &server);
    assert!(fact(&summary, "client.retries") > 0, "{summary:#?}");
    assert_eq!(fact(&summary, "client.retries"), fact(&summary, "client.errors.40001"), "{summary:#?}");
    assert!(fact(&summary, "client.work.taken-back") > 0, "{summary:#?}");
    assert!(summary.failures.is_empty(), "{summary:#?}");
    // The same over TLS, and over the socket.
    let secured = options(&format!("tls: {{verify: false}}\n{TABLES}"), CONFLICTS);
    let summary = populate_and_run("postgres", &secured, &server);
    assert!(summary.facts["tls handshakes"].starts_with("TLSv1_"), "{summary:#?}");
    let socket = server.folder.path().join(format!(".s.PGSQL.{}", server.port));
    populate_and_run("postgres", &options(&format!("socket: {}\n{TABLES}", socket.display()), CONFLICTS), &server);
    wrong_things_are_told_in_the_servers_words(&server);
    every_way_of_proving_a_password(&server);
    statements_sent_together(&server);
}

fn wrong_things_are_told_in_the_servers_words(server: &Server) {
    let fails = |options: &str, task| drive(&plan("postgres", options, server.endpoint(), task)).unwrap_err().message;
    let wrong = options("", "- sql: SELECT 1").replace("password: tare", "password: wrong");
    assert!(fails(&wrong, LoadTask::Ready).contains("28P01"));
    assert!(fails(&wrong, LoadTask::Run).contains("28P01"));
    let missing = options("", "- sql: SELECT 1\n- sql: SELECT x FROM nowhere");
    let text = fails(&missing, LoadTask::Run);
    assert!(text.contains("42P01") && text.contains("in: SELECT x FROM nowhere"), "{text}");
    let populate = options("populate: [{sql: CREATE TABEL x}]", "- sql: SELECT 1");
    let text = fails(&populate, LoadTask::Populate);
    assert!(text.contains("CREATE TABEL x") && text.contains("42601"), "{text}");
    let copy = options(
        "populate: [{sql: CREATE TEMP TABLE q (id int)}, {table: q, rows: 1, columns: {id: {text: x}}}]",
        "- sql: SELECT 1",
    );
    assert!(fails(&copy, LoadTask::Populate).contains("22P02"));
    let short = options("verify: {invariants: [{name: odd, sql: SELECT 2, is: '3'}]}", "- sql: SELECT 1");
    assert!(fails(&short, LoadTask::Populate).contains("'odd' does not hold"));
    // An error in the middle of the load is counted, and the connection continues.
    let divided =
        options("feeds: {d: {uniform: {from: 0, to: 1}}}", "- sql: SELECT 1 / ${d}::int\n  expect: {rows: 1}");
    let summary = drive(&plan("postgres", &divided, server.endpoint(), LoadTask::Run)).unwrap();
    let work = &summary.operations["work"];
    assert!(work.count > 0 && work.errors > 0, "{summary:#?}");
    assert_eq!(summary.failures.keys().collect::<Vec<_>>(), ["error reply"]);
    assert!(fact(&summary, "client.errors.22012") >= work.errors);
    assert!(summary.facts["client.first-error"].contains("division by zero"));
}

fn every_way_of_proving_a_password(server: &Server) {
    let role = options(
        "populate: [{sql: [SET password_encryption = md5, CREATE ROLE old LOGIN PASSWORD 'secret']}]",
        "- sql: SELECT 1",
    );
    drive(&plan("postgres", &role, server.endpoint(), LoadTask::Populate)).unwrap();
    let old = |password| {
        let text = options("database: postgres", "- sql: SELECT 1");
        let text = text.replace("user: tare", "user: old").replace("password: tare", password);
        drive(&plan("postgres", &text, server.endpoint(), LoadTask::Ready))
    };
    old("password: secret").unwrap();
    assert!(old("password: other").unwrap_err().message.contains("28P01"));
}

fn statements_sent_together(server: &Server) {
    let script = "- together:\n  - sql: SELECT generate_series(1, 3)\n    expect: {rows: 3}\n    capture: {a: 1, many: rows}\n  - sql: SELECT NULL::text\n    capture: {b: 1}\n- sql: SELECT ${a}::int + ${many}::int, ${b}::text IS NULL\n  capture: {sum: 1, none: 2}\n- if: {var: sum, is_not: 4}\n  then: [{sql: SELECT 1 / 0}]\n- if: {var: none, text: t}\n  then: [{sql: SELECT 1}]\n  else: [{sql: SELECT 1 / 0}]";
    let summary = populate_and_run("postgres", &options("", script), server);
    assert!(summary.failures.is_empty(), "{summary:#?}");
}
