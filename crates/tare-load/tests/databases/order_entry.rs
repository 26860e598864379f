//! The workload `order-entry` against a real PostgreSQL: its functions, its conditions, and its load.

use super::postgres::{programs, server};
use super::{Server, populate_and_run};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The smallest data for which every condition holds: one area, two buyers, 2,100 purchases that are delivered and two
/// that are not.
const SMALL: &str = "\
INSERT INTO depots VALUES (1, 'd', 's', 's', 'c', 'ab', '1', 0.1, 20);
INSERT INTO areas VALUES (1, 1, 'a', 's', 's', 'c', 'ab', '1', 0.1, 20, 2103);
INSERT INTO buyers SELECT 1, 1, n, 'f', 'OE', 'l', 's', 's', 'c', 'ab', '1', '1', now(), 'GC', 50000, 0.1, -10, 10, 1, 0, ''
    FROM generate_series(1, 2) AS n;
INSERT INTO receipts SELECT 1, 1, 1, 1, n, now(), 10, 'r' FROM generate_series(1, 2) AS n;
INSERT INTO purchases SELECT 1, 1, n, n % 2 + 1, now(), CASE WHEN n <= 2100 THEN 1 END, 5, true
    FROM generate_series(1, 2102) AS n;
INSERT INTO pending SELECT 1, 1, n FROM generate_series(2101, 2102) AS n;
INSERT INTO purchase_lines SELECT 1, 1, n, l, 1, 1, CASE WHEN n <= 2100 THEN now() END, 5,
    CASE WHEN n <= 2100 THEN 0 ELSE 7 END, 'm' FROM generate_series(1, 2102) AS n, generate_series(1, 5) AS l;
INSERT INTO articles SELECT n, 1, 'n', 2.5, 't' FROM generate_series(1, 2) AS n;
INSERT INTO shelves SELECT 1, n, 12, 'm', 0, 0, 0, 't' FROM generate_series(1, 2) AS n;
";

/// What breaks each condition, by its number; the last one stands for the shares.
const BREAKS: [&str; 13] = [
    "UPDATE depots SET turnover = turnover + 1",
    "UPDATE areas SET next_purchase = next_purchase + 1",
    "INSERT INTO pending VALUES (1, 1, 2000)",
    "UPDATE purchases SET lines = lines + 1 WHERE purchase = 1",
    "DELETE FROM pending WHERE purchase = 2101",
    "UPDATE purchase_lines SET purchase = 2, line = 6 WHERE purchase = 1 AND line = 5",
    "UPDATE purchase_lines SET delivered = NULL WHERE purchase = 1 AND line = 1",
    "DELETE FROM receipts WHERE buyer = 1",
    "UPDATE areas SET turnover = turnover + 1",
    "UPDATE buyers SET balance = balance + 1, paid = paid - 1 WHERE buyer = 1",
    "UPDATE buyers SET deliveries = deliveries + 1 WHERE buyer = 1",
    "UPDATE buyers SET paid = paid + 1 WHERE buyer = 1",
    "INSERT INTO purchases SELECT 1, 1, n, 1, now(), 1, 15, true FROM generate_series(3001, 3100) AS n",
];

/// One of each transaction on the small data, and what is answered.
const TRANSACTIONS: [(&str, &str); 6] = [
    ("SELECT made, owed, stocks FROM place_order(1, 1, 1, 2, '{1,2,9}', '{1,1,1}', '{5,1,1}')", "2103|16.20|{98,11}"),
    ("SELECT done, skipped FROM deliver(1, 3)", "{2101}|9"),
    ("SELECT payer, payer_balance FROM take_payment(1, 1, 1, 1, NULL, 'l', 5.00)", "1|-15.00"),
    ("SELECT seen, last_purchase FROM last_order(1, 1, 1, NULL)", "1|2103"),
    ("SELECT short_articles(1, 1, 20)", "1"),
    // The client rolls this back.
    ("SELECT made IS NULL FROM place_order(1, 1, 1, 2, '{1,9}', '{1,1}', '{1,1}')", "t"),
];

fn workload() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/order-entry")
}

