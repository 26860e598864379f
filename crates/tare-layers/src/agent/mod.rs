//! A host over a byte stream: every call of [`tare_core::host::Host`] is one line of JSON out and one back.
//!
//! [`AgentHost`] is the near end and [`serve`] the far one; [`run_guest`] runs the far end as the first process of a
//! guest. Opening a layer is forwarded like any other call: the far end opens it with the same code on its own host. So
//! a container in a guest needs no code that knows about both.
//!
//! On another machine the far end is [`serve_machine`], which is asked about the machine itself.

mod client;
mod guest;
mod machine;
mod serve;
mod wire;

pub use client::{AgentHost, NoPeer, Peer};
pub use guest::{GuestDisk, GuestPlan, PlacedStore, run_guest};
pub use machine::{ClockReading, MachineFacts, VerbEnd, is_piped, serve_machine};
pub use serve::serve;
#[cfg(any(test, fuzzing))]
pub(crate) use wire::chew;

pub(crate) use guest::{GUEST_HELLO, GUEST_SAYS, PORT_NAME};
pub(crate) use machine::{PROGRAM, digest_of};
