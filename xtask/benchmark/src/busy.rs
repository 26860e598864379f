//! Work of others that comes and goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Loops on all CPUs that are busy for half of each period and asleep for the other; they end when it is dropped.
pub(crate) struct Busy {
    stop: Arc<AtomicBool>,
    loops: Vec<JoinHandle<()>>,
}

impl Busy {
    /// Begins them; a period takes `1 / hertz` seconds.
    pub(crate) fn begin(hertz: f64) -> Busy {
        let (stop, half) = (Arc::new(AtomicBool::new(false)), Duration::from_secs_f64(0.5 / hertz));
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let begin = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let until = Instant::now() + half;
                    while Instant::now() < until && !stop.load(Ordering::Relaxed) {}
                    std::thread::sleep(half);
                }
            })
        };
        Busy { loops: (0..cpus).map(begin).collect(), stop: Arc::clone(&stop) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for each in self.loops.drain(..) {
            // It cannot panic.
            let _ = each.join();
        }
    }
}
