//! What is asked of the server besides the load: its data set, its own counts.

use super::Postgres;
use super::session::Session;
use super::wire::{self, Reader};
use crate::engine::Ledger;
use crate::link::Link;
use crate::protocol::sql::{self, Ask, Message, Pipe, PopulateSpec, Rows, Tallies, Tally};
use crate::protocol::{Greeting, Verified};
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::load::{Check, LoadPlan};

/// Bytes of rows written at once.
const BATCH_BYTES: usize = 128 * 1024;
/// Backends hand their counts over when they end, or a second later.
const COUNTS_WITHIN: Duration = Duration::from_secs(10);

/// A connection on which single statements are asked.
pub(super) struct Control<'a> {
    pipe: Pipe<'a>,
    reader: Reader,
}

impl<'a> Control<'a> {
    /// Logs in over this connection, without preparing anything.
    pub(super) fn greet(postgres: &Postgres, link: &'a mut Link) -> Result<Self, Fault> {
        // What goes wrong here is told here, not among the load's errors.
        let tallies = Tallies::new(0).into();
        let mut session = Session::new(&postgres.program, &tallies);
        let mut out = Vec::new();
        session.greet(&postgres.login, &mut out);
        loop {
            if !out.is_empty() {
                link.send(&out)?;
                out.clear();
            }
            let shaken = link.receive(|bytes| {
                Ok((bytes.len(), Some(session.shake(&postgres.login, &[], &tallies, bytes, &mut out))))
            })?;
            match shaken {
                Ok(Greeting::Ready) => {
                    let pipe = Pipe::new(link, session.into_veil());
                    return Ok(Control { pipe, reader: Reader::default() });
                }
                Ok(Greeting::Wait) => {}
                Err(failure) => {
                    let words = tallies.first_error().unwrap_or_else(|| failure.name().to_owned());
                    let (user, database) = (&postgres.login.user, &postgres.login.database);
                    return Err(Fault::new(format!("user '{user}' was not let into database '{database}': {words}"))
                        .remedy("see the workload's 'user', 'password' and 'database', and the server's pg_hba.conf"));
                }
            }
        }
    }

    /// Sends a statement and reads to the end of its answer: the first column of the first row.
    fn ask(&mut self, sql: &str) -> Result<Option<String>, Fault> {
        let mut request = Vec::new();
        wire::query(&mut request, sql);
        self.pipe.send(&request)?;
        self.answer(sql, b'Z')
    }

    /// Reads up to a message of kind `last`.
    fn answer(&mut self, sql: &str, last: u8) -> Result<Option<String>, Fault> {
        let (mut first, mut error) = (None, None);
        let reader = &mut self.reader;
        self.pipe.receive(|bytes| {
            let mut rest = bytes;
            loop {
                let wanted = |kind| kind == b'E' || kind == b'Z' || (kind == b'D' && first.is_none());
                let message = reader.next(&mut rest, wanted);
                let message = message.map_err(|_| Fault::new("this is no answer of a PostgreSQL server"))?;
                let Some(Message { kind, body }) = message else { return Ok((bytes.len(), None)) };
                match kind {
                    b'D' if first.is_none() => {
                        first = wire::columns(body).next().map(|value| {
                            value.map_or("NULL".to_owned(), |value| String::from_utf8_lossy(value).into_owned())
                        });
                    }
                    b'E' => error = Some(wire::error_text(body)),
                    b'Z' => reader.answered(),
                    _ => {}
                }
                if kind == last || kind == b'Z' {
                    return Ok((bytes.len() - rest.len(), Some(())));
                }
            }
        })?;
        match error {
            Some(error) => Err(Fault::new(format!("the server refused '{}': {error}", sql::excerpt(sql)))),
            None => Ok(first),
        }
    }

    /// Writes rows by COPY.
    fn copy(&mut self, table: &str, columns: &[&str], rows: &mut Rows) -> Result<(), Fault> {
        let sql = format!("COPY {table} ({}) FROM STDIN", columns.join(", "));
        let mut request = Vec::with_capacity(BATCH_BYTES + 4096);
        wire::query(&mut request, &sql);
        self.pipe.send(&request)?;
        self.answer(&sql, b'G')?;
        let mut more = true;
        while more {
            request.clear();
            wire::message(&mut request, b'd', |out| {
                while more && out.len() < BATCH_BYTES {
                    more = rows.next(|number, value| copy_column(number, columns.len(), value, out));
                }
            });
            self.pipe.send(&request)?;
        }
        request.clear();
        wire::message(&mut request, b'c', |_| ());
        self.pipe.send(&request)?;
        self.answer(&sql, b'Z').map(drop)
    }
}

/// Appends a column in COPY's text format.
fn copy_column(number: usize, count: usize, value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        None => out.extend_from_slice(b"\\N"),
        Some(text) => text.iter().for_each(|byte| match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte => out.push(*byte),
        }),
    }
    out.push(if number + 1 == count { b'\n' } else { b'\t' });
}

impl Ask for Control<'_> {
    fn value(&mut self, sql: &str) -> Result<String, Fault> {
        Ok(self.ask(sql)?.unwrap_or_else(|| "NULL".to_owned()))
    }
}

/// Makes the data set and sees that it is there.
pub(super) fn populate(postgres: &Postgres, plan: &LoadPlan) -> Result<Verified, Fault> {
    let mut link = Link::to(postgres, plan.endpoint, sql::MAKING)?;
    let mut control = Control::greet(postgres, &mut link)?;
    for (number, step) in postgres.options.populate.iter().enumerate() {
        match step {
            PopulateSpec::Sql(sql) => drop(control.ask(sql)?),
            PopulateSpec::Rows { table, count, columns } => {
                let mut rows = Rows::new(&postgres.options, number, *count, columns)?;
                let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
                control.copy(table, &names, &mut rows)?;
            }
        }
    }
    sql::made(&mut control, &postgres.options.verify)
}

