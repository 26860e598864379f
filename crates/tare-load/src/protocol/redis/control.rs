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
    /// How many times the data set is there.
    copies: u64,
}

impl Counts {
    /// Reads and adds those of every server. The facts are the first server's.
    pub(super) fn read(options: &Options, plan: &LoadPlan) -> Result<Self, Fault> {
        let mut all = Counts { copies: fronts(options, plan).len() as u64, ..Counts::default() };
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
        let mut counts = Counts { copies: 1, ..Counts::default() };
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

/// Where the data set is written: to one of those that are loaded if they pass commands on to the same servers, else to
/// each, because each has data of its own.
fn fronts(options: &Options, plan: &LoadPlan) -> Vec<SocketAddr> {
    let others = if options.servers.is_some() { &[] } else { plan.also.as_slice() };
    std::iter::once(plan.endpoint).chain(others.iter().copied()).collect()
}

/// Where the data is: the servers behind those that are loaded, or these themselves.
fn servers(options: &Options, plan: &LoadPlan) -> Result<Vec<SocketAddr>, Fault> {
    let Some(service) = &options.servers else { return Ok(fronts(options, plan)) };
    let behind = plan.services.get(service).filter(|behind| !behind.is_empty()).cloned();
    behind.ok_or_else(|| {
        Fault::new(format!("the data is in service '{service}', and nobody said where that is reached"))
            .remedy("let a study deploy it; a load by itself knows one address only")
    })
}

/// How many keys these servers have together.
fn held(servers: &[SocketAddr], plan: &LoadPlan) -> Result<u64, Fault> {
    let of = |server: &SocketAddr| Control::new(&mut Link::open(*server, plan.timeout.max(PATIENCE))?).keys();
    servers.iter().map(of).sum()
}

/// Writes the data set wherever it has to be.
pub(super) fn populate(options: &Options, value: &Value, plan: &LoadPlan) -> Result<Verified, Fault> {
    let (fronts, servers, mut found) = (fronts(options, plan), servers(options, plan)?, 0);
    for front in &fronts {
        let behind = if options.servers.is_some() { servers.as_slice() } else { std::slice::from_ref(front) };
        let of_front = populate_one(options, value, plan, *front, behind);
        found += if fronts.len() == 1 {
            of_front?
        } else {
            of_front.map_err(|fault| fault.context(format_args!("the server at {front}")))?
        };
    }
    Ok(Verified { facts: BTreeMap::from([("populated.keys".to_owned(), found.to_string())]), ..Verified::default() })
}

/// Writes the first `populate` keys to `front` and checks that they are there, in the servers `behind` it; returns how
/// many these have.
fn populate_one(
    options: &Options,
    value: &Value,
    plan: &LoadPlan,
    front: SocketAddr,
    behind: &[SocketAddr],
) -> Result<u64, Fault> {
    let before = held(behind, plan)?;
    // One writer for each CPU of the load, because several servers accept more than one writer can send.
    let batches = options.populate.div_ceil(BATCH_COMMANDS);
    let writers = (plan.cpus.len() as u64).clamp(1, WRITERS_MAX).min(batches.max(1));
    let ends: Vec<u64> = (0..=writers).map(|at| batches * at / writers * BATCH_COMMANDS).collect();
    let parts = ends.windows(2).map(|ends| ends[0]..ends[1].min(options.populate));
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            parts.map(|keys| scope.spawn(move || write(keys, options, value, (front, plan.timeout)))).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.collect::<Vec<_>>().into_iter().collect::<Result<(), Fault>>()
    })?;
    let found = held(behind, plan)?;
    // Keys that existed before may be among those written.
    if found < options.populate || found > options.populate + before {
        let message =
            format!("{} keys were written, the server holds {found} and held {before} before", options.populate);
        return Err(Fault::new(message).remedy("see that it has memory for them and evicts nothing (maxmemory)"));
    }
    Ok(found)
}

/// Writes these keys to a server over a connection of its own.
fn write(
    keys: Range<u64>,
    options: &Options,
    value: &Value,
    (server, timeout): (SocketAddr, Duration),
) -> Result<(), Fault> {
    let mut link = Link::open(server, timeout.max(PATIENCE))?;
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
    let (written, most) = (options.populate * after.copies, options.keys * after.copies);
    checks.push(Check {
        always: false,
        outcome: false,
        name: "keys in the data set".into(),
        passed: after.keys >= written && (!exact || after.keys == most),
        detail: format!("{} keys after the run, {written} of '{STRING_KEY}' written before it", after.keys),
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
mod tests;
