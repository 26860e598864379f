//! How steady this machine is: repeats the same work and compares the results.

use crate::resources::costs::spin;
use crate::root::Root;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use tare_clock::process_cpu_ns;

/// What the noise test found. Shares are fractions of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoiseReport {
    /// Arithmetic on one CPU; none if the time was too short.
    pub spin: Option<Spread>,
    /// A byte sent back and forth over the loopback; none if there is no loopback.
    pub loopback: Option<Spread>,
    /// The share of CPU time in which a hypervisor ran something else; none if the kernel does not say.
    pub steal: Option<f64>,
    /// The share of CPU time that other processes used meanwhile; none if the kernel does not say.
    pub others: Option<f64>,
    /// Whether studies on this machine can be expected to resolve differences of a few per cent.
    pub quiet: bool,
    /// All of it in words.
    pub verdict: String,
}

/// How much equal windows differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The number of windows.
    pub windows: usize,
    /// The rate in the median window, per second.
    pub median_per_s: f64,
    /// 1.4826 times the median absolute deviation over the median: the coefficient of variation of a normal
    /// distribution, but robust against single outliers.
    pub relative: f64,
    /// The share of windows that did less than 0.9 of the median.
    pub slow_windows: f64,
    /// The relative difference between the medians of even and odd windows: what an A/A comparison would find.
    pub a_to_a: f64,
}

const WINDOW: Duration = Duration::from_millis(50);

impl Spread {
    /// The spread of windows; none if there are fewer than four.
    pub fn of(windows: &[f64]) -> Option<Spread> {
        if windows.len() < 4 {
            return None;
        }
        let middle = median(windows.to_vec());
        let deviations = windows.iter().map(|value| (value - middle).abs()).collect();
        let every_other = |first: usize| median(windows.iter().skip(first).step_by(2).copied().collect());
        let slow = windows.iter().filter(|value| **value < 0.9 * middle).count();
        Some(Spread {
            windows: windows.len(),
            median_per_s: middle,
            relative: 1.4826 * median(deviations) / middle,
            slow_windows: slow as f64 / windows.len() as f64,
            a_to_a: (every_other(0) / every_other(1) - 1.0).abs(),
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] }
}

/// Tests for about `length`, half of it for each test. Uses up to two CPUs.
pub fn noise(length: Duration) -> NoiseReport {
    let root = Root::machine();
    let before = CpuTimes::read(&root);
    let own_before_ns = process_cpu_ns();
    let start = Instant::now();
    let mut spins = Vec::new();
    while start.elapsed() < length / 2 {
        spins.push(spin(WINDOW));
    }
    let exchanges = ping_pong(length.saturating_sub(start.elapsed())).unwrap_or_default();
    let own = (process_cpu_ns() - own_before_ns) as f64 * 1e-9;
    let passed = before.zip(CpuTimes::read(&root)).map(|(before, after)| CpuTimes {
        busy_s: after.busy_s - before.busy_s,
        steal_s: after.steal_s - before.steal_s,
        all_s: after.all_s - before.all_s,
    });
    let passed = passed.filter(|times| times.all_s > 0.0);
    let steal = passed.map(|times| (times.steal_s / times.all_s).clamp(0.0, 1.0));
    let others = passed.map(|times| ((times.busy_s - own) / times.all_s).clamp(0.0, 1.0));
    let (spin, loopback) = (Spread::of(&spins), Spread::of(&exchanges));
    let (quiet, verdict) = judge(spin, loopback, steal, others);
    NoiseReport { spin, loopback, steal, others, quiet, verdict }
}

fn judge(spin: Option<Spread>, loopback: Option<Spread>, steal: Option<f64>, others: Option<f64>) -> (bool, String) {
    let mut wrong = Vec::new();
    let mut see = |spread: Option<Spread>, what: &str, limit: f64| {
        let Some(spread) = spread else { return };
        if spread.relative > limit {
            wrong.push(format!("{what} varies by {:.1} %", spread.relative * 100.0));
        }
        if spread.slow_windows > 0.1 {
            wrong.push(format!("{:.0} % of {what}'s windows are slow", spread.slow_windows * 100.0));
        }
    };
    see(spin, "arithmetic", 0.02);
    see(loopback, "the loopback", 0.05);
    if let Some(steal) = steal.filter(|steal| *steal > 0.02) {
        wrong.push(format!("a hypervisor took {:.1} % of the CPU time", steal * 100.0));
    }
    if let Some(others) = others.filter(|others| *others > 0.05) {
        wrong.push(format!("other processes used {:.1} % of the CPU time", others * 100.0));
    }
    if spin.is_none() {
        return (false, "the test was too short".to_owned());
    }
    if wrong.is_empty() {
        return (true, "quiet: differences of a few per cent can be resolved in a few repetitions".to_owned());
    }
    let wrong = wrong.join(", ");
    (false, format!("noisy: {wrong}; small differences need more repetitions or a quieter machine"))
}

/// Round trips of one byte per second, window by window; none if there is no loopback.
fn ping_pong(length: Duration) -> Option<Vec<f64>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let address = listener.local_addr().ok()?;
    let answer = std::thread::Builder::new().spawn(move || {
        let Ok((mut peer, _)) = listener.accept() else { return };
        let mut byte = [0];
        let _ = peer.set_nodelay(true);
        while peer.read_exact(&mut byte).is_ok() && peer.write_all(&byte).is_ok() {}
    });
    let answer = answer.ok()?;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    let start = Instant::now();
    let mut windows = Vec::new();
    let mut byte = [0];
    while start.elapsed() < length {
        let (window, mut count) = (Instant::now(), 0_u64);
        while window.elapsed() < WINDOW {
            stream.write_all(&byte).ok()?;
            stream.read_exact(&mut byte).ok()?;
            count += 1;
        }
        windows.push(count as f64 / window.elapsed().as_secs_f64());
    }
    drop(stream);
    let _ = answer.join();
    Some(windows)
}

