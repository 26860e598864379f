//! The other side of a running task: where its lines go, and where its orders come from.

use super::turns::Seat;
use std::sync::mpsc::Receiver;
use tare_core::command::{CommandEnd, CommandStart};
use tare_core::fault::Fault;
use tare_core::load::{LoadLine, LoadOrder};

/// Where a running task's lines go, and where its orders come from.
pub struct Emit<'a> {
    write: &'a mut dyn FnMut(LoadLine) -> Result<(), Fault>,
    orders: Option<Receiver<LoadOrder>>,
    seat: Option<Seat>,
}

impl<'a> Emit<'a> {
    /// Lines go to `write`; `orders` carries the orders for the load.
    pub(crate) fn new(
        write: &'a mut dyn FnMut(LoadLine) -> Result<(), Fault>,
        orders: Option<Receiver<LoadOrder>>,
    ) -> Self {
        Emit { write, orders, seat: None }
    }

    /// Adds the seat of a load that takes turns with others.
    pub(crate) fn seated(self, seat: Seat) -> Self {
        Emit { seat: Some(seat), ..self }
    }

    /// Whether the load takes turns with others and has not taken its seat yet.
    pub(crate) fn takes_turns(&self) -> bool {
        self.seat.is_some()
    }

    /// The seat of a load that takes turns with others; none from the second call on.
    pub(crate) fn seat(&mut self) -> Option<Seat> {
        self.seat.take()
    }

    /// Writes a line.
    ///
    /// # Errors
    /// If the lines have no reader any more.
    pub fn line(&mut self, line: LoadLine) -> Result<(), Fault> {
        (self.write)(line)
    }

    /// Has a command run inside the form and waits for its result.
    ///
    /// # Errors
    /// When the command was not run, or nothing can run it.
    pub fn inside(&mut self, command: CommandStart) -> Result<CommandEnd, Fault> {
        self.line(LoadLine::Inside(Box::new(command)))?;
        match self.orders.as_ref().map(Receiver::recv) {
            Some(Ok(LoadOrder::Ran(went))) => *went,
            Some(Ok(LoadOrder::End)) => Err(Fault::new("interrupted")),
            Some(Ok(LoadOrder::Hold(_)) | Err(_)) | None => {
                Err(Fault::new("whoever started this load process did not run a command inside the form for it"))
            }
        }
    }

    /// Where a guided load's orders come from; none from the second call on.
    pub(crate) fn orders(&mut self) -> Option<Receiver<LoadOrder>> {
        self.orders.take()
    }
}
