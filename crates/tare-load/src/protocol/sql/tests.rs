//! Scripts read, compiled and run against a server that exists only in the test.

use super::code::Code;
use super::dialect::Dialect;
use super::machine::{Context, Next, TransactionMachine, Wire};
use super::program::Program;
use super::read;
use super::spec::{Isolation, Options};
use super::tally::{Tallies, Tally};
use super::text::Places;
use crate::draw::Draw;
use crate::operation::{Failure, Reply};
use crate::script::{ValueRef, Values};
use std::ops::Range;
use std::sync::Arc;

const DIALECT: Dialect = Dialect {
    protocol: "test",
    places: Places::Numbered,
    together: true,
    user: "me",
    database: "mine",
    begin: |level: Option<Isolation>| {
        level.map(|l| format!("SET {}", l.sql())).into_iter().chain(["BEGIN".into()]).collect()
    },
    passing: &["40001"],
};

fn options(text: &str) -> Result<Options, Vec<String>> {
    crate::protocol::read_text(|node, problems| read::read(&DIALECT, node, problems), text)
}

/// One operation named `op` with this script and feeds, as flow sequences.
fn script(feeds: &str, steps: &str) -> String {
    format!("feeds: {{{feeds}}}\noperations:\n  op:\n    tries: 3\n    script:\n{}", indent(steps))
}

fn indent(steps: &str) -> String {
    steps.lines().map(|line| format!("      {line}\n")).collect()
}

/// Writes statements as text.
struct Plain;

impl Wire for Plain {
    fn write(&self, program: &Program, calls: Range<u32>, values: &Values, out: &mut Vec<u8>) {
        for number in calls {
            let call = program.call(number);
            out.extend_from_slice(program.statements[call.statement as usize].sql.as_bytes());
            for slot in program.parameters(call) {
                match values.get(*slot, program.feeds.texts()) {
                    ValueRef::Number(number) => out.extend_from_slice(format!(" {number}").as_bytes()),
                    ValueRef::Text(text) => {
                        out.push(b' ');
                        out.extend_from_slice(text);
                    }
                    ValueRef::Unset => out.extend_from_slice(b" NULL"),
                }
            }
            out.push(b'\n');
        }
    }

    fn nothing(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"nothing\n");
    }
}

/// The test server's answer to a statement.
enum Says {
    /// This many rows, the first of which has these columns.
    Rows(u64, &'static [&'static str]),
    Error(&'static str),
}

struct Ran {
    said: Vec<String>,
    reply: Reply,
    tally: Tally,
}

/// Runs one operation; `server` answers each statement.
fn run(text: &str, seed: u64, mut server: impl FnMut(&str) -> Says) -> Ran {
    let options = options(text).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let program = Program::compile(&options, &DIALECT).unwrap();
    let tallies = Arc::new(Tallies::new(1));
    let mut machine = TransactionMachine::new(&program, &tallies);
    let (mut values, mut draw, mut out) = (Values::new(&program.names), Draw::new(seed, 0), Vec::new());
    let (mut said, mut open) = (Vec::new(), false);
    let mut cx = Context { program: &program, wire: &Plain, values: &mut values, draw: &mut draw, out: &mut out };
    machine.begin(0, &mut cx);
    let reply = loop {
        let asked = String::from_utf8(std::mem::take(cx.out)).unwrap();
        assert!(!asked.is_empty(), "a machine that waits has asked");
        for statement in asked.lines() {
            said.push(statement.to_owned());
            match server(statement) {
                Says::Error(code) => {
                    machine.error(Code::new(code.as_bytes()), &program);
                    break;
                }
                Says::Rows(rows, columns) => {
                    open = (open || statement == "BEGIN") && !matches!(statement, "COMMIT" | "ROLLBACK");
                    let Some(call) = machine.call(&program) else { continue };
                    for (column, slot) in program.captures(call) {
                        match columns.get(usize::from(*column)) {
                            Some(text) => cx.values.text_mut(*slot).extend_from_slice(text.as_bytes()),
                            None => machine.unexpected(),
                        }
                    }
                    machine.complete(rows, rows, &mut cx);
                }
            }
        }
        match machine.ended(Some(open), &mut cx) {
            Next::Wait => {}
            Next::Done(reply) => break reply,
        }
    };
    drop(machine);
    Ran { said, reply, tally: tallies.sum() }
}

fn one(_: &str) -> Says {
    Says::Rows(1, &["7"])
}

