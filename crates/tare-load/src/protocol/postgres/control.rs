//! The connection for everything other than the load: the data set, the server's own counts.

use super::session::Session;
use super::wire::{self, Reader};
use crate::operation::{Ledger, Link, Verified};
#[cfg(any(test, fuzzing))]
use crate::protocol::pieces::answers;
use crate::protocol::sql::{self, Ask, Message, Pipe, Rows, Tally};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::load::Check;

/// How many bytes of rows are written at once.
const BATCH_BYTES: usize = 128 * 1024;
/// How long to wait for the server's counts: backends report theirs when they end, or a second later.
const COUNTS_WITHIN: Duration = Duration::from_secs(10);
/// Settings that determine the server's speed and are worth a line in the record.
const SETTINGS: &[&str] =
    &["shared_buffers", "fsync", "synchronous_commit", "full_page_writes", "max_connections", "jit"];

/// A connection for single statements.
pub(super) struct Control<'a> {
    pipe: Pipe<'a>,
    reader: Reader,
}

impl<'a> Control<'a> {
    /// For a connection whose greeting is over.
    pub(super) fn new(session: Session, link: &'a mut Link) -> Self {
        Control { pipe: Pipe::new(link, session.into_veil()), reader: Reader::default() }
    }

    /// Sends a statement and reads its whole answer: the first column of the first row.
    fn ask(&mut self, sql: &str) -> Result<Option<String>, Fault> {
        let mut request = Vec::new();
        wire::query(&mut request, sql);
        self.pipe.send(&request)?;
        self.answer(sql, b'Z')
    }

    /// Reads up to a message of kind `last`.
    fn answer(&mut self, sql: &str, last: u8) -> Result<Option<String>, Fault> {
        let Control { pipe, reader } = self;
        let mut answer = Answer::default();
        pipe.receive(|bytes| {
            let (used, is_over) = answer.take(reader, bytes, last)?;
            Ok((used, is_over.then_some(())))
        })?;
        answer.said(sql)
    }
}

/// The answer to a statement, as far as it has come.
#[derive(Debug, Default)]
struct Answer {
    /// The first column of the first row.
    first: Option<String>,
    error: Option<String>,
}

impl Answer {
    /// Takes bytes up to a message of kind `last`; returns how many, and whether the answer is complete.
    fn take(&mut self, reader: &mut Reader, bytes: &[u8], last: u8) -> Result<(usize, bool), Fault> {
        let mut rest = bytes;
        loop {
            let wanted = |kind| kind == b'E' || kind == b'Z' || (kind == b'D' && self.first.is_none());
            let message = reader.next(&mut rest, wanted);
            let message = message.map_err(|_| Fault::new("this is no answer of a PostgreSQL server"))?;
            let Some(Message { kind, body }) = message else { return Ok((bytes.len(), false)) };
            match kind {
                b'D' if self.first.is_none() => {
                    self.first = wire::columns(body).next().map(|value| {
                        value.map_or("NULL".to_owned(), |value| String::from_utf8_lossy(value).into_owned())
                    });
                }
                b'E' => self.error = Some(wire::error_text(body)),
                b'Z' => reader.answered(),
                _ => {}
            }
            if kind == last || kind == b'Z' {
                return Ok((bytes.len() - rest.len(), true));
            }
        }
    }

    /// The answer to `sql`, once complete.
    fn said(self, sql: &str) -> Result<Option<String>, Fault> {
        match self.error {
            Some(error) => Err(Fault::new(format!("the server refused '{}': {error}", sql::excerpt(sql)))),
            None => Ok(self.first),
        }
    }
}

