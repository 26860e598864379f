use super::*;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use tare_core::load::{LoadProfile, LoadTask};
use tare_core::units::CpuSet;

fn counts(get: u64, set: u64, hits: u64, misses: u64) -> Counts {
    Counts::parse(&format!(
        "# Stats\r\nkeyspace_hits:{hits}\r\nkeyspace_misses:{misses}\r\nredis_version:7.0.15\r\n\
         cmdstat_get:calls={get},usec=3,usec_per_call=1.00,rejected_calls=0,failed_calls=0\r\n\
         cmdstat_SET:calls={set},usec=3,usec_per_call=1.00,rejected_calls=1,failed_calls=0\r\n"
    ))
}

fn failed(after: Counts, ledger: &Ledger) -> Vec<String> {
    let options: Options = serde_json::from_value(serde_json::json!({
        "mix": {"get": 1, "set": 1}, "value_bytes": 64, "keys": 10, "populate": 10, "verify": true
    }))
    .unwrap();
    let after = Counts { keys: 10, ..after };
    let verified = verify(&options, &["get".into(), "set".into()], &counts(5, 5, 5, 0), &after, ledger);
    assert_eq!(verified.facts["redis_version"], "7.0.15");
    verified.checks.into_iter().filter(|check| !check.passed).map(|check| check.name).collect()
}

#[test]
fn the_servers_counts_must_be_the_clients() {
    let ledger = Ledger { sent: vec![10, 4], answered: vec![10, 4], empty: vec![0, 0], ..Ledger::new(2) };
    assert!(failed(counts(15, 9, 15, 0), &ledger).is_empty());
    assert_eq!(failed(counts(14, 9, 15, 0), &ledger), ["calls of get"]);
    assert_eq!(failed(counts(15, 10, 15, 0), &ledger), ["calls of set"]);
    assert_eq!(failed(counts(15, 9, 14, 1), &ledger), ["hit ratio"]);
    assert_eq!(failed(Counts { calls: BTreeMap::new(), ..counts(15, 9, 15, 0) }, &ledger).len(), 2);
}

#[test]
fn every_server_must_hold_a_part() {
    let held = |keys: &[u64]| {
        let server = |port: usize| SocketAddr::from(([127, 0, 0, 1], port as u16));
        let held = keys.iter().enumerate().map(|(at, keys)| (server(at), *keys)).collect();
        shares(&Counts { held, ..Counts::default() }).map(|check| (check.passed, check.detail))
    };
    assert_eq!(held(&[10]), None, "a server alone holds all");
    assert_eq!(held(&[6, 4]), Some((true, "2 servers hold 4 to 6 keys each".to_owned())));
    assert_eq!(held(&[10, 0]).map(|(passed, _)| passed), Some(false));
}

#[test]
fn a_lost_answer_leaves_room_for_one_call() {
    let ledger = Ledger { sent: vec![10, 4], answered: vec![9, 4], empty: vec![0, 0], ..Ledger::new(2) };
    assert!(failed(counts(15, 9, 15, 0), &ledger).is_empty());
    assert!(failed(counts(14, 9, 14, 0), &ledger).is_empty());
    assert_eq!(failed(counts(13, 9, 14, 0), &ledger), ["calls of get"]);
}

#[test]
fn a_miss_in_a_full_data_set_is_a_failed_check() {
    let ledger = Ledger { sent: vec![10, 4], answered: vec![10, 4], empty: vec![1, 0], ..Ledger::new(2) };
    assert_eq!(failed(counts(15, 9, 14, 1), &ledger), ["hit ratio"]);
}

/// Which connection wrote which key.
type Written = Arc<Mutex<Vec<(u16, String)>>>;

/// The words of a request; none at the end.
fn request(from: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let length = |from: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        line.trim_end().get(1..)?.parse::<usize>().ok()
    };
    let words = length(from)?;
    let word = |_| {
        let mut bytes = vec![0; length(from)? + 2];
        from.read_exact(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned())
    };
    (0..words).map(word).collect()
}

