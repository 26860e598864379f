//! The connection for everything other than the load: readiness, the data set, the server's own counts.

use super::command::{COMMANDS, STRING_KEY, Template, Value};
use super::options::Options;
use crate::operation::{Ledger, Link, Verified};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::panic::resume_unwind;
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::load::{Check, LoadPlan};

/// Commands written at once while populating: enough to make round trips cheap.
const BATCH_COMMANDS: u64 = 1000;
const BATCH_BYTES: usize = 256 * 1024;
/// The most connections over which the data set is written.
const WRITERS_MAX: u64 = 16;
/// The least time that an exchange off the measured path may take: an emulated guest is slow.
const PATIENCE: Duration = Duration::from_secs(20);
/// INFO is a few KiB; anything longer than this is not INFO.
const TEXT_MAX: usize = 4 << 20;

/// A connection for single commands.
pub(super) struct Control<'a> {
    link: &'a mut Link,
}

impl<'a> Control<'a> {
    /// For this connection.
    pub(super) fn new(link: &'a mut Link) -> Self {
        Control { link }
    }

    /// Sends PING.
    pub(super) fn ping(&mut self) -> Result<(), Fault> {
        let answer = self.ask(&["PING"])?;
        if answer == "PONG" { Ok(()) } else { Err(not_redis(&answer)) }
    }

    /// Sends a command and returns its answer, a status, integer or text.
    fn ask(&mut self, words: &[&str]) -> Result<String, Fault> {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        self.link.send(request.as_bytes())?;
        self.answer(words[0])
    }

    fn line(&mut self) -> Result<String, Fault> {
        let mut text = Vec::new();
        self.link.receive(|bytes| {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(bytes.len(), |end| end + 1);
            text.extend_from_slice(&bytes[..used]);
            if text.len() > TEXT_MAX {
                return Err(not_redis("an endless line"));
            }
            Ok((used, end))
        })?;
        Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
    }

    fn answer(&mut self, asked: &str) -> Result<String, Fault> {
        let line = self.line()?;
        match line.chars().next() {
            Some('+' | ':') => Ok(line[1..].to_owned()),
            Some('-') => Err(Fault::new(format!("{asked} was answered with an error: {}", &line[1..]))),
            Some('$') => {
                let length = line[1..].parse::<usize>().ok().filter(|length| *length <= TEXT_MAX);
                self.body(length.ok_or_else(|| not_redis(&line))?)
            }
            _ => Err(not_redis(&line)),
        }
    }

    fn body(&mut self, length: usize) -> Result<String, Fault> {
        let mut text = Vec::new();
        self.link.receive(|bytes| {
            let used = bytes.len().min(length + 2 - text.len());
            text.extend_from_slice(&bytes[..used]);
            Ok((used, (text.len() == length + 2).then_some(())))
        })?;
        text.truncate(length);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn keys(&mut self) -> Result<u64, Fault> {
        let size = self.ask(&["DBSIZE"])?;
        size.parse().map_err(|_| not_redis(&size))
    }
}

fn not_redis(seen: &str) -> Fault {
    let seen: String = seen.chars().take(60).collect();
    Fault::new(format!("this is no answer of a Redis server: '{seen}'"))
        .remedy("see that the workload's port is the one Redis listens on")
}

/// The server's own counts at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Counts {
    // How often each command was called or rejected.
    calls: BTreeMap<String, u64>,
    hits: u64,
    misses: u64,
    keys: u64,
    info: BTreeMap<String, String>,
    /// By server: its number of keys.
    held: BTreeMap<SocketAddr, u64>,
}

impl Counts {
    /// Reads and adds those of every server. The facts are the first server's.
    pub(super) fn read(options: &Options, plan: &LoadPlan) -> Result<Self, Fault> {
        let mut all = Counts::default();
        for server in servers(options, plan)? {
            let one = Counts::of(server, plan).map_err(|fault| fault.context(format!("the server at {server}")))?;
            one.calls.iter().for_each(|(command, calls)| *all.calls.entry(command.clone()).or_default() += calls);
            (all.hits, all.misses, all.keys) = (all.hits + one.hits, all.misses + one.misses, all.keys + one.keys);
            all.held.insert(server, one.keys);
            if all.info.is_empty() {
                all.info = one.info;
            }
        }
        Ok(all)
    }