/// What is remembered from before a run.
#[derive(Debug, Default)]
pub(super) struct Counts {
    server: Server,
    sizes: Vec<i64>,
}

/// The server's own counts of our database.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Server {
    commits: u64,
    rollbacks: u64,
    deadlocks: u64,
}

fn server(control: &mut Control<'_>) -> Result<Server, Fault> {
    let sql = "SELECT xact_commit || ' ' || xact_rollback || ' ' || deadlocks FROM pg_stat_database \
               WHERE datname = current_database()";
    let text = control.value(sql)?;
    let numbers: Vec<u64> = text.split(' ').filter_map(|number| number.parse().ok()).collect();
    match numbers[..] {
        [commits, rollbacks, deadlocks] => Ok(Server { commits, rollbacks, deadlocks }),
        _ => Err(Fault::new(format!("the server's counts are not understood: '{text}'"))),
    }
}

/// Reads the counts before a run.
pub(super) fn before(postgres: &Postgres, plan: &LoadPlan) -> Result<Counts, Fault> {
    if !sql::asks(&postgres.options.verify) {
        return Ok(Counts::default());
    }
    let mut link = Link::to(postgres, plan.endpoint, sql::ASKING)?;
    let mut control = Control::greet(postgres, &mut link)?;
    let sizes = sql::sizes(&mut control, &postgres.options.verify)?;
    let server = if postgres.options.verify.server { server(&mut control)? } else { Server::default() };
    Ok(Counts { server, sizes })
}

/// Compares what the server counted with what the client did, and looks at the data set.
pub(super) fn verify(
    postgres: &Postgres,
    plan: &LoadPlan,
    before: &Counts,
    ledger: &Ledger,
) -> Result<Verified, Fault> {
    let tally = postgres.tallies.sum();
    if !sql::asks(&postgres.options.verify) {
        let facts = sql::facts(&postgres.options, &postgres.tallies, &tally);
        return Ok(Verified { facts, ..Verified::default() });
    }
    let mut link = Link::to(postgres, plan.endpoint, sql::ASKING)?;
    let mut control = Control::greet(postgres, &mut link)?;
    let mut checks = sql::after(&mut control, &postgres.options, &before.sizes, ledger, &tally)?;
    let mut facts = sql::facts(&postgres.options, &postgres.tallies, &tally);
    if postgres.options.verify.server {
        let after = counted(&mut control, before.server, &tally)?;
        checks.push(commits(before.server, after, ledger, &tally));
        let deadlocks = after.deadlocks.saturating_sub(before.server.deadlocks);
        facts.insert("server.deadlocks".into(), deadlocks.to_string());
    }
    facts.insert("server.version".into(), control.value("SHOW server_version")?);
    for name in ["shared_buffers", "fsync", "synchronous_commit", "full_page_writes", "max_connections", "jit"] {
        // A relative of PostgreSQL may not have them all.
        if let Ok(value) = control.value(&format!("SHOW {name}")) {
            facts.insert(format!("server.{name}"), value);
        }
    }
    facts.extend(postgres.login.tls.iter().flat_map(|tls| tls.facts()));
    Ok(Verified { checks, facts })
}

/// Waits until the server has counted what the client did, or some time.
fn counted(control: &mut Control<'_>, before: Server, tally: &Tally) -> Result<Server, Fault> {
    let deadline = Instant::now() + COUNTS_WITHIN;
    loop {
        let now = server(control)?;
        if now.commits >= before.commits + tally.commits || Instant::now() > deadline {
            return Ok(now);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The server must have committed at least what was answered. It also counts what we did not send as load: a
/// transaction each for logging in and preparing, our own questions, and its housekeeping.
fn commits(before: Server, after: Server, ledger: &Ledger, tally: &Tally) -> Check {
    let served = after.commits.saturating_sub(before.commits);
    let lost: u64 = ledger.sent.iter().zip(&ledger.answered).map(|(sent, answered)| sent - answered).sum();
    let slack = 200 + 4 * tally.connections + tally.commits / 50 + 2 * lost;
    Check {
        name: "transactions committed".into(),
        passed: (tally.commits..=tally.commits + slack).contains(&served),
        detail: format!("the server counted {served}, the client {}", tally.commits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_escaped_for_copy() {
        let mut out = Vec::new();
        copy_column(0, 3, Some(b"a\tb\\c\nd"), &mut out);
        copy_column(1, 3, None, &mut out);
        copy_column(2, 3, Some(b""), &mut out);
        assert_eq!(out, b"a\\tb\\\\c\\nd\t\\N\t\n");
    }

    #[test]
    fn a_server_that_committed_less_than_it_answered_is_caught() {
        let (ledger, tally) = (Ledger::new(1), Tally { commits: 1000, ..Tally::new(1) });
        let passes = |commits| commits_of(commits, &ledger, &tally).passed;
        assert!(passes(1000) && passes(1010));
        assert!(!passes(999) && !passes(2000));
    }

    fn commits_of(served: u64, ledger: &Ledger, tally: &Tally) -> Check {
        commits(
            Server { commits: 5, ..Server::default() },
            Server { commits: 5 + served, ..Server::default() },
            ledger,
            tally,
        )
    }
}
