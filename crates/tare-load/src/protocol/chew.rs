//! Protocols as the fuzz targets speak them: with options that lead bytes to as much code as there is.

use super::pieces::{answered, chew};
use super::{PROTOCOLS, exec, http, mysql, postgres, protocol_named, redis, tcp};
use serde_json::Value;
use std::sync::OnceLock;
use tare_core::config;
use tare_core::fault::Fault;

/// Options as the protocol writes them down, read once.
fn options(kept: &'static OnceLock<Value>, protocol: &str, text: &str) -> Value {
    let read = || {
        let protocol = protocol_named(PROTOCOLS, protocol).expect("there is one");
        let read = config::read("workload.yaml", text, |node, problems| protocol.read(node, problems));
        read.unwrap_or_else(|told| panic!("{told:#?}"))
    };
    kept.get_or_init(read).clone()
}

/// Takes any bytes for Redis replies.
pub(crate) fn of_redis(bytes: &[u8]) {
    static OPTIONS: OnceLock<Value> = OnceLock::new();
    let text = "{mix: {get: 1, set: 1}, value_bytes: 5, keys: 10, verify: true}";
    chew(&redis::made(options(&OPTIONS, "redis", text)).expect("they were checked"), bytes);
}

/// Takes any text for what a Redis server tells of itself.
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

/// Takes any bytes for HTTP replies.
pub(crate) fn of_http(bytes: &[u8]) {
    static OPTIONS: OnceLock<Value> = OnceLock::new();
    chew(&http::made(options(&OPTIONS, "http", HTTP)).expect("they were checked"), bytes);
}

/// Takes any bytes for a service's answer to whether all is well.
pub(crate) use http::chew_answer as of_http_answer;

/// A reply to `GET /`, whose body must have `hello` in it; whether it is answered rightly.
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

/// Takes any bytes for what a PostgreSQL server says from the first message on.
pub(crate) fn of_postgres(bytes: &[u8]) {
    static OPTIONS: OnceLock<Value> = OnceLock::new();
    chew(&postgres::made(options(&OPTIONS, "postgres", SQL)).expect("they were checked"), bytes);
}

/// Takes any bytes for what a MySQL server says from the first packet on.
pub(crate) fn of_mysql(bytes: &[u8]) {
    static OPTIONS: OnceLock<Value> = OnceLock::new();
    chew(&mysql::made(options(&OPTIONS, "mysql", SQL)).expect("they were checked"), bytes);
}

/// Takes any bytes for replies of a server that is told by the text or the number of bytes at which they end.
pub(crate) fn of_tcp(bytes: &[u8]) {
    static OPTIONS: OnceLock<Value> = OnceLock::new();
    let text = "
requests:
  - {name: told, request: hi, reply: {until: \"END\\r\\n\"}, expect: tare}
  - {name: counted, request: ho, reply: {bytes: 7}, expect: aab}
";
    chew(&tcp::made(options(&OPTIONS, "tcp", text)), bytes);
}

/// Whether options that were checked when they were read can be carried out.
///
/// # Errors
/// Why not.
pub(crate) fn carried_out(protocol: &str, options: &Value) -> Result<(), Fault> {
    match protocol {
        // A file that is named is not there.
        "http" if options["tls"].is_null() => http::made(options.clone()).map(drop),
        "postgres" if options["tls"].is_null() => postgres::made(options.clone()).map(drop),
        "mysql" if options["tls"].is_null() => mysql::made(options.clone()).map(drop),
        "redis" => redis::made(options.clone()).map(drop),
        _ => Ok(()),
    }
}

/// Takes any text for what tools print.
pub(crate) use exec::chew as of_tool;
/// Takes any bytes for a MySQL server's answers to what is asked beside the load.
pub(crate) use mysql::chew_control as of_mysql_control;
/// Takes any bytes for a PostgreSQL server's answers to what is asked beside the load.
pub(crate) use postgres::chew_control as of_postgres_control;
/// Takes any text for messages of a proof of a password.
pub(crate) use postgres::chew_scram as of_scram;
