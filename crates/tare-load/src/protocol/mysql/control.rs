//! The connection for everything other than the load: the data set, the server's own counts.

use super::session::Session;
use super::wire::{self, Reader};
use crate::operation::{Ledger, Link, Verified};
#[cfg(any(test, fuzzing))]
use crate::protocol::pieces::answers;
use crate::protocol::sql::{self, Ask, Message, Pipe, Rows, Tally};
use std::collections::BTreeMap;
use tare_core::fault::Fault;
use tare_core::load::Check;

/// The size of one INSERT in bytes: far below every server's max_allowed_packet.
const BATCH_BYTES: usize = 512 * 1024;
/// Settings that determine the server's speed and are worth a line in the record.
const SETTINGS: &[&str] = &[
    "innodb_buffer_pool_size",
    "innodb_flush_log_at_trx_commit",
    "innodb_doublewrite",
    "sync_binlog",
    "log_bin",
    "max_connections",
    "tx_isolation",
    "transaction_isolation",
];

/// A connection for single statements.
pub(super) struct Control<'a> {
    pipe: Pipe<'a>,
    reader: Reader,
    deprecate_eof: bool,
}

impl<'a> Control<'a> {
    /// For a connection whose greeting is over.
    pub(super) fn new(session: Session, link: &'a mut Link) -> Self {
        let (veil, deprecate_eof) = session.into_veil();
        Control { pipe: Pipe::new(link, veil), reader: Reader::default(), deprecate_eof }
    }

    /// Sends a statement and reads its whole answer: the columns of the first row, with NULL as "NULL".
    fn ask(&mut self, sql: &str) -> Result<Vec<String>, Fault> {
        let mut request = Vec::new();
        wire::command(&mut request, wire::QUERY, sql);
        self.pipe.send(&request)?;
        self.answer(sql)
    }

    fn answer(&mut self, sql: &str) -> Result<Vec<String>, Fault> {
        let Control { pipe, reader, deprecate_eof } = self;
        let mut answer = Answer::default();
        pipe.receive(|bytes| {
            let (used, is_over) = answer.take(reader, bytes, *deprecate_eof)?;
            Ok((used, is_over.then_some(())))
        })?;
        answer.said(sql)
    }

    /// One of the server's counters.
    fn counter(&mut self, name: &str) -> Result<u64, Fault> {
        let row = self.ask(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
        number_in(&row).ok_or_else(|| Fault::new(format!("the server has no counter '{name}'")))
    }
}

/// The answer to a statement, as far as it has come.
#[derive(Debug, Default)]
struct Answer {
    /// How many descriptions of columns are still to come; none before the first packet. The server may announce any
    /// number.
    left: Option<u64>,
    /// The columns of the first row.
    first: Option<Vec<String>>,
    error: Option<String>,
}

impl Answer {
    /// Takes bytes up to the end of the answer; returns how many, and whether the answer is complete.
    fn take(&mut self, reader: &mut Reader, bytes: &[u8], deprecate_eof: bool) -> Result<(usize, bool), Fault> {
        let mut rest = bytes;
        loop {
            let strange = |_| Fault::new("this is no answer of a MySQL server");
            let message = reader.next(&mut rest, |_| true).map_err(strange)?;
            let Some(Message { kind, body }) = message else { return Ok((bytes.len(), false)) };
            let is_over = match (self.left, kind) {
                (_, 0xff) => {
                    self.error = Some(wire::error(body).1);
                    true
                }
                (None, 0) => true,
                (None, _) => {
                    let count = wire::length(&mut { body });
                    self.left = count.map(|count| count.saturating_add(u64::from(!deprecate_eof)));
                    false
                }
                (Some(0), 0xfe) if body.len() < 9 => true,
                (Some(0), _) => {
                    self.first.get_or_insert_with(|| text_row(body));
                    false
                }
                (Some(more), _) => {
                    self.left = Some(more - 1);
                    false
                }
            };
            if is_over {
                reader.answered();
                return Ok((bytes.len() - rest.len(), true));
            }
        }
    }

