//! How a person gets into running containers: by the engine's own commands.

use super::Inner;
use crate::local::ways_in::into_process;
use tare_core::host::WayIn;

/// How the container ended, and everything that it was made with.
const STATE: &str = "state";

impl Inner {
    /// Ways into a container; if it has ended, its output and what the engine knows about it.
    pub(super) fn ways_in(&self, instance: &str) -> Vec<WayIn> {
        let Ok(known) = self.known(instance) else { return Vec::new() };
        let (engine, container) = (self.engine.command_line(), &known.container);
        let shell = format!("{engine} exec -it {container} sh");
        let mut ways = match self.pid(instance) {
            // Its process on this machine is not the service's, and has other files.
            Ok(_) if self.runtime.sealed.is_some() => vec![WayIn::new(WayIn::SHELL, shell)],
            Ok(pid) => into_process(pid, Some(shell)),
            Err(_) => vec![WayIn::new(STATE, format!("{engine} inspect {container}"))],
        };
        ways.push(WayIn::new(WayIn::OUTPUT, format!("{engine} logs {container}")));
        ways
    }
}