/// A server that records what is written to it.
fn noting_server() -> (SocketAddr, Written) {
    let written = Written::default();
    let noted = written.clone();
    let at = tare_testkit::peer::each_connection(move |_, mut stream| {
        let who = stream.peer_addr().unwrap().port();
        let mut from = BufReader::new(stream.try_clone().unwrap());
        while let Some(words) = request(&mut from) {
            let mut noted = noted.lock().unwrap();
            let answer = match words[0].as_str() {
                "DBSIZE" => format!(":{}\r\n", noted.len()),
                _ => "+OK\r\n".to_owned(),
            };
            noted.extend(words.get(1).map(|key| (who, key.clone())));
            drop(noted);
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (at, written)
}

#[test]
fn each_server_that_is_loaded_gets_the_whole_data_set_and_is_counted() {
    let servers = [(); 3].map(|()| noting_server());
    let options: Options = serde_json::from_value(serde_json::json!({
        "mix": {"set": 1}, "value_bytes": 64, "keys": 1500, "populate": 1500, "verify": true
    }))
    .unwrap();
    let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
    let plan = LoadPlan {
        also: servers[1..].iter().map(|(at, _)| *at).collect(),
        cpus: CpuSet::new(0..2),
        ..LoadPlan::of("redis", serde_json::Value::Null, servers[0].0, closed)
    };
    let done = populate(&options, &Value::new(64), &plan).unwrap();
    assert_eq!(done.facts["populated.keys"], "4500");
    assert!(servers.iter().all(|(_, written)| written.lock().unwrap().len() == 1500));
    // Proxies in front of the same servers: one of them is enough.
    let (front, behind) = (noting_server(), noting_server());
    let proxied = Options { servers: Some("redis".into()), populate: 0, ..options };
    let services = BTreeMap::from([("redis".to_owned(), vec![behind.0])]);
    let plan = LoadPlan { endpoint: front.0, services, ..plan };
    assert_eq!(populate(&proxied, &Value::new(64), &plan).unwrap().facts["populated.keys"], "0");
    assert_eq!(super::fronts(&proxied, &plan), [front.0]);
    assert_eq!(super::servers(&proxied, &plan).unwrap(), [behind.0]);
    let all = Counts { keys: 4500, copies: 3, ..counts(0, 0, 0, 0) };
    let holds = |all: &Counts| {
        let options = Options { servers: None, populate: 1500, ..proxied.clone() };
        let checks = verify(&options, &[], all, all, &Ledger::new(0)).checks;
        checks.iter().all(|check| check.passed)
    };
    assert!(holds(&all) && !holds(&Counts { keys: 4499, ..all.clone() }) && !holds(&Counts { copies: 4, ..all }));
}

#[test]
fn every_key_is_written_once_whatever_the_number_of_writers() {
    for (keys, cpus, writers) in [(0, 2, 0), (999, 2, 1), (2500, 2, 2), (5001, 4, 4), (4000, 0, 1)] {
        let (endpoint, written) = noting_server();
        let options: Options = serde_json::from_value(serde_json::json!({
            "mix": {"set": 1}, "value_bytes": 64, "keys": 10_000, "populate": keys, "verify": true
        }))
        .unwrap();
        let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
        let plan = LoadPlan {
            task: LoadTask::Populate,
            measure: Duration::ZERO,
            timeout: Duration::ZERO,
            cpus: CpuSet::new(0..cpus),
            ..LoadPlan::of("redis", serde_json::Value::Null, endpoint, closed)
        };
        let done = populate(&options, &Value::new(64), &plan).unwrap();
        assert_eq!(done.facts["populated.keys"], keys.to_string());
        let written = written.lock().unwrap();
        let found: BTreeSet<&str> = written.iter().map(|(_, key)| key.as_str()).collect();
        let wanted: BTreeSet<String> = (0..keys).map(|key| format!("{STRING_KEY}{key:012}")).collect();
        assert!(found.iter().eq(wanted.iter()) && written.len() == wanted.len(), "{keys} keys by {cpus} CPUs");
        let who: BTreeSet<u16> = written.iter().map(|(who, _)| *who).collect();
        assert_eq!(who.len(), writers, "{keys} keys by {cpus} CPUs");
    }
}
