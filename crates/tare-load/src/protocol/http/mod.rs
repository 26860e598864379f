//! HTTP/1.1 over kept-alive connections.

mod options;
mod reply;

use super::{Draw, Emit, Flight, Mix, Protocol, ProtocolRow, Reply, Step, Verified, options_of};
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
    drive: |plan: &LoadPlan, emit: &mut Emit<'_>| drive(&Http::new(options_of(plan)?, plan.endpoint), plan, emit),
};

/// One kind of operation.
struct Operation {
    name: String,
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
            request: text.into_bytes(),
            head: request.method == "HEAD",
            status: request.status,
            contains: request.contains.as_ref().map(|text| Needle::new(text.as_bytes())),
        }
    }
}

/// The protocol with its options.
struct Http {
    mix: Mix,
    operations: Vec<Operation>,
}

impl Http {
    fn new(options: Options, host: SocketAddr) -> Self {
        let mix = Mix::new(options.requests.iter().map(|request| request.weight));
        Http { mix, operations: options.requests.iter().map(|request| Operation::new(request, host)).collect() }
    }
}

impl Protocol for Http {
    type Stream = Parser;
    type Before = ();

    fn operations(&self) -> Vec<String> {
        self.operations.iter().map(|operation| operation.name.clone()).collect()
    }

    #[inline]
    fn request(&self, draw: &mut Draw, out: &mut Vec<u8>) -> Flight {
        let operation = self.mix.draw(draw);
        out.extend_from_slice(&self.operations[operation].request);
        Flight { start_ns: 0, token: 0, operation: operation as u16 }
    }

    fn stream(&self) -> Parser {
        Parser::default()
    }

    #[inline]
    fn feed(&self, stream: &mut Parser, flight: &Flight, bytes: &[u8]) -> Step {
        stream.feed(&self.operations[usize::from(flight.operation)], bytes)
    }

    fn closed(&self, stream: &mut Parser, flight: &Flight) -> Option<Reply> {
        stream.closed(&self.operations[usize::from(flight.operation)])
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
