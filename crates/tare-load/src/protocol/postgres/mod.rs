//! PostgreSQL and servers that use its protocol, version 3.

mod control;
mod scram;
mod session;
mod wire;

#[cfg(any(test, fuzzing))]
pub(crate) use {control::chew as chew_control, scram::chew as chew_scram};

use super::sql::{Admission, Around, Database, Dialect, Isolation, Login, Places, Program, Sql, Tallies};
use super::{ErasedProtocol, erased};
use crate::operation::{Failure, Greeting, Link, Step};
use control::{Control, Counts};
use scram::Salted;
use session::{Calls, Session};
use std::sync::Arc;

/// This protocol, for the list.
pub(super) const PROTOCOL: &dyn ErasedProtocol = erased::<Sql<Postgres>>();

const DIALECT: Dialect = Dialect {
    protocol: Postgres::NAME,
    places: Places::Numbered,
    together: true,
    user: "postgres",
    database: "postgres",
    begin,
    // serialization_failure, deadlock_detected
    passing: &["40001", "40P01"],
};

fn begin(isolation: Option<Isolation>) -> Vec<String> {
    vec![match isolation {
        Some(level) => format!("BEGIN ISOLATION LEVEL {}", level.sql()),
        None => "BEGIN".into(),
    }]
}

/// The protocol with options in their written form, for fuzzing.
#[cfg(any(test, fuzzing))]
pub(super) fn made(options: serde_json::Value) -> Result<impl crate::operation::Protocol, tare_core::fault::Fault> {
    super::sql::made::<Postgres>(options)
}

/// PostgreSQL as a database.
struct Postgres {
    calls: Calls,
    salted: Salted,
}

impl Database for Postgres {
    const NAME: &'static str = "postgres";
    const ABOUT: &'static str =
        "transactions of prepared statements on PostgreSQL, as scripts; checked against the server's own counts";
    type Session = Session;
    type Control<'a> = Control<'a>;
    type Counts = Counts;
    const DIALECT: &'static Dialect = &DIALECT;
    const ADMISSION: &'static str = "the server's pg_hba.conf";

    fn new(program: &Program) -> Self {
        Postgres { calls: Calls::new(program), salted: Salted::default() }
    }

    fn session(&self, program: &Program, tallies: &Arc<Tallies>) -> Session {
        Session::new(program, tallies)
    }

    fn greet(&self, session: &mut Session, login: &Login, out: &mut Vec<u8>) {
        session.greet(login, out);
    }

    fn shake(
        &self,
        session: &mut Session,
        admission: Admission<'_>,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Greeting, Failure> {
        session.shake(admission, &self.salted, bytes, out)
    }

    #[inline]
    fn begin(&self, session: &mut Session, operation: u16, around: Around<'_>) {
        session.begin(operation, &self.calls, around);
    }

    #[inline]
    fn feed(&self, session: &mut Session, bytes: &[u8], around: Around<'_>) -> Step {
        session.feed(bytes, &self.calls, around)
    }

    fn idle(session: &mut Session, bytes: &[u8], tallies: &Tallies, out: &mut Vec<u8>) -> Result<(), Failure> {
        session.idle(bytes, tallies, out)
    }

    fn control(session: Session, link: &mut Link) -> Control<'_> {
        Control::new(session, link)
    }
}
