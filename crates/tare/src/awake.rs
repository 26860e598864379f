//! CPUs that are kept from deep idle states while a run is under way, where its study says so.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use tare_core::design::Idle;
use tare_core::fault::Fault;

/// Where the kernel is told how long a CPU may take to wake: us, as a number of 32 bits. It holds for as long as the
/// file is open, so it ends with this process, however that ends.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// Keeps every CPU in its shallowest idle state until it is dropped.
pub(crate) struct Awake {
    _held: File,
}

impl Awake {
    /// As the study wants it; none where CPUs rest as they do anyway.
    ///
    /// # Errors
    /// When the kernel cannot be told.
    pub(crate) fn as_asked(idle: Idle) -> Result<Option<Awake>, Fault> {
        match idle {
            Idle::Any => Ok(None),
            Idle::Shallow => Awake::by(Path::new(LATENCY)).map(Some),
        }
    }

    fn by(file: &Path) -> Result<Awake, Fault> {
        let hold = || -> io::Result<File> {
            let mut held = OpenOptions::new().write(true).open(file)?;
            held.write_all(&0_i32.to_ne_bytes())?;
            Ok(held)
        };
        let held = hold().map_err(|error| {
            let text = format!("keep CPUs from deep idle states by {}", file.display());
            Fault::from_error(&text, &error).remedy("leave 'idle' out of the study")
        })?;
        Ok(Awake { _held: held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_that_waking_may_take_no_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("latency");
        let refused = Awake::by(&file).err().expect("there is no such device").to_string();
        assert!(refused.contains("deep idle states") && refused.contains("latency"), "{refused}");
        std::fs::write(&file, "").unwrap();
        let held = Awake::by(&file).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), [0; 4]);
        drop(held);
        assert!(Awake::as_asked(Idle::Any).unwrap().is_none());
    }
}
