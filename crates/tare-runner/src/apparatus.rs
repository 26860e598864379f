//! What the runner needs from the outside: opening forms and driving load.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tare_core::command::{CommandEnd, CommandStart};
use tare_core::fault::Fault;
use tare_core::form::Form;
use tare_core::host::{Host, OpenError, ServiceStart};
use tare_core::load::{LoadOrder, LoadPlan, LoadSummary, SecondRow, WindowRow};
use tare_core::record::Asker;
use tare_core::workload::Service;

/// Runs a command inside the loaded form for a load process, and returns its result.
pub type RunInside<'a> = dyn FnMut(&CommandStart) -> Result<CommandEnd, Fault> + Send + 'a;

/// A data set that services leave in their volumes.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    /// The services that create it, as deployed, but without each other's addresses. The same services create the same
    /// data.
    pub makers: Vec<Service>,
    /// The names of the services whose volumes hold it.
    pub holders: Vec<String>,
    /// The directories on this machine that hold it, in a fixed order.
    pub places: Vec<PathBuf>,
}

/// The result of restoring a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// A copy of it is in place.
    Whole,
    /// No copy is kept yet.
    Missing,
    /// No copy is kept, and none can be.
    Unkept,
}

/// The place of a form that is deployed beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its number, from 1 on.
    pub number: u8,
    /// Whether its services have ports that no other form uses, so that all forms may share this machine's network.
    pub own_ports: bool,
}

/// The outside world of a run.
pub trait Apparatus {
    /// Opens every layer of `form` for the trial called `label`, and returns the innermost host.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`] when this machine cannot have the form. On any error nothing is left open.
    fn open_form(&mut self, label: &str, form: &Form, services: &[ServiceStart]) -> Result<Box<dyn Host>, OpenError>;

    /// The same for a form that is deployed beside others, at `place`.
    ///
    /// # Errors
    /// See [`Apparatus::open_form`].
    fn open_beside(
        &mut self,
        label: &str,
        place: Place,
        form: &Form,
        services: &[ServiceStart],
    ) -> Result<Box<dyn Host>, OpenError> {
        let _ = place;
        self.open_form(label, form, services)
    }

    /// Replaces the content of a data set's directories by the kept copy.
    ///
    /// # Errors
    /// Why the copy was not restored. The directories are then empty.
    fn restore(&mut self, _data: &DataSet) -> Result<Restored, Fault> {
        Ok(Restored::Unkept)
    }

    /// Keeps the content of a data set's directories and empties them, even on an error. Call it when nothing writes to
    /// them any more.
    ///
    /// # Errors
    /// Why it was not kept; nothing of it is then left.
    fn keep(&mut self, _data: &DataSet) -> Result<(), Fault> {
        Err(Fault::new("this apparatus keeps no data sets"))
    }

    /// Removes the kept copy of a data set. That there is none is no error.
    ///
    /// # Errors
    /// Why it was not removed.
    fn forget(&mut self, _data: &DataSet) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether a deployment whose trial failed is kept standing, so that a person can look into it.
    fn keeps_failed(&self) -> bool {
        false
    }

    /// Waits until the deployments that are kept standing may go, or until `stop` is raised. An event has listed them
    /// before.
    fn hold(&mut self, _stop: &Stop) {}

    /// Whether a TCP connection from the generator's place is accepted now.
    fn reachable(&mut self, endpoint: SocketAddr) -> bool;

    /// Carries out a load plan and reports each second as it ends. `inside` runs the commands that the load needs
    /// inside the form. Returns early with a fault when `stop` is raised or `limit` has passed.
    ///
    /// # Errors
    /// Why the plan was not carried out.
    fn drive(
        &mut self,
        plan: &LoadPlan,
        limit: Duration,
        stop: &Stop,
        inside: &mut RunInside,
        each_second: &mut dyn FnMut(&SecondRow),
    ) -> Result<LoadSummary, Fault>;

    /// Carries out load plans at the same time, each in a process of its own. Seconds are reported with the number of
    /// their plan, from 0. Each plan has its own entry of `insides`, or none if that is shorter. Returns one outcome
    /// for each plan.
    fn drive_all(
        &mut self,
        plans: &[LoadPlan],
        _limit: Duration,
        _stop: &Stop,
        _insides: Vec<&mut RunInside>,
        _each_second: &mut dyn FnMut(usize, &SecondRow),
    ) -> Vec<Result<LoadSummary, Fault>> {
        let fault = || Fault::new("this apparatus cannot drive several loads at the same time");
        plans.iter().map(|_| Err(fault())).collect()
    }

    /// The same for a guided profile: `next` gives the first order, and another after each window, until it returns
    /// [`LoadOrder::End`].
    ///
    /// # Errors
    /// Why the plan was not carried out; always, if load cannot be guided.
    fn guide(
        &mut self,
        _plan: &LoadPlan,
        _limit: Duration,
        _stop: &Stop,
        _each_second: &mut dyn FnMut(&SecondRow),
        _next: &mut dyn FnMut(Option<&WindowRow>) -> LoadOrder,
    ) -> Result<LoadSummary, Fault> {
        Err(Fault::new("this apparatus cannot guide a load"))
    }
}

/// A flag that the user raises to end the run: the current trial is taken down, and no other is started. Or the user
/// asks for the end of the run after the block that is being measured.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Wanted>);

#[derive(Debug, Default)]
struct Wanted {
    at_once: AtomicBool,
    after_block: OnceLock<Asker>,
}

impl Stop {
    /// Ends the run.
    pub fn raise(&self) {
        self.0.at_once.store(true, Ordering::SeqCst);
    }

    /// Whether the run is to end.
    pub fn raised(&self) -> bool {
        self.0.at_once.load(Ordering::SeqCst)
    }

    /// Asks the run to end after its block. Returns whether nobody has asked before.
    pub fn end_after_block(&self, by: Asker) -> bool {
        self.0.after_block.set(by).is_ok()
    }

    /// Who has asked the run to end after its block, if anybody has.
    pub fn asked_by(&self) -> Option<&Asker> {
        self.0.after_block.get()
    }
}