/// Takes any bytes as answers to queries for the server's counts, and compares each with the next.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(bytes: &[u8]) {
    let said = answers(bytes, Default::default, |(reader, answer): &mut (Reader, Answer), bytes| {
        let (used, is_over) = answer.take(reader, bytes, b'Z')?;
        Ok((used, is_over.then(|| std::mem::take(answer).said("SELECT 1"))))
    });
    let counts: Vec<Counts> =
        said.into_iter().filter_map(|said| Counts::parse(&said.ok()?.ok()?.unwrap_or_default()).ok()).collect();
    let (ledger, tally) = (Ledger::new(1), Tally { commits: 1000, connections: 1, ..Tally::new(1) });
    for pair in counts.windows(2) {
        let (check, lacks) = (commits(pair[0], pair[1], &ledger, &tally), lack(pair[0], pair[1], &tally));
        assert!(!check.passed || !lacks, "{pair:?}: {check:?}");
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

impl sql::Control for Control<'_> {
    type Counts = Counts;

    /// Writes rows by COPY.
    fn write_rows(&mut self, table: &str, columns: &[&str], rows: &mut Rows) -> Result<(), Fault> {
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

    fn counts(&mut self) -> Result<Counts, Fault> {
        let sql = "SELECT xact_commit || ' ' || deadlocks FROM pg_stat_database WHERE datname = current_database()";
        Counts::parse(&self.value(sql)?)
    }

    fn compare(&mut self, before: &Counts, ledger: &Ledger, tally: &Tally) -> Result<Verified, Fault> {
        let deadline = Instant::now() + COUNTS_WITHIN;
        let mut after = self.counts()?;
        while lack(*before, after, tally) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(100));
            after = self.counts()?;
        }
        let deadlocks = after.deadlocks.saturating_sub(before.deadlocks).to_string();
        Ok(Verified {
            checks: vec![commits(*before, after, ledger, tally)],
            facts: [("server.deadlocks".to_owned(), deadlocks)].into(),
        })
    }

    fn settings(&mut self) -> Result<BTreeMap<String, String>, Fault> {
        let mut settings = BTreeMap::from([("version".to_owned(), self.value("SHOW server_version")?)]);
        for name in SETTINGS {
            // A variant of PostgreSQL may not have all of them.
            if let Ok(value) = self.value(&format!("SHOW {name}")) {
                settings.insert((*name).to_owned(), value);
            }
        }
        Ok(settings)
    }
}

/// The server's own counts for our database.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    commits: u64,
    deadlocks: u64,
}

impl Counts {
    fn parse(text: &str) -> Result<Counts, Fault> {
        let numbers: Vec<u64> = text.split(' ').filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [commits, deadlocks] => Ok(Counts { commits, deadlocks }),
            _ => Err(Fault::new(format!("the server's counts are not understood: '{text}'"))),
        }
    }
}

/// Whether the server has not yet counted everything that was answered. Its counts may be any numbers.
fn lack(before: Counts, after: Counts, tally: &Tally) -> bool {
    after.commits.saturating_sub(before.commits) < tally.commits
}

/// The server must have committed at least what was answered. It also counts transactions that are not load: those for
/// logging in and preparing, our own queries, and its housekeeping.
fn commits(before: Counts, after: Counts, ledger: &Ledger, tally: &Tally) -> Check {
    let served = after.commits.saturating_sub(before.commits);
    let lost: u64 = ledger.sent.iter().zip(&ledger.answered).map(|(sent, answered)| sent - answered).sum();
    let slack = 200 + 4 * tally.connections + tally.commits / 50 + 2 * lost;
    Check {
        always: false,
        outcome: false,
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

    #[test]
    fn counts_at_the_end_of_all_numbers_are_compared() {
        let tally = Tally { commits: 1000, ..Tally::new(1) };
        let of = |text: &str| Counts::parse(text).unwrap();
        let (low, high) = (of("5 0"), of("18446744073709551615 0"));
        assert!(lack(high, high, &tally) && lack(high, low, &tally) && !lack(low, high, &tally));
        assert!(!commits(high, low, &Ledger::new(1), &tally).passed);
        assert!(Counts::parse("18446744073709551616 0").is_err());
    }

    fn commits_of(served: u64, ledger: &Ledger, tally: &Tally) -> Check {
        commits(
            Counts { commits: 5, ..Counts::default() },
            Counts { commits: 5 + served, ..Counts::default() },
            ledger,
            tally,
        )
    }
}