#[derive(Clone, Copy)]
struct CpuTimes {
    busy_s: f64,
    steal_s: f64,
    all_s: f64,
}

impl CpuTimes {
    fn read(root: &Root) -> Option<CpuTimes> {
        let text = root.text("proc/stat")?;
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let times: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let at = |index: usize| crate::proc::ticks(times.get(index).copied().unwrap_or(0));
        // Columns: user nice system idle iowait irq softirq steal; user time contains guest time.
        let busy_s = at(0) + at(1) + at(2) + at(5) + at(6);
        Some(CpuTimes { busy_s, steal_s: at(7), all_s: busy_s + at(3) + at(4) + at(7) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_deaf_to_an_outlier_but_not_to_a_drift_between_halves() {
        let mut windows = vec![100.0; 20];
        windows[3] = 10.0;
        let spread = Spread::of(&windows).unwrap();
        assert_eq!((spread.median_per_s, spread.relative, spread.slow_windows), (100.0, 0.0, 0.05));
        let alternating: Vec<f64> = (0..20).map(|i| if i % 2 == 0 { 102.0 } else { 100.0 }).collect();
        assert!((Spread::of(&alternating).unwrap().a_to_a - 0.02).abs() < 1e-9);
        assert_eq!(Spread::of(&[1.0, 2.0]), None);
    }

    #[test]
    fn a_noisy_machine_is_called_noisy_with_its_reasons() {
        let spread = |relative| Spread { windows: 50, median_per_s: 1.0, relative, slow_windows: 0.0, a_to_a: 0.0 };
        let (quiet, words) = judge(Some(spread(0.3)), Some(spread(0.0)), Some(0.1), None);
        assert!(!quiet && words.contains("30.0 %") && words.contains("hypervisor"), "{words}");
        assert!(judge(Some(spread(0.001)), Some(spread(0.01)), Some(0.0), Some(0.01)).0);
    }

    #[test]
    fn a_short_test_of_this_machine_has_both_halves() {
        let report = noise(Duration::from_millis(700));
        assert!(report.spin.is_some_and(|spread| spread.median_per_s > 0.0));
        assert!(report.loopback.is_some_and(|spread| spread.median_per_s > 0.0));
        assert!(!report.verdict.is_empty());
    }
}
