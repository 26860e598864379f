//! MySQL and servers that use its protocol, version 4.1: MariaDB, Percona.

mod auth;
mod control;
mod greeting;
mod session;
mod wire;

#[cfg(any(test, fuzzing))]
pub(crate) use control::chew as chew_control;

use super::sql::{Admission, Around, Database, Dialect, Isolation, Places, Program, Sql, Tallies};
use super::{ErasedProtocol, erased};
use crate::operation::{Failure, Greeting, Link, Step};
use control::{Control, Counts};
use session::Session;
use std::sync::Arc;

/// This protocol, for the list.
pub(super) const PROTOCOL: &dyn ErasedProtocol = erased::<Sql<MySql>>();

const DIALECT: Dialect = Dialect {
    protocol: MySql::NAME,
    places: Places::Marks,
    together: false,
    user: "root",
    database: "test",
    begin,
    // ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT
    passing: &["1213", "1205"],
};

fn begin(isolation: Option<Isolation>) -> Vec<String> {
    // The level applies to the next transaction only.
    let level = isolation.map(|level| format!("SET TRANSACTION ISOLATION LEVEL {}", level.sql()));
    level.into_iter().chain(["BEGIN".to_owned()]).collect()
}

/// The protocol with options in their written form, for fuzzing.
#[cfg(any(test, fuzzing))]
pub(super) fn made(options: serde_json::Value) -> Result<impl crate::operation::Protocol, tare_core::fault::Fault> {
    super::sql::made::<MySql>(options)
}

/// MySQL as a database. Statements have different ids on each connection, so nothing is shared.
struct MySql;

impl Database for MySql {
    const NAME: &'static str = "mysql";
    const ABOUT: &'static str =
        "transactions of prepared statements on MySQL or MariaDB, as scripts; checked against the server's own counts";
    type Session = Session;
    type Control<'a> = Control<'a>;
    type Counts = Counts;
    const DIALECT: &'static Dialect = &DIALECT;
    const ADMISSION: &'static str = "the server's grants";

    fn new(_program: &Program) -> Self {
        MySql
    }

    fn session(&self, program: &Program, tallies: &Arc<Tallies>) -> Session {
        Session::new(program, tallies)
    }

    fn shake(
        &self,
        session: &mut Session,
        admission: Admission<'_>,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Greeting, Failure> {
        session.shake(admission, bytes, out)
    }

    #[inline]
    fn begin(&self, session: &mut Session, operation: u16, around: Around<'_>) {
        session.begin(operation, around);
    }

    #[inline]
    fn feed(&self, session: &mut Session, bytes: &[u8], around: Around<'_>) -> Step {
        session.feed(bytes, around)
    }

    fn idle(session: &mut Session, bytes: &[u8], tallies: &Tallies, out: &mut Vec<u8>) -> Result<(), Failure> {
        session.idle(bytes, tallies, out)
    }

    fn control(session: Session, link: &mut Link) -> Control<'_> {
        Control::new(session, link)
    }
}