    /// The answer to `sql`, once complete.
    fn said(self, sql: &str) -> Result<Vec<String>, Fault> {
        match self.error {
            Some(error) => Err(Fault::new(format!("the server refused '{}': {error}", sql::excerpt(sql)))),
            None => Ok(self.first.unwrap_or_default()),
        }
    }
}

/// A counter, from the row with its name and its value.
fn number_in(row: &[String]) -> Option<u64> {
    row.get(1).and_then(|value| value.parse().ok())
}

/// Takes any bytes as answers to queries for the server's counters, and compares each with the next.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(bytes: &[u8]) {
    let (ledger, tally) = (Ledger::new(1), Tally { statements: 30, control: 20, ..Tally::new(1) });
    for deprecate_eof in [false, true] {
        let said = answers(bytes, Default::default, |(reader, answer): &mut (Reader, Answer), bytes| {
            let (used, is_over) = answer.take(reader, bytes, deprecate_eof)?;
            Ok((used, is_over.then(|| std::mem::take(answer).said("SELECT 1"))))
        });
        let numbers: Vec<u64> = said.into_iter().filter_map(|said| number_in(&said.ok()?.ok()?)).collect();
        let of = |number: u64| Counts { executed: number, commits: number, deadlocks: Some(number) };
        for pair in numbers.windows(2) {
            counted(of(pair[0]), of(pair[1]), &ledger, &tally);
        }
    }
}

/// The columns of a text row.
fn text_row(mut body: &[u8]) -> Vec<String> {
    let mut columns = Vec::new();
    while let Some(first) = body.first() {
        if *first == 0xfb {
            body = &body[1..];
            columns.push("NULL".to_owned());
            continue;
        }
        let Some(text) = wire::counted(&mut body) else { break };
        columns.push(String::from_utf8_lossy(text).into_owned());
    }
    columns
}

/// Appends a value as a literal.
fn literal(value: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(text) = value else { return out.extend_from_slice(b"NULL") };
    out.push(b'\'');
    for byte in text {
        match byte {
            0 => out.extend_from_slice(b"\\0"),
            b'\'' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            byte => out.push(*byte),
        }
    }
    out.push(b'\'');
}

impl Ask for Control<'_> {
    fn value(&mut self, sql: &str) -> Result<String, Fault> {
        Ok(self.ask(sql)?.into_iter().next().unwrap_or_else(|| "NULL".to_owned()))
    }
}

impl sql::Control for Control<'_> {
    type Counts = Counts;

    /// Writes rows by INSERTs of many rows each.
    fn write_rows(&mut self, table: &str, columns: &[&str], rows: &mut Rows) -> Result<(), Fault> {
        let head = format!("INSERT INTO {table} ({}) VALUES ", columns.join(", "));
        let mut request = Vec::with_capacity(BATCH_BYTES + 4096);
        let mut more = true;
        while more {
            request.clear();
            let mut written = 0;
            wire::packet(&mut request, 0, |out| {
                out.push(wire::QUERY);
                out.extend_from_slice(head.as_bytes());
                while more && out.len() < BATCH_BYTES {
                    let from = out.len();
                    more = rows.next(|number, value| {
                        out.extend_from_slice(match (number, written) {
                            (0, 0) => b"(",
                            (0, _) => b",(",
                            _ => b",",
                        });
                        literal(value, out);
                    });
                    if out.len() > from {
                        out.push(b')');
                        written += 1;
                    }
                }
            });
            if written > 0 {
                self.pipe.send(&request)?;
                self.answer(&head)?;
            }
        }
        Ok(())
    }

    fn counts(&mut self) -> Result<Counts, Fault> {
        Ok(Counts {
            executed: self.counter("Com_stmt_execute")?,
            commits: self.counter("Com_commit")?,
            // Only MariaDB counts them.
            deadlocks: self.counter("Innodb_deadlocks").ok(),
        })
    }

    fn compare(&mut self, before: &Counts, ledger: &Ledger, tally: &Tally) -> Result<Verified, Fault> {
        let after = self.counts()?;
        let deadlocks = before.deadlocks.zip(after.deadlocks);
        let facts =
            deadlocks.map(|(before, after)| ("server.deadlocks".to_owned(), after.saturating_sub(before).to_string()));
        let checks = counted(*before, after, ledger, tally).into();
        Ok(Verified { checks, facts: facts.into_iter().collect() })
    }

    fn settings(&mut self) -> Result<BTreeMap<String, String>, Fault> {
        let mut settings = BTreeMap::from([("version".to_owned(), self.value("SELECT version()")?)]);
        for name in SETTINGS {
            // The variants of MySQL have different settings.
            if let Some(value) = self.ask(&format!("SHOW GLOBAL VARIABLES LIKE '{name}'"))?.into_iter().nth(1) {
                settings.insert((*name).to_owned(), value);
            }
        }
        Ok(settings)
    }
}

