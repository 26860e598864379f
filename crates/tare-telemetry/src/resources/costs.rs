//! What basic operations cost here: fixed arithmetic, a system call, an fsync.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Runs a chain of dependent multiplications for about `length`. Returns steps per second.
pub(crate) fn spin(length: Duration) -> f64 {
    let start = Instant::now();
    let mut steps = 0_u64;
    let mut value = black_box(1_u64);
    loop {
        for _ in 0..2000 {
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        steps += 2000;
        let passed = start.elapsed();
        if passed >= length {
            return steps as f64 / passed.as_secs_f64();
        }
    }
}

/// The fastest of three spins of 50 ms: the CPU's speed when nothing interrupts it.
pub(super) fn best_spin() -> f64 {
    (0..3).map(|_| spin(Duration::from_millis(50))).fold(0.0, f64::max)
}

/// The least time of a trivial system call, ns.
pub(super) fn system_call_ns() -> f64 {
    let batch = || {
        let start = Instant::now();
        for _ in 0..500 {
            black_box(rustix::process::getppid());
        }
        start.elapsed().as_secs_f64() * 1e9 / 500.0
    };
    (0..10).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

/// The median time of an fsync of 4 KiB in a directory, us; none if nothing can be written there.
pub(super) fn fsync_us(directory: &Path) -> Option<f64> {
    let path = directory.join(format!(".tare-fsync-{}", std::process::id()));
    let mut file = File::options().write(true).create_new(true).open(&path).ok()?;
    // Without a name from here on, so nothing is left behind, whatever happens.
    std::fs::remove_file(&path).ok()?;
    let until = Instant::now() + Duration::from_millis(150);
    let mut times = Vec::new();
    while times.len() < 5 && (times.is_empty() || Instant::now() < until) {
        file.write_all(&[0x5a; 4096]).ok()?;
        let start = Instant::now();
        file.sync_all().ok()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Some(times[times.len() / 2])
}

/// The directories that exist, one for each file system, in their order.
pub(super) fn one_of_each(directories: &[PathBuf]) -> Vec<&PathBuf> {
    let mut seen = Vec::new();
    let mut kept = Vec::new();
    for directory in directories {
        let Ok(metadata) = std::fs::metadata(directory) else { continue };
        if metadata.is_dir() && !seen.contains(&metadata.dev()) {
            seen.push(metadata.dev());
            kept.push(directory);
        }
    }
    kept
}