    /// Reads those of one server over a connection of its own. The commands used, INFO and DBSIZE, are in no mix.
    fn of(server: SocketAddr, plan: &LoadPlan) -> Result<Self, Fault> {
        let mut link = Link::open(server, plan.timeout.max(PATIENCE))?;
        let mut control = Control::new(&mut link);
        let mut text = String::new();
        for section in ["server", "stats", "commandstats", "persistence", "memory"] {
            text.push_str(&control.ask(&["INFO", section])?);
        }
        let mut counts = Counts::parse(&text);
        counts.keys = control.keys()?;
        Ok(counts)
    }

    fn parse(text: &str) -> Self {
        let mut counts = Counts::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim_end();
            if let Some(command) = name.strip_prefix("cmdstat_") {
                let field = |wanted: &str| {
                    value.split(',').find_map(|field| field.strip_prefix(wanted)?.parse::<u64>().ok()).unwrap_or(0)
                };
                counts.calls.insert(command.to_lowercase(), field("calls=").saturating_add(field("rejected_calls=")));
            } else {
                counts.info.insert(name.to_owned(), value.to_owned());
            }
        }
        let number = |name: &str| counts.info.get(name).and_then(|value| value.parse().ok()).unwrap_or(0);
        (counts.hits, counts.misses) = (number("keyspace_hits"), number("keyspace_misses"));
        counts
    }
}

/// Takes any text as a server's statistics.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew_counts(text: &str) {
    let counts = Counts::parse(text);
    let lines = text.lines().count();
    assert!(counts.calls.len() + counts.info.len() <= lines, "{counts:?}");
}

/// Where the data is: the servers behind the one that is loaded, or that one itself.
fn servers(options: &Options, plan: &LoadPlan) -> Result<Vec<SocketAddr>, Fault> {
    let Some(service) = &options.servers else { return Ok(vec![plan.endpoint]) };
    let behind = plan.services.get(service).filter(|behind| !behind.is_empty()).cloned();
    behind.ok_or_else(|| {
        Fault::new(format!("the data is in service '{service}', and nobody said where that is reached"))
            .remedy("let a study deploy it; a load by itself knows one address only")
    })
}

/// How many keys all servers have together.
fn held(options: &Options, plan: &LoadPlan) -> Result<u64, Fault> {
    let of = |server: SocketAddr| Control::new(&mut Link::open(server, plan.timeout.max(PATIENCE))?).keys();
    servers(options, plan)?.into_iter().map(of).sum()
}

/// Writes the first `populate` keys and checks that they are there.
pub(super) fn populate(options: &Options, value: &Value, plan: &LoadPlan) -> Result<Verified, Fault> {
    let before = held(options, plan)?;
    // One writer for each CPU of the load, because several servers accept more than one writer can send.
    let batches = options.populate.div_ceil(BATCH_COMMANDS);
    let writers = (plan.cpus.len() as u64).clamp(1, WRITERS_MAX).min(batches.max(1));
    let ends: Vec<u64> = (0..=writers).map(|at| batches * at / writers * BATCH_COMMANDS).collect();
    let parts = ends.windows(2).map(|ends| ends[0]..ends[1].min(options.populate));
    std::thread::scope(|scope| {
        let threads: Vec<_> = parts.map(|keys| scope.spawn(|| write(keys, options, value, plan))).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.collect::<Vec<_>>().into_iter().collect::<Result<(), Fault>>()
    })?;
    let found = held(options, plan)?;
    // Keys that existed before may be among those written.
    if found < options.populate || found > options.populate + before {
        let message =
            format!("{} keys were written, the server holds {found} and held {before} before", options.populate);
        return Err(Fault::new(message).remedy("see that it has memory for them and evicts nothing (maxmemory)"));
    }
    Ok(Verified { facts: BTreeMap::from([("populated.keys".to_owned(), found.to_string())]), ..Verified::default() })
}

/// Writes these keys over a connection of its own.
fn write(keys: Range<u64>, options: &Options, value: &Value, plan: &LoadPlan) -> Result<(), Fault> {
    let mut link = Link::open(plan.endpoint, plan.timeout.max(PATIENCE))?;
    let set = Template::named("set", value);
    let mut request = Vec::with_capacity(BATCH_BYTES);
    let (mut written, mut unanswered) = (keys.start, 0);
    while written < keys.end {
        request.clear();
        let from = written;
        while written < keys.end && written - from < BATCH_COMMANDS && request.len() < BATCH_BYTES {
            set.write(written, options.keys, &mut request);
            written += 1;
        }
        link.send(&request)?;
        // While the server works on these, the answers to the previous batch are read: the server never waits for us.
        await_ok(&mut link, unanswered)?;
        unanswered = written - from;
    }
    await_ok(&mut link, unanswered)
}