/// What the server itself counts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    executed: u64,
    commits: u64,
    deadlocks: Option<u64>,
}

/// The server must have done exactly what was answered, and possibly what was sent and not answered. A restarted server
/// counts from 0 again, so it has done too little.
fn counted(before: Counts, after: Counts, ledger: &Ledger, tally: &Tally) -> [Check; 2] {
    let lost: u64 = ledger.sent.iter().zip(&ledger.answered).map(|(sent, answered)| sent - answered).sum();
    let check = |name: &str, served: u64, ours: u64| Check {
        always: false,
        outcome: false,
        name: name.into(),
        passed: (ours..=ours + lost).contains(&served),
        detail: format!("the server counted {served}, the client {ours}; {lost} operations were not answered"),
    };
    [
        check("statements executed", after.executed.saturating_sub(before.executed), tally.statements - tally.control),
        check("transactions committed", after.commits.saturating_sub(before.commits), tally.commit_statements),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_quoted() {
        let mut out = Vec::new();
        literal(Some(b"it's \\ \0"), &mut out);
        literal(None, &mut out);
        assert_eq!(out, b"'it\\'s \\\\ \\0'NULL");
    }

    #[test]
    fn rows_in_text_are_read() {
        assert_eq!(text_row(b"\x02ab\xfb\x00\x01c"), ["ab", "NULL", "", "c"]);
        assert_eq!(text_row(b"\x09ab"), Vec::<String>::new());
    }

    #[test]
    fn a_server_may_announce_as_many_columns_as_there_are_numbers() {
        let (mut reader, mut answer) = (Reader::default(), Answer::default());
        let most = b"\x09\0\0\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff";
        assert_eq!(answer.take(&mut reader, most, false), Ok((most.len(), false)));
        assert_eq!(answer.take(&mut reader, b"\x03\0\0\x02\xff\x01\0", false), Ok((7, true)));
        assert!(answer.said("SELECT 1").is_err());
    }

    #[test]
    fn a_server_that_did_less_or_more_is_caught() {
        let mut ledger = Ledger::new(1);
        (ledger.sent[0], ledger.answered[0]) = (10, 9);
        let tally = Tally { statements: 30, control: 20, commit_statements: 10, ..Tally::new(1) };
        let passes = |executed, commits| {
            let after = Counts { executed, commits, deadlocks: None };
            counted(Counts::default(), after, &ledger, &tally).map(|check| check.passed)
        };
        assert_eq!(passes(10, 10), [true, true]);
        assert_eq!(passes(11, 11), [true, true]);
        assert_eq!(passes(9, 12), [false, false]);
        let restarted =
            counted(Counts { executed: 500, commits: 500, deadlocks: None }, Counts::default(), &ledger, &tally);
        assert!(restarted.iter().all(|check| !check.passed), "{restarted:?}");
    }
}
