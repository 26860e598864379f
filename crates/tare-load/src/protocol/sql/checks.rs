//! Checks the data set before and after a run.

use super::spec::{GrowthSpec, Options, VerifySpec};
use super::tally::{Tallies, Tally};
use crate::operation::{Ledger, Verified};
use std::collections::BTreeMap;
use tare_core::fault::Fault;
use tare_core::load::Check;

/// The beginning of a statement, for a message.
pub(crate) fn excerpt(sql: &str) -> String {
    let line: String = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= 100 { line } else { line.chars().take(97).chain("...".chars()).collect() }
}

/// A connection that can be asked.
pub(crate) trait Ask {
    /// The first column of the first row, as text; NULL and a missing row are both `NULL`.
    ///
    /// # Errors
    /// When the server refuses.
    fn value(&mut self, sql: &str) -> Result<String, Fault>;
}

/// Checks a data set that has just been made.
///
/// # Errors
/// When it is not as it should be.
pub(crate) fn made(ask: &mut impl Ask, verify: &VerifySpec) -> Result<Verified, Fault> {
    let mut verified = Verified::default();
    for (table, wanted) in &verify.rows {
        let found = ask.value(&format!("SELECT count(*) FROM {table}"))?;
        if found != wanted.to_string() {
            return Err(Fault::new(format!(
                "table {table} has {found} rows after the data set was made, not {wanted}"
            ))
            .remedy("see that 'populate' of the workload and 'rows' of its 'verify' agree"));
        }
        verified.facts.insert(format!("populated.{table}"), found);
    }
    for check in invariants(ask, verify)? {
        if !check.passed {
            return Err(Fault::new(format!(
                "'{}' does not hold after the data set was made: {}",
                check.name, check.detail
            ))
            .remedy("see that 'populate' of the workload and 'invariants' of its 'verify' agree"));
        }
    }
    Ok(verified)
}

fn invariants(ask: &mut impl Ask, verify: &VerifySpec) -> Result<Vec<Check>, Fault> {
    let mut checks = Vec::new();
    for invariant in &verify.invariants {
        let found = ask.value(&invariant.sql)?;
        let (name, wanted) = (invariant.name.clone(), &invariant.is);
        checks.push(Check {
            always: false,
            outcome: false,
            name,
            passed: found == *wanted,
            detail: format!("the server says {found}, right is {wanted}"),
        });
    }
    Ok(checks)
}

/// Whether the server has to be asked anything before and after a run.
pub(crate) fn asks(verify: &VerifySpec) -> bool {
    verify.server || !verify.invariants.is_empty() || !verify.growth.is_empty()
}

/// The current values of everything that grows.
///
/// # Errors
/// When the server refuses, or answers with something that is not a number.
pub(crate) fn sizes(ask: &mut impl Ask, verify: &VerifySpec) -> Result<Vec<i64>, Fault> {
    let mut sizes = Vec::new();
    for GrowthSpec { name, sql, .. } in &verify.growth {
        let found = ask.value(sql)?;
        let size = found.parse().map_err(|_| {
            Fault::new(format!("'{name}' is not a whole number but {found}"))
                .remedy("write a statement that gives one, such as SELECT count(*)")
        })?;
        sizes.push(size);
    }
    Ok(sizes)
}

/// Checks the data set after a run.
///
/// # Errors
/// When the server does not answer.
pub(crate) fn after(
    ask: &mut impl Ask,
    options: &Options,
    before: &[i64],
    ledger: &Ledger,
    tally: &Tally,
) -> Result<Vec<Check>, Fault> {
    let mut checks = invariants(ask, &options.verify)?;
    let now = sizes(ask, &options.verify)?;
    for ((growth, before), now) in options.verify.growth.iter().zip(before).zip(now) {
        let operations = options.operations.iter().enumerate();
        let numbers = operations.filter(|(_, operation)| growth.by.contains(&operation.name)).map(|(number, _)| number);
        let (mut done, mut lost) = (0, 0);
        for number in numbers {
            done += tally.completed[number];
            // What was sent and not answered may or may not have been done.
            lost += ledger.sent[number] - ledger.answered[number];
        }
        let grown = now - before;
        checks.push(Check {
            always: false,
            outcome: false,
            name: growth.name.clone(),
            passed: (i128::from(done)..=i128::from(done + lost)).contains(&i128::from(grown)),
            detail: format!("grown by {grown}; {done} operations were completed, {lost} were not answered"),
        });
    }
    Ok(checks)
}

/// The counts of the connections, for the record.
pub(crate) fn facts(options: &Options, tallies: &Tallies, tally: &Tally) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::from([
        ("client.transactions".to_owned(), tally.commits.to_string()),
        ("client.rollbacks".to_owned(), tally.rollbacks.to_string()),
        ("client.retries".to_owned(), tally.retries.to_string()),
        ("client.statements".to_owned(), tally.statements.to_string()),
    ]);
    for (operation, count) in options.operations.iter().zip(&tally.taken_back).filter(|(_, count)| **count > 0) {
        facts.insert(format!("client.{}.taken-back", operation.name), count.to_string());
    }
    for (code, count) in &tally.errors {
        facts.insert(format!("client.errors.{code}"), count.to_string());
    }
    facts.extend(tallies.first_error().map(|text| ("client.first-error".to_owned(), text)));
    facts
}