/// The server's own client, which ends at the first error.
fn client(server: &Server) -> Command {
    let mut client = Command::new(programs().unwrap().join("psql"));
    client.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "tare", "-d", "postgres", "-p"]);
    client.arg(server.port.to_string()).env("PGPASSWORD", "tare").stdin(Stdio::null());
    client
}

fn printed(mut client: Command) -> String {
    let output = client.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Runs files of the workload in one transaction, as its loader does.
fn run_files(server: &Server, files: &[&str]) {
    let mut client = client(server);
    client.args(["-v", "warehouses=1", "--single-transaction"]);
    for file in files {
        client.arg("-f").arg(workload().join(file));
    }
    printed(client);
}

/// What these statements print, one after the other in a transaction that is taken back.
fn tried(server: &Server, statements: &[&str]) -> String {
    let mut client = client(server);
    client.args(["-c", "BEGIN"]);
    for statement in statements {
        client.arg("-c").arg(statement);
    }
    client.args(["-c", "ROLLBACK"]);
    printed(client)
}

/// A query for the numbers of the conditions that do not hold, or `none`.
fn violated() -> String {
    let views = (1..=12).map(|number| format!("condition_{number:02}")).chain(["odd_shares".to_owned()]);
    let counts: Vec<String> =
        views.zip(1..).map(|(view, number)| format!("SELECT {number}, (SELECT count(*) FROM {view})")).collect();
    let found = counts.join(" UNION ALL ");
    format!(
        "SELECT coalesce(string_agg(number::text, ' ' ORDER BY number), 'none') \
         FROM ({found}) AS found (number, violations) WHERE violations > 0"
    )
}

#[test]
fn every_condition_can_fail_and_transactions_keep_all() {
    let Some(server) = server() else { return };
    run_files(&server, &["tables.sql", "indices.sql", "transactions.sql", "conditions.sql"]);
    let mut client = client(&server);
    client.args(["-c", SMALL]);
    printed(client);
    let violated = violated();
    assert_eq!(tried(&server, &[&violated]), "none");
    for (number, statement) in (1..).zip(BREAKS) {
        let told = tried(&server, &[statement, &violated]);
        assert!(told.split(' ').any(|found| found == number.to_string()), "{statement}: {told}");
    }
    let kept = TRANSACTIONS.len() - 1;
    let mut statements: Vec<&str> = TRANSACTIONS.iter().map(|(statement, _)| *statement).collect();
    statements.insert(kept, &violated);
    let mut expected: Vec<&str> = TRANSACTIONS.iter().map(|(_, answer)| *answer).collect();
    expected.insert(kept, "none");
    assert_eq!(tried(&server, &statements).lines().collect::<Vec<_>>(), expected);
}

/// The options of the protocol, as a file of the workload states them for one warehouse.
fn stated(file: &str) -> String {
    let text = std::fs::read_to_string(workload().join(file)).unwrap();
    let lines = text.lines().skip_while(|line| *line != "    postgres:").skip(1);
    let options: String =
        lines.take_while(|line| line.starts_with("      ")).map(|line| format!("{}\n", &line[6..])).collect();
    let parameters = [("warehouses", "1"), ("c_name", "203"), ("c_buyer", "541"), ("c_article", "4099")];
    parameters.iter().fold(options, |text, (name, value)| text.replace(&format!("${{{{{name}}}}}"), value))
}

/// Half a minute: the data of a warehouse are made as the loader makes them, and asked by both variants. Nothing else
/// runs the generator of the data and the scripts of the load.
#[test]
fn the_load_keeps_the_conditions() {
    if std::env::var_os("TARE_THOROUGH").is_none() {
        return println!("skipped: TARE_THOROUGH is not set, as ./test --thorough NAME does");
    }
    let Some(server) = server() else { return };
    run_files(&server, &["tables.sql", "data.sql", "indices.sql", "transactions.sql", "conditions.sql"]);
    let mut client = client(&server);
    client.args(["-c", "VACUUM (FREEZE, ANALYZE)"]);
    printed(client);
    for file in ["workload.yaml", "statements.yaml"] {
        let summary = populate_and_run("postgres", &stated(file), &server);
        assert!(summary.failures.is_empty(), "{file}: {summary:#?}");
        for operation in ["new-order", "payment"] {
            assert!(summary.operations[operation].count > 0, "{file}: {summary:#?}");
        }
    }
}
