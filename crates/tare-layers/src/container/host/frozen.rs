//! Containers that are frozen in place: by the engine, or by whoever controls their control groups.

use super::{Inner, observe, run};
use crate::cgroup::freeze;
use tare_core::fault::Fault;
use tare_core::held::Held;

impl Inner {
    /// Has the engine pause all containers, or resume them.
    pub(super) fn pause(&mut self, paused: bool) -> Result<(), Fault> {
        freeze::thaw(&std::mem::take(&mut self.held))?;
        if self.frozen == paused {
            return Ok(());
        }
        for running in self.running.values() {
            if let Some(group) = &running.group {
                group.freeze(paused)?;
                continue;
            }
            run::pause(&self.engine, &running.container, paused)?;
        }
        self.frozen = paused;
        Ok(())
    }

    /// The group of each container, through which somebody else may freeze it.
    pub(super) fn hold(&mut self) -> Result<Vec<Held>, Fault> {
        let group = |instance: &String| {
            if let Some(group) = &self.known(instance)?.group {
                let directory = group.directories().first().cloned();
                return directory.map(Held::Group).ok_or_else(|| Fault::new(format!("'{instance}' has no group")));
            }
            let id = self.inspect(instance)?.id.unwrap_or_default();
            observe::own_group(self.pid(instance)?, &id).map(Held::Group).ok_or_else(|| {
                Fault::new(format!(
                    "the container of '{instance}' has no control group of its own, and cannot be frozen"
                ))
            })
        };
        self.held = self.running.keys().map(group).collect::<Result<_, Fault>>()?;
        Ok(self.held.clone())
    }
}
