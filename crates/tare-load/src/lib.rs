//! The load: carries out plans against an endpoint, in a process of its own.
//!
//! [`serve`] is that process's whole life: it reads one [`LoadPlan`](tare_core::load::LoadPlan) as JSON from its
//! standard input and writes [`LoadLine`](tare_core::load::LoadLine)s to its standard output. The engine that keeps
//! connections busy, measures and counts is shared by the protocols.
//!
//! **Protocols.** [`serve`] takes a list of them. [`PROTOCOLS`] are those of this crate, each a folder under
//! `protocol/`. A protocol of another crate implements [`LoadProtocol`], passes an implementation of
//! [`operation::Protocol`] to [`drive`], and is put into the list by [`erased`]. `tests/echo.rs` is a complete one.
//!
//! **Architecture invariant:** nothing here knows a deployment form, a workload or the runner. A plain operation (one
//! request, one reply, nothing captured) takes two system calls (send, receive) and one reading of the clock, and
//! allocates nothing once the buffers have reached their size.

mod clock;
mod draw;
mod endpoint;
mod engine;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod greeting;
mod hdr_log;
mod histogram;
pub mod operation;
pub mod page;
mod peer;
mod profile;
mod protocol;
mod resolve;
mod script;
mod search;
mod serve;

pub use draw::Draw;
pub use endpoint::is_own as is_own_address;
pub use engine::{Emit, drive, serve_freezer};
pub use peer::{Peer, PeerOptions, serve_peer};
pub use protocol::{ErasedProtocol, LoadProtocol, PROTOCOLS, erased, known_tools, protocol_named};
pub use resolve::address_of;
pub use script::{Slot, ValueRef};
pub use serve::{serve, serve_confined};
