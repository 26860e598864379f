//! Tests against a real MariaDB.

use super::{Server, command, complete, drive, fact, folder, free_port, installed, own, plan, populate_and_run};
use tare_core::load::LoadTask;

/// A server with the user `tare`, whose password is `tare`.
fn server() -> Option<Server> {
    let (Some(install), Some(program)) =
        (installed(&["/usr/bin/mariadb-install-db"]), installed(&["/usr/sbin/mariadbd"]))
    else {
        eprintln!("skipped: no MariaDB is installed (package mariadb-server)");
        return None;
    };
    let folder = folder();
    let path = folder.path();
    let data = format!("--datadir={}", path.join("data").display());
    let mut make = command(&install, path);
    make.args(["--no-defaults", &data, "--auth-root-authentication-method=normal", "--skip-test-db"]);
    complete(make, path);
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    // One statement per line.
    let start = "CREATE DATABASE tare;\nCREATE USER tare@'%' IDENTIFIED BY 'tare';\nGRANT ALL ON *.* TO tare@'%';\n";
    let files =
        [("crt", certified.cert.pem()), ("key", certified.signing_key.serialize_pem()), ("start", start.to_owned())];
    for (name, text) in files {
        std::fs::write(path.join(name), text).unwrap();
        own(&path.join(name));
    }
    let port = free_port();
    let mut start = command(&program, path);
    let at = |option: &str, name: &str| format!("--{option}={}", path.join(name).display());
    start.args(["--no-defaults", &data, &format!("--port={port}"), "--bind-address=127.0.0.1"]);
    start.args([at("socket", "s"), at("pid-file", "pid"), at("init-file", "start")]);
    start.args([at("ssl-cert", "crt"), at("ssl-key", "key")]);
    start.args(["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M"]);
    let server = Server { process: start.spawn().unwrap(), folder, port };
    server.await_ready("mysql", &options("", "- sql: SELECT 1"));
    Some(server)
}

fn options(more: &str, script: &str) -> String {
    let script: String = script.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "{more}\nuser: tare\npassword: tare\ndatabase: tare\noperations:\n  work:\n    tries: 1000\n    script:\n{script}"
    )
}

/// Two rows, updated in an order that leads to deadlocks.
const CONFLICTS: &str = "\
- set: {me: id, other: 3 - me}
- begin: {isolation: read-committed}
- sql: UPDATE counters SET n = n + 1 WHERE id = ${me}
  expect: {affected: 1}
- sql: UPDATE counters SET n = n + 1 WHERE id = ${other}
  expect: {affected: 1}
- sql: INSERT INTO log (id, t) VALUES (${me}, ${unheard})
- commit: {rollback: 10%}
- sql: SELECT id, n, moment, ratio, t, big, nothing FROM counters WHERE id = ${me}
  expect: {rows: 1}
  capture: {same: 1, n: 2, moment: 3, ratio: 4, t: 5, big: 6, nothing: 7, found: rows}
- if: {var: same, is_not: me}
  then: [{sql: SELECT 1 AS wrong_id, expect: {rows: 0}}]
- if: {var: moment, text: \"2026-11-21 12:30:00.000000\"}
  then: [{sql: SELECT 1}]
  else: [{sql: SELECT 1 AS wrong_moment, expect: {rows: 0}}]
- if: {var: t, text: \"it's \\\\ \"}
  then: [{sql: SELECT 1}]
  else: [{sql: SELECT 1 AS wrong_text, expect: {rows: 0}}]
- if: {var: big, text: \"18446744073709551615\"}
  then: [{sql: SELECT 1}]
  else: [{sql: SELECT 1 AS wrong_number, expect: {rows: 0}}]
- if: {var: nothing, empty: true}
  then: [{sql: SELECT 1}]
  else: [{sql: SELECT 1 AS wrong_null, expect: {rows: 0}}]
";

const TABLES: &str = "\
feeds: {id: {uniform: {from: 1, to: 2}}, unheard: {text: {from: 300, to: 300}}}
populate:
- sql:
  - DROP TABLE IF EXISTS counters, log
  - CREATE TABLE counters (id int PRIMARY KEY, n int, moment datetime, ratio double, t text, big bigint unsigned, nothing int)
  - CREATE TABLE log (id int, t text)
- table: counters
  rows: 2
  columns: {id: row, n: 0, moment: {text: \"2026-11-21 12:30:00\"}, ratio: {text: \"0.5\"}, t: {text: \"it's \\\\ \"}, big: {text: \"18446744073709551615\"}}
verify:
  rows: {counters: 2, log: 0}
  invariants:
  - {name: as many counted as logged, sql: SELECT (SELECT sum(n) FROM counters) = 2 * (SELECT count(*) FROM log), is: '1'}
  growth: [{name: each left a line, sql: SELECT count(*) FROM log, by: [work]}]
";

#[test]
fn transactions_are_tried_again_and_nothing_is_lost() {
    let Some(server) = server() else { return };
    let summary = populate_and_run("mysql", &options(TABLES, CONFLICTS), &server);
    assert!(fact(&summary, "client.errors.1213") > 0, "{summary:#?}");
    assert_eq!(fact(&summary, "client.retries"), fact(&summary, "client.errors.1213"), "{summary:#?}");
    assert!(summary.failures.is_empty(), "{summary:#?}");
    // The TLS 1.2 handshake takes two answers of the server, that of 1.3 one.
    for (version, name) in [("1.2", "TLSv1_2"), ("1.3", "TLSv1_3")] {
        let secured = options(&format!("tls: {{verify: false, version: '{version}'}}\n{TABLES}"), CONFLICTS);
        let summary = populate_and_run("mysql", &secured, &server);
        assert!(summary.facts["tls handshakes"].starts_with(name), "{summary:#?}");
    }
    let socket = server.folder.path().join("s");
    populate_and_run("mysql", &options(&format!("socket: {}\n{TABLES}", socket.display()), CONFLICTS), &server);
    wrong_things_are_told_in_the_servers_words(&server);
}

fn wrong_things_are_told_in_the_servers_words(server: &Server) {
    let fails = |options: &str, task| drive(&plan("mysql", options, server.endpoint(), task)).unwrap_err().message;
    let wrong = options("", "- sql: SELECT 1").replace("password: tare", "password: wrong");
    assert!(fails(&wrong, LoadTask::Ready).contains("[1045]"));
    assert!(fails(&wrong, LoadTask::Run).contains("[1045]"));
    let missing = options("", "- sql: SELECT 1\n- sql: SELECT x FROM nowhere");
    let text = fails(&missing, LoadTask::Run);
    assert!(text.contains("[1146]") && text.contains("in: SELECT x FROM nowhere"), "{text}");
    let populate = options("populate: [{sql: CREATE TABEL x}]", "- sql: SELECT 1");
    assert!(fails(&populate, LoadTask::Populate).contains("[1064]"));
}