#[test]
fn steps_run_in_order_with_captures_branches_and_loops() {
    let text = script(
        "k: {uniform: {from: 5, to: 5}}",
        "- begin\n\
         - set: {a: k * 2, name: {text: 'n-${a}'}}\n\
         - sql: SELECT x FROM t WHERE a = ${a} AND n = ${name} AND k = ${k}\n\
         \x20 capture: {x: 1, found: rows}\n\
         - if: {var: x, is: 7}\n\
         \x20 then: [{sql: 'SELECT ${found} + ${unheard}'}]\n\
         \x20 else: [{sql: SELECT never}]\n\
         - repeat: {times: x - 5, as: i, steps: [{set: {unheard: i}}, {sql: 'INSERT ${i}'}]}\n\
         - if: {var: name, text: n-10}\n\
         \x20 then: [commit, stop]\n\
         - sql: SELECT never\n",
    );
    let ran = run(&text, 1, one);
    let expected = [
        "BEGIN",
        "SELECT x FROM t WHERE a = $1 AND n = $2 AND k = $3 10 n-10 5",
        "SELECT $1 + $2 1 NULL",
        "INSERT $1 1",
        "INSERT $1 2",
        "COMMIT",
    ];
    assert_eq!((ran.said, ran.reply), (expected.map(str::to_owned).to_vec(), Reply::Right));
    assert_eq!((ran.tally.commits, ran.tally.statements, ran.tally.control), (1, 6, 2));
    assert_eq!((ran.tally.completed, ran.tally.taken_back), (vec![1], vec![0]));
}

#[test]
fn what_an_earlier_answer_left_does_not_pass_for_a_later_ones() {
    let text = script(
        "",
        "- sql: SELECT a\n  capture: {x: 1}\n- sql: SELECT none\n  capture: {x: 1}\n\
         - if: {var: x, empty: true}\n  then: [{sql: SELECT right}]\n",
    );
    let ran = run(&text, 1, |said| if said == "SELECT none" { Says::Rows(0, &["9"]) } else { one(said) });
    assert_eq!(ran.said, ["SELECT a", "SELECT none", "SELECT right"]);
}

#[test]
fn a_passing_error_begins_the_transaction_anew_with_what_was_drawn_before_it() {
    let text = script(
        "k: {uniform: {from: 1, to: 1000000}}",
        "- set: {a: k}\n- begin: {isolation: serializable}\n- set: {b: k}\n- sql: UPDATE ${a} ${b}\n- commit\n",
    );
    let mut failures = 2;
    let ran = run(&text, 3, |statement| match statement.starts_with("UPDATE") && failures > 0 {
        true => {
            failures -= 1;
            Says::Error("40001")
        }
        false => one(statement),
    });
    assert_eq!(ran.reply, Reply::Right);
    let updates: Vec<_> = ran.said.iter().filter(|said| said.starts_with("UPDATE")).collect();
    let part = |at: usize| updates.iter().map(|said| said.split(' ').nth(at).unwrap()).collect::<Vec<_>>();
    let (before, within) = (part(3), part(4));
    assert!(before[0] == before[1] && before[1] == before[2], "{updates:?}");
    assert!(within[0] != within[1] && within[1] != within[2], "{updates:?}");
    let words: Vec<_> = ran.said.iter().map(|said| said.split(' ').next().unwrap()).collect();
    assert_eq!(words[..8], ["SET", "BEGIN", "UPDATE", "ROLLBACK", "SET", "BEGIN", "UPDATE", "ROLLBACK"]);
    assert_eq!((ran.tally.retries, ran.tally.rollbacks, ran.tally.errors.len()), (2, 2, 1));
}

#[test]
fn tries_are_bounded_and_other_errors_are_not_tried_again() {
    let text = script("", "- begin\n- sql: UPDATE x\n- commit\n");
    let fails =
        |code: &'static str| run(&text, 1, move |said| if said == "UPDATE x" { Says::Error(code) } else { one(said) });
    let ran = fails("40001");
    assert_eq!((ran.reply, ran.tally.retries), (Reply::Wrong(Failure::Retries), 2));
    assert_eq!(ran.said, ["BEGIN", "UPDATE x", "ROLLBACK"].repeat(3));
    let ran = fails("23505");
    assert_eq!((ran.reply, ran.tally.retries), (Reply::Wrong(Failure::ErrorReply), 0));
    assert_eq!(ran.said, ["BEGIN", "UPDATE x", "ROLLBACK"]);
    assert_eq!(ran.tally.completed, [0]);
    // Outside a transaction there is nothing to roll back.
    let ran = run(&script("", "- sql: UPDATE x\n"), 1, |_| Says::Error("40001"));
    assert_eq!(ran.said, ["UPDATE x"; 3]);
}

#[test]
fn a_commit_that_fails_is_tried_again_from_the_beginning() {
    let mut commits = 0;
    let ran = run(&script("", "- begin\n- sql: UPDATE x\n- commit\n"), 1, |said| {
        commits += u64::from(said == "COMMIT");
        if said == "COMMIT" && commits == 1 { Says::Error("40001") } else { one(said) }
    });
    assert_eq!(ran.reply, Reply::Right);
    assert_eq!(ran.said.iter().filter(|said| *said == "BEGIN").count(), 2);
}

#[test]
fn what_was_not_expected_is_a_wrong_reply_and_taken_back() {
    for expect in ["expect: {rows: 2}", "expect: {affected: {at_most: 0}}", "capture: {a: 2}"] {
        let ran = run(&script("", &format!("- begin\n- sql: SELECT x\n  {expect}\n- commit\n")), 1, one);
        assert_eq!(ran.reply, Reply::Wrong(Failure::WrongReply), "{expect}");
        assert_eq!(ran.said, ["BEGIN", "SELECT x", "ROLLBACK"], "{expect}");
    }
}

