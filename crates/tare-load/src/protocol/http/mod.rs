//! HTTP/1.1 over kept-alive connections.

mod options;
mod reply;

use super::{Draw, Emit, Flight, OperationRow, Protocol, ProtocolRow, Reply, Step, Verified, options_of};
use crate::engine::{Ledger, drive};
use crate::search::Needle;
use options::{Options, Request};
use reply::Parser;
use std::net::SocketAddr;
use tare_core::fault::Fault;
use tare_core::load::LoadPlan;

/// The row of this protocol.
pub(super) const ROW: ProtocolRow = ProtocolRow {
    name: "http",
    about: "HTTP/1.1 requests over kept-alive connections, drawn by weight; status and body are checked",
    options: options::read,
    operations: |options| {
        let options = serde_json::from_value(options.clone());
        options.map_or(Vec::new(), |o: Options| o.requests.into_iter().map(|request| request.name).collect())
    },
    drive: |plan: &LoadPlan, emit: &mut Emit<'_>| drive(&Http::new(options_of(plan)?, plan.endpoint), plan, emit),
};

/// One kind of operation.
struct Operation {
    name: String,
    weight: u64,
    request: Vec<u8>,
    /// A reply to HEAD has no body, whatever its length says.
    head: bool,
    status: u16,
    contains: Option<Needle>,
}

impl Operation {
    fn new(request: &Request, host: SocketAddr) -> Self {
        let mut text = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
        if !request.headers.keys().any(|name| name.eq_ignore_ascii_case("host")) {
            text.push_str(&format!("Host: {host}\r\n"));
        }
        request.headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
        if !request.body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") {
            text.push_str(&format!("Content-Length: {}\r\n", request.body.len()));
        }
        text.push_str("\r\n");
        text.push_str(&request.body);
        Operation {
            name: request.name.clone(),
            weight: request.weight,
            request: text.into_bytes(),
            head: request.method == "HEAD",
            status: request.status,
            contains: request.contains.as_ref().map(|text| Needle::new(text.as_bytes())),
        }
    }
}

/// The protocol with its options.
struct Http {
    operations: Vec<Operation>,
}

impl Http {
    fn new(options: Options, host: SocketAddr) -> Self {
        Http { operations: options.requests.iter().map(|request| Operation::new(request, host)).collect() }
    }
}

impl Protocol for Http {
    type Session = Parser;
    type User = ();
    type Before = ();
    const PIPELINES: bool = true;

    fn operations(&self) -> Vec<OperationRow> {
        let row = |operation: &Operation| OperationRow { name: operation.name.clone(), weight: operation.weight };
        self.operations.iter().map(row).collect()
    }

    fn session(&self) -> Parser {
        Parser::default()
    }

    fn user(&self, _number: u64) {}

    #[inline]
    fn begin(&self, _: &mut Parser, _user: &mut (), operation: u16, _draw: &mut Draw, out: &mut Vec<u8>) -> u64 {
        out.extend_from_slice(&self.operations[usize::from(operation)].request);
        0
    }

    #[inline]
    fn feed(
        &self,
        session: &mut Parser,
        _user: &mut (),
        flight: &Flight,
        bytes: &[u8],
        _draw: &mut Draw,
        _out: &mut Vec<u8>,
    ) -> Step {
        session.feed(&self.operations[usize::from(flight.operation)], bytes)
    }

    fn closed(&self, session: &mut Parser, _user: &mut (), flight: &Flight) -> Option<Reply> {
        session.closed(&self.operations[usize::from(flight.operation)])
    }

    fn populate(&self, _plan: &LoadPlan) -> Result<Verified, Fault> {
        Ok(Verified::default())
    }

    fn before(&self, _plan: &LoadPlan) -> Result<(), Fault> {
        Ok(())
    }

    fn verify(&self, _plan: &LoadPlan, _before: &(), _ledger: &Ledger) -> Result<Verified, Fault> {
        Ok(Verified::default())
    }
}
