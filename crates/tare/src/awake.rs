//! Keeps CPUs out of deep idle states during a run, if its study says so.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use tare_core::design::Idle;
use tare_core::fault::Fault;

/// Tells the kernel how long a CPU may take to wake: us, as a 32-bit number. The limit holds while the file is open, so
/// it ends with this process in any case.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// Keeps every CPU in its shallowest idle state until it is dropped.
pub(crate) struct Awake {
    _held: File,
}

impl Awake {
    /// What the study asks for; none if CPUs may idle as usual.
    ///
    /// # Errors
    /// When the kernel does not accept the limit.
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
            let text = format!("keep CPUs out of deep idle states by {}", file.display());
            Fault::from_error(&text, &error).remedy("omit 'idle' from the study")
        })?;
        Ok(Awake { _held: held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gets_a_latency_limit_of_zero() {
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
