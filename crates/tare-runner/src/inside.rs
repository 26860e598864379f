//! Runs commands inside the form for the load process, which is outside of it.

use crate::Stop;
use std::time::Duration;
use tare_core::command::{CommandEnd, CommandStart};
use tare_core::fault::Fault;
use tare_core::host::Host;

/// How long to wait for a command before checking whether the user has stopped the run. Each wait may wake the guest.
const LOOK: Duration = Duration::from_millis(500);

/// Runs commands beside an instance, one after the other, each until it ends or the run is stopped.
pub(crate) fn inside<'a>(
    host: &'a mut dyn Host,
    instance: &'a str,
    stop: &'a Stop,
) -> impl FnMut(&CommandStart) -> Result<CommandEnd, Fault> + Send + 'a {
    move |command: &CommandStart| {
        host.begin_command(instance, command)?;
        loop {
            match host.await_command(instance, LOOK) {
                Ok(Some(end)) => return Ok(end),
                Ok(None) if stop.raised() => {
                    host.end_command(instance)?;
                    return Err(Fault::new("interrupted"));
                }
                Ok(None) => {}
                Err(fault) => {
                    // Report the first failure, not one of the clean-up.
                    let _ = host.end_command(instance);
                    return Err(fault);
                }
            }
        }
    }
}