#[test]
fn statements_sent_together_are_ended_together() {
    let text = script("", "- together: [{sql: SELECT a}, {sql: SELECT b, expect: {rows: 1}}, {sql: SELECT c}]\n");
    assert_eq!(run(&text, 1, one).reply, Reply::Right);
    let ran = run(&text, 1, |said| if said == "SELECT b" { Says::Error("23505") } else { one(said) });
    assert_eq!(ran.reply, Reply::Wrong(Failure::ErrorReply));
    assert_eq!(ran.said, ["SELECT a", "SELECT b"], "the rest is skipped by the server");
}

#[test]
fn a_share_of_transactions_is_taken_back() {
    let text = script("", "- begin\n- sql: UPDATE x\n- commit: {rollback: 25%}\n");
    let back = (0..400).filter(|seed| run(&text, *seed, one).tally.taken_back == [1]).count();
    // 100 expected, standard deviation 8.7.
    assert!((60..140).contains(&back), "{back}");
    let chance = script("", "- if: {chance: 100%}\n  then: [{sql: SELECT a}]\n  else: [{sql: SELECT b}]\n");
    assert_eq!(run(&chance, 1, one).said, ["SELECT a"]);
}

#[test]
fn a_way_past_every_statement_is_answered_all_the_same() {
    let ran = run(&script("", "- if: {chance: 0%}\n  then: [{sql: SELECT a}]\n"), 1, one);
    assert_eq!((ran.said, ran.reply), (vec!["nothing".to_owned()], Reply::Right));
}

#[test]
fn a_script_without_an_end_is_given_up() {
    let text = script(
        "",
        "- set: {n: 9000000000000000}\n- repeat: {times: n, steps: [{if: {var: n, is: 0}, then: [{sql: SELECT a}]}]}\n",
    );
    assert_eq!(run(&text, 1, one).reply, Reply::Wrong(Failure::WrongReply));
}

#[test]
fn a_transaction_left_open_is_a_wrong_reply() {
    let text = script("", "- begin\n- sql: SELECT a\n- if: {chance: 0%}\n  then: [commit]\n");
    let ran = run(&text, 1, one);
    assert_eq!(ran.reply, Reply::Wrong(Failure::WrongReply));
    assert_eq!(ran.said, ["BEGIN", "SELECT a", "ROLLBACK"]);
}

#[test]
fn every_mistake_has_its_place() {
    let text = "\
user: \"a\\n\"
operations:
  one:
    wieght: 3
    script:
    - sql: SELECT ${nobody}
    - sql: SELECT '${x}'
    - commit
    - slq: x
    - set: {a b: 1}
    - set: {a: 1 +}
    - if: {var: a}
      then: []
    - if: {var: a, is: 1, less: 2}
      then: []
    - repeat: {times: 2, steps: [{set: {a: 1}}]}
    - sql: SELECT $1
      expect: {row: 1}
      capture: {c: first}
    - if: {chance: 200%}
      then: [stop, strop]
  two: {script: []}
  three: {script: [begin, {sql: SELECT 1}]}
populate:
- {table: a-b, rows: 1, columns: {id: row}}
- {table: a, rows: 0, columns: {}}
verify:
  growth: [{name: x, sql: y, by: [oen]}]
";
    let found = options(text).unwrap_err();
    let expected = [
        (1, "printable ASCII"),
        (4, "did you mean 'weight'"),
        (6, "no variable or feed 'nobody'"),
        (7, "without quotes"),
        (8, "no 'begin'"),
        (9, "did you mean 'sql'"),
        (10, "cannot name a variable"),
        (11, "missing at the end"),
        (12, "says nothing"),
        (14, "compares more than once"),
        (16, "repeats nothing"),
        (17, "'${name}'"),
        (18, "did you mean 'rows'"),
        (19, "'rows', or 'affected'"),
        (20, "between 0% and 100%"),
        (21, "did you mean 'stop'"),
        (22, "asks the server for nothing"),
        (23, "never ended"),
        (25, "cannot name a table"),
        (26, "out of range"),
        (26, "at least one column"),
        (28, "did you mean 'one'"),
    ];
    for (line, text) in expected {
        let place = format!("workload.yaml:{line}:");
        assert!(found.iter().any(|f| f.contains(&place) && f.contains(text)), "{line} {text}: {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    assert!(options("{}").unwrap_err()[0].contains("no 'operations'"));
    assert!(options("operations: {}").unwrap_err()[0].contains("1 to 1000"));
}

#[test]
fn options_survive_being_written_down() {
    let text =
        script("k: {zipf: {from: 1, to: 9, theta: 0.5}}", "- sql: SELECT ${k}\n  expect: {rows: {at_least: 1}}\n");
    let read = options(&text).unwrap();
    assert_eq!((read.user.as_str(), read.database.as_str(), read.operations[0].tries), ("me", "mine", 3));
    assert!(read.verify.server);
    let again: Options = serde_json::from_value(serde_json::to_value(&read).unwrap()).unwrap();
    assert_eq!(read, again);
}
