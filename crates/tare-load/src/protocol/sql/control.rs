//! The connection for everything other than the load: the data set, the server's own counts, its settings.

use super::checks::{Ask as _, after, asks, facts, made, sizes};
use super::database::{Admission, Control as _, Database, Sql};
use super::rows::Rows;
use super::spec::PopulateSpec;
use super::tally::Tallies;
use crate::operation::{Greeting, Ledger, Link, Verified};
use std::sync::Arc;
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::load::LoadPlan;

/// How long a step of making the data set may take: indexes are built.
const MAKING: Duration = Duration::from_secs(900);
/// How long a query before or after a run may take: tables are counted.
const ASKING: Duration = Duration::from_secs(120);

/// Logs in over this connection, without preparing anything.
///
/// # Errors
/// When the server does not let us in, with its message.
pub(super) fn log_in<'a, D: Database>(sql: &Sql<D>, link: &'a mut Link) -> Result<D::Control<'a>, Fault> {
    // Errors here are reported directly, not among the load's errors.
    let tallies = Arc::new(Tallies::new(0));
    let mut session = sql.database.session(&sql.program, &tallies);
    let admission = Admission { login: &sql.login, statements: &[], tallies: &tallies };
    let (mut out, deadline) = (Vec::new(), link.deadline());
    sql.database.greet(&mut session, &sql.login, &mut out);
    loop {
        if !out.is_empty() {
            link.send(&out)?;
            out.clear();
        }
        let shake =
            |bytes: &[u8]| Ok((bytes.len(), Some(sql.database.shake(&mut session, admission, bytes, &mut out))));
        let shaken = link.receive_until(deadline, shake)?;
        match shaken {
            Ok(Greeting::Ready) => {
                if !out.is_empty() {
                    link.send(&out)?;
                }
                return Ok(D::control(session, link));
            }
            Ok(Greeting::Wait) => {}
            Err(failure) => {
                let words = tallies.first_error().unwrap_or_else(|| failure.name().into_owned());
                let (user, database) = (&sql.login.user, &sql.login.database);
                return Err(Fault::new(format!("user '{user}' was not let into database '{database}': {words}"))
                    .remedy(format!("see the workload's 'user', 'password' and 'database', and {}", D::ADMISSION)));
            }
        }
    }
}

/// Makes the data set and checks that it is there.
pub(super) fn populate<D: Database>(sql: &Sql<D>, plan: &LoadPlan) -> Result<Verified, Fault> {
    let mut link = Link::to(sql, plan.endpoint, MAKING)?;
    let mut control = log_in(sql, &mut link)?;
    for (number, step) in sql.options.populate.iter().enumerate() {
        match step {
            PopulateSpec::Sql(statement) => drop(control.value(statement)?),
            PopulateSpec::Rows { table, count, columns } => {
                let mut rows = Rows::new(&sql.options, number, *count, columns)?;
                let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
                control.write_rows(table, &names, &mut rows)?;
            }
        }
    }
    made(&mut control, &sql.options.verify)
}

/// What is kept from before a run.
#[derive(Debug, Default)]
pub(crate) struct Before<C> {
    server: C,
    sizes: Vec<i64>,
}

/// Reads the counts before a run.
pub(super) fn before<D: Database>(sql: &Sql<D>, plan: &LoadPlan) -> Result<Before<D::Counts>, Fault> {
    let verify = &sql.options.verify;
    if !asks(verify) {
        return Ok(Before::default());
    }
    let mut link = Link::to(sql, plan.endpoint, ASKING)?;
    let mut control = log_in(sql, &mut link)?;
    let sizes = sizes(&mut control, verify)?;
    let server = if verify.server { control.counts()? } else { D::Counts::default() };
    Ok(Before { server, sizes })
}

/// Compares the server's counts with what the client did, and checks the data set.
pub(super) fn verify<D: Database>(
    sql: &Sql<D>,
    plan: &LoadPlan,
    before: &Before<D::Counts>,
    ledger: &Ledger,
) -> Result<Verified, Fault> {
    let tally = sql.tallies.sum();
    let mut verified = Verified { facts: facts(&sql.options, &sql.tallies, &tally), ..Verified::default() };
    if !asks(&sql.options.verify) {
        return Ok(verified);
    }
    let mut link = Link::to(sql, plan.endpoint, ASKING)?;
    let mut control = log_in(sql, &mut link)?;
    verified.checks = after(&mut control, &sql.options, &before.sizes, ledger, &tally)?;
    if sql.options.verify.server {
        let compared = control.compare(&before.server, ledger, &tally)?;
        verified.checks.extend(compared.checks);
        verified.facts.extend(compared.facts);
    }
    let settings = control.settings()?.into_iter();
    verified.facts.extend(settings.map(|(name, value)| (format!("server.{name}"), value)));
    verified.facts.extend(sql.login.tls.iter().flat_map(|tls| tls.facts()));
    Ok(verified)
}