/// Reads `count` answers, all `+OK`.
fn await_ok(link: &mut Link, count: u64) -> Result<(), Fault> {
    const OK: &[u8] = b"+OK\r\n";
    for _ in 0..count {
        let mut at = 0;
        let right = link.receive(|bytes| {
            let used = bytes.len().min(OK.len() - at);
            let same = bytes[..used] == OK[at..at + used];
            at += used;
            // After a wrong answer, the rest of the line from there on is read as text.
            Ok(if same { (used, (at == OK.len()).then_some(true)) } else { (0, Some(false)) })
        })?;
        if !right {
            let text = Control::new(link).line()?;
            return Err(Fault::new(format!("a SET was refused while the data set was written: {text}"))
                .remedy("see that the server may be written to and has memory enough"));
        }
    }
    Ok(())
}

/// Compares what the server counted between `before` and `after` with what the client sent.
pub(super) fn verify(
    options: &Options,
    operations: &[String],
    before: &Counts,
    after: &Counts,
    ledger: &Ledger,
) -> Verified {
    let mut checks = Vec::new();
    for (at, name) in operations.iter().enumerate() {
        let calls = |counts: &Counts| counts.calls.get(name).copied().unwrap_or(0);
        let served = calls(after).saturating_sub(calls(before));
        let (sent, answered) = (ledger.sent[at], ledger.answered[at]);
        // If no connection was lost, the two bounds are equal.
        checks.push(Check {
            always: false,
            outcome: false,
            name: format!("calls of {name}"),
            passed: (answered..=sent).contains(&served),
            detail: format!("the server counted {served}, the client sent {sent} and got {answered} answers"),
        });
    }
    let get = operations.iter().position(|name| name == "get");
    checks.extend(get.map(|get| lookups(options, before, after, ledger, get)));
    let other_keys = COMMANDS.iter().any(|row| row.makes_other_keys && operations.iter().any(|name| name == row.name));
    let exact = options.populate == options.keys && !other_keys;
    checks.push(Check {
        always: false,
        outcome: false,
        name: "keys in the data set".into(),
        passed: after.keys >= options.populate && (!exact || after.keys == options.keys),
        detail: format!("{} keys after the run, {} of '{STRING_KEY}' written before it", after.keys, options.populate),
    });
    checks.extend(shares(after));
    Verified { checks, facts: facts(after) }
}

/// Checks that each of several servers has a part of the data: one without any would be useless. The sizes of the parts
/// are reported and depend on the hash.
fn shares(after: &Counts) -> Option<Check> {
    let held: Vec<u64> = after.held.values().copied().collect();
    let (least, most) = (held.iter().min()?, held.iter().max()?);
    (held.len() > 1).then(|| Check {
        always: false,
        outcome: false,
        name: "keys on every server".into(),
        passed: *least > 0,
        detail: format!("{} servers hold {least} to {most} keys each", held.len()),
    })
}

fn lookups(options: &Options, before: &Counts, after: &Counts, ledger: &Ledger, get: usize) -> Check {
    let hits = after.hits.saturating_sub(before.hits);
    let misses = after.misses.saturating_sub(before.misses);
    let (answered, empty) = (ledger.answered[get], ledger.empty[get]);
    let lost = ledger.sent[get] - answered;
    let found = answered - empty;
    // A request whose answer was lost may have been looked up; one with an error reply was not.
    let agree = misses >= empty && misses <= empty + lost && hits <= found + lost;
    let complete = options.populate < options.keys || empty == 0;
    let ratio = hits as f64 / (hits + misses).max(1) as f64;
    Check {
        always: false,
        outcome: false,
        name: "hit ratio".into(),
        passed: agree && complete,
        detail: format!(
            "{:.4} by the server ({hits} hits, {misses} misses); the client found {found} values and {empty} times none",
            ratio
        ),
    }
}

fn facts(counts: &Counts) -> BTreeMap<String, String> {
    const SHOWN: [&str; 9] = [
        "redis_version",
        "valkey_version",
        "redis_mode",
        "os",
        "gcc_version",
        "mem_allocator",
        "io_threads_active",
        "aof_enabled",
        "used_memory_peak",
    ];
    let shown = SHOWN.iter().filter_map(|name| counts.info.get_key_value(*name));
    shown.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
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
}
