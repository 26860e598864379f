//! Protocols as the fuzz targets use them: with options that lead input to as much code as possible.

use super::pieces::{answered, chew};
use super::{PROTOCOLS, exec, http, mysql, postgres, protocol_named, redis, tcp};
use serde_json::Value;
use std::sync::OnceLock;
use tare_core::config;
use tare_core::fault::Fault;

/// A protocol's options in their written form, read once.
fn options(kept: &'static OnceLock<Value>, protocol: &str, text: &str) -> Value {
    let read = || {
        let protocol = protocol_named(PROTOCOLS, protocol).expect("there is one");
        let read = config::read("workload.yaml", text, |node, problems| protocol.read(node, problems));
        read.unwrap_or_else(|told| panic!("{told:#?}"))
    };
    kept.get_or_init(read).clone()
}

/// Takes any bytes as Redis replies.
pub(crate) fn of_redis(bytes: &[u8]) {
    static OPTIONS: OnceLock<Value> = OnceLock::new();
    let text = "{mix: {get: 1, set: 1}, value_bytes: 5, keys: 10, verify: true}";
    chew(&redis::made(options(&OPTIONS, "redis", text)).expect("they were checked"), bytes);
}

/// Takes any text as a Redis server's statistics.
pub(crate) use redis::chew_counts as of_redis_counts;

const HTTP: &str = "
operations:
  plain: {get: /}
  looked-at:
    requests:
      - {get: /a, expect: {status: 200, contains: hello}, capture: {token: {json: /a, optional: true}}}
      - get: '/b?${token}'
  followed:
    requests: [{get: /a, redirects: 2, embedded: [/c]}, {get: /b, forget: true}]
";

/// Takes any bytes as HTTP replies.
pub(crate) fn of_http(bytes: &[u8]) {
    static OPTIONS: OnceLock<Value> = OnceLock::new();
    chew(&http::made(options(&OPTIONS, "http", HTTP)).expect("they were checked"), bytes);
}

/// Takes any bytes as a service's answer to a health check.
pub(crate) use http::chew_answer as of_http_answer;

/// Whether this is a right answer to `GET /` when its body must contain `hello`.
pub(crate) fn says_hello(reply: &[u8], closes: bool) -> bool {
    static OPTIONS: OnceLock<Value> = OnceLock::new();
    let text = "operations: {hello: {requests: [{get: /, expect: {status: 200, contains: hello}}]}}";
    let http = http::made(options(&OPTIONS, "http", text)).expect("they were checked");
    answered(&http, reply, closes)
}

const SQL: &str = "
user: me
password: secret
verify: {server: false}
operations:
  transfer:
    tries: 3
    script:
      - begin
      - sql: SELECT a, b FROM t
        expect: {rows: 1}
        capture: {a: 1, b: 2, again: 1, found: rows}
      - if: {var: a, less: 5}
        then: [{sql: 'UPDATE t SET a = ${a}, b = ${b}', expect: {affected: 1}}]
      - commit
  single: {script: [{sql: SELECT a, capture: {a: 1}}]}
";

/// Takes any bytes as a PostgreSQL server's messages, from the first on.
pub(crate) fn of_postgres(bytes: &[u8]) {
    static OPTIONS: OnceLock<Value> = OnceLock::new();
    chew(&postgres::made(options(&OPTIONS, "postgres", SQL)).expect("they were checked"), bytes);
}

/// Takes any bytes as a MySQL server's packets, from the first on.
pub(crate) fn of_mysql(bytes: &[u8]) {
    static OPTIONS: OnceLock<Value> = OnceLock::new();
    chew(&mysql::made(options(&OPTIONS, "mysql", SQL)).expect("they were checked"), bytes);
}

/// Takes any bytes as replies that end at a given text or after a given number of bytes.
pub(crate) fn of_tcp(bytes: &[u8]) {
    static OPTIONS: OnceLock<Value> = OnceLock::new();
    let text = "
requests:
  - {name: told, request: hi, reply: {until: \"END\\r\\n\"}, expect: tare}
  - {name: counted, request: ho, reply: {bytes: 7}, expect: aab}
";
    chew(&tcp::made(options(&OPTIONS, "tcp", text)), bytes);
}

/// Checks that options accepted when they were read can be carried out.
///
/// # Errors
/// Why not.
pub(crate) fn carried_out(protocol: &str, options: &Value) -> Result<(), Fault> {
    match protocol {
        // With TLS, a file that the options name does not exist.
        "http" if options["tls"].is_null() => http::made(options.clone()).map(drop),
        "postgres" if options["tls"].is_null() => postgres::made(options.clone()).map(drop),
        "mysql" if options["tls"].is_null() => mysql::made(options.clone()).map(drop),
        "redis" => redis::made(options.clone()).map(drop),
        _ => Ok(()),
    }
}

/// Takes any text as the output of tools.
pub(crate) use exec::chew as of_tool;
/// Takes any bytes as a MySQL server's answers on the control connection.
pub(crate) use mysql::chew_control as of_mysql_control;
/// Takes any bytes as a PostgreSQL server's answers on the control connection.
pub(crate) use postgres::chew_control as of_postgres_control;
/// Takes any text as the messages that prove a password.
pub(crate) use postgres::chew_scram as of_scram;
