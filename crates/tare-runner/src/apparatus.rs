//! What the runner needs done: forms opened, load driven.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tare_core::command::{CommandEnd, CommandStart};
use tare_core::fault::Fault;
use tare_core::form::Form;
use tare_core::host::{Host, OpenError, ServiceStart};
use tare_core::load::{LoadOrder, LoadPlan, LoadSummary, SecondRow, WindowRow};
use tare_core::workload::Service;

/// Runs a command inside the form that is loaded, for a load process that asks for it, and says how it went.
pub type RunInside<'a> = dyn FnMut(&CommandStart) -> Result<CommandEnd, Fault> + Send + 'a;

/// A data set that services leave in their volumes.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    /// The services that it takes to make it, as they are deployed, without the addresses of each other. The same
    /// services leave the same data.
    pub makers: Vec<Service>,
    /// The names of those of them whose volumes hold it.
    pub holders: Vec<String>,
    /// The directories on this machine that hold it, always in the same order.
    pub places: Vec<PathBuf>,
}

/// What came of restoring a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// A copy of it stands in its places.
    Whole,
    /// There is no copy of it yet.
    Missing,
    /// There is no copy of it, and none can be kept.
    Unkept,
}

/// Where a form stands beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// From 1 on.
    pub number: u8,
    /// Whether its services listen at ports that no other form's have, so that all may be on this machine's network.
    pub own_ports: bool,
}

/// The outside world, as far as a run needs it.
pub trait Apparatus {
    /// Opens every layer of `form` for the trial called `label`, and hands over the innermost host.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`] when this machine cannot have the form. On any error nothing is left open.
    fn open_form(&mut self, label: &str, form: &Form, services: &[ServiceStart]) -> Result<Box<dyn Host>, OpenError>;

    /// The same for a form that is to stand beside others, at `place`.
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

    /// Puts the kept copy of a data set into its places, in the stead of what stands there.
    ///
    /// # Errors
    /// Why a copy that is there was not restored. The places are then empty.
    fn restore(&mut self, _data: &DataSet) -> Result<Restored, Fault> {
        Ok(Restored::Unkept)
    }

    /// Keeps what stands in the places of a data set, and takes it away from there, whether it was kept or not. To be
    /// called when nothing writes to them any more.
    ///
    /// # Errors
    /// Why it was not kept; nothing of it is then left.
    fn keep(&mut self, _data: &DataSet) -> Result<(), Fault> {
        Err(Fault::new("this apparatus keeps no data sets"))
    }

    /// Removes the kept copy of a data set; one that is not there is no error.
    ///
    /// # Errors
    /// Why it was not removed.
    fn forget(&mut self, _data: &DataSet) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether a deployment whose trial failed is kept standing, for somebody to look into it.
    fn keeps_failed(&self) -> bool {
        false
    }

    /// Waits until what is kept standing may go, or until `stop` is raised. It is told what stands by an event before.
    fn hold(&mut self, _stop: &Stop) {}

    /// Whether a TCP connection from where the load comes from is accepted now.
    fn reachable(&mut self, endpoint: SocketAddr) -> bool;

    /// Carries out a load plan, reporting each second as it ends; what the load wants run inside the form, `inside`
    /// runs. Returns early, with a fault, when `stop` is raised or `limit` is over.
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

    /// Carries out load plans at the same moment, each by a process of its own. The seconds come with the number of
    /// their plan, from 0. A plan has its own inside, or none when `insides` is shorter. As many outcomes as plans.
    fn drive_all(
        &mut self,
        plans: &[LoadPlan],
        _limit: Duration,
        _stop: &Stop,
        _insides: Vec<&mut RunInside>,
        _each_second: &mut dyn FnMut(usize, &SecondRow),
    ) -> Vec<Result<LoadSummary, Fault>> {
        let fault = || Fault::new("this apparatus cannot drive several loads at the same moment");
        plans.iter().map(|_| Err(fault())).collect()
    }

    /// The same for a guided profile: `next` is asked for the first order, and for another after each window, until it
    /// says [`LoadOrder::End`].
    ///
    /// # Errors
    /// Why the plan was not carried out; always, where a load cannot be guided.
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

/// Raised when the user wants the run to end: the trial under way is taken down, nothing new is started.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks for the end.
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether the end was asked for.
    pub fn raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
