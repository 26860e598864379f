//! The machine as a whole, from `/proc` and its root control group.

mod occupied;
mod tasks;

use crate::parts::Parts;
use crate::proc::ticks;
use crate::root::{KeptFile, Root};
use crate::scan::{keyed, lines, number, number_at, pressure_some_us, words};
use crate::sockets;
use crate::source::{Of, Reading, SourceReader, SourceRow, SourceState};
use occupied::Occupied;
use std::fmt::Write;
use tare_clock::monotonic_ns;
use tare_core::telemetry::CPU_CLOCK;
use tasks::Tasks;

/// The row of [`crate::SOURCES`].
pub const ROW: SourceRow = SourceRow {
    name: "machine",
    about: "CPUs, memory, network and pressure of the whole machine, from /proc and its root control group",
    metrics: &[
        "cpu_user_s",
        "cpu_system_s",
        "cpu_softirq_s",
        "cpu_irq_s",
        "cpu_steal_s",
        "cpu_idle_s",
        "cpu_guest_s",
        "cpu_tasks_s",
        "cpu_occupied_s",
        CPU_CLOCK,
        "context_switches",
        "interrupts",
        "tasks_started",
        "load_running",
        "memory_bytes",
        "memory_available_bytes",
        "minor_faults",
        "major_faults",
        "net_rx_bytes",
        "net_tx_bytes",
        "net_rx_packets",
        "net_tx_packets",
        "tcp_retransmits",
        "listen_drops",
        "listen_overflows",
        "syn_retransmits",
        "receive_drops",
        "request_queue_full",
        "zero_windows",
        "connections_accepted",
        "psi_cpu_some_s",
        "psi_memory_some_s",
        "psi_io_some_s",
    ],
    probe,
    reader: |root, _| Box::new(MachineReader::new(root)),
};

fn probe(root: &Root) -> SourceState {
    if root.has("proc/stat") {
        return SourceState::Ready;
    }
    SourceState::Unavailable {
        why: "/proc/stat cannot be read, so the machine's CPU time is unknown".to_owned(),
        how_to_check: "head -1 /proc/stat".to_owned(),
    }
}

struct MachineReader {
    stat: Option<KeptFile>,
    tasks: Option<Tasks>,
    occupied: Option<Occupied>,
    meminfo: Option<KeptFile>,
    vmstat: Option<KeptFile>,
    net: Option<KeptFile>,
    snmp: Option<KeptFile>,
    netstat: Option<KeptFile>,
    pressure: [(&'static str, Option<KeptFile>); 3],
    net_parts: Parts<4>,
    buffer: Vec<u8>,
    second: Vec<u8>,
    name: String,
}

impl MachineReader {
    fn new(root: &Root) -> MachineReader {
        let open = |path: &str| KeptFile::open(root.path(path));
        MachineReader {
            stat: open("proc/stat"),
            tasks: Tasks::new(root),
            occupied: Occupied::new(root),
            meminfo: open("proc/meminfo"),
            vmstat: open("proc/vmstat"),
            // `/proc/net` depends on the thread that reads it; this path is the same for every thread.
            net: open("proc/self/net/dev").or_else(|| open("proc/net/dev")),
            snmp: open("proc/self/net/snmp").or_else(|| open("proc/net/snmp")),
            netstat: open("proc/self/net/netstat").or_else(|| open("proc/net/netstat")),
            pressure: [
                ("psi_cpu_some_s", open("proc/pressure/cpu")),
                ("psi_memory_some_s", open("proc/pressure/memory")),
                ("psi_io_some_s", open("proc/pressure/io")),
            ],
            net_parts: Parts::default(),
            buffer: Vec::new(),
            second: Vec::new(),
            name: String::new(),
        }
    }

    /// Reads times and counts, and says of how many CPUs.
    fn read_stat(&mut self, into: &mut Reading) -> usize {
        let Some(text) = self.stat.as_ref().and_then(|file| file.read(&mut self.buffer)) else { return 0 };
        into.put(Of::Machine, CPU_CLOCK, monotonic_ns() as f64 * 1e-9);
        let mut cpus = 0;
        for line in lines(text) {
            if let Some(rest) = line.strip_prefix(b"cpu") {
                cpus += usize::from(put_cpu(rest, &mut self.name, into));
            }
        }
        for (key, metric) in [
            ("ctxt", "context_switches"),
            ("intr", "interrupts"),
            // This counts threads too.
            ("processes", "tasks_started"),
            ("procs_running", "load_running"),
        ] {
            if let Some(value) = keyed(text, key) {
                into.put(Of::Machine, metric, value as f64);
            }
        }
        cpus
    }

    /// Reads what is held against each other, right after one another: the time of tasks, of CPUs that had one, and of
    /// idle CPUs.
    fn read_cpus(&mut self, into: &mut Reading) {
        if let Some(used) = self.tasks.as_mut().and_then(|tasks| tasks.read(&mut self.buffer)) {
            into.put(Of::Machine, "cpu_tasks_s", used);
        }
        let occupied = self.occupied.as_ref().and_then(|file| file.read(&mut self.buffer));
        let cpus = self.read_stat(into);
        if let Some((_, seconds)) = occupied.filter(|(told, _)| *told == cpus) {
            into.put(Of::Machine, "cpu_occupied_s", seconds);
        }
    }

    fn read_memory(&mut self, into: &mut Reading) {
        if let Some(text) = self.meminfo.as_ref().and_then(|file| file.read(&mut self.buffer))
            && let (Some(total), Some(available)) = (keyed(text, "MemTotal"), keyed(text, "MemAvailable"))
        {
            into.put(Of::Machine, "memory_available_bytes", available as f64 * 1024.0);
            into.put(Of::Machine, "memory_bytes", total.saturating_sub(available) as f64 * 1024.0);
        }
        if let Some(text) = self.vmstat.as_ref().and_then(|file| file.read(&mut self.buffer))
            && let (Some(all), Some(major)) = (keyed(text, "pgfault"), keyed(text, "pgmajfault"))
        {
            into.put(Of::Machine, "minor_faults", all.saturating_sub(major) as f64);
            into.put(Of::Machine, "major_faults", major as f64);
        }
    }

    fn read_net(&mut self, into: &mut Reading) {
        if let Some(text) = self.net.as_ref().and_then(|file| file.read(&mut self.buffer)) {
            self.net_parts.start();
            for line in lines(text) {
                let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
                let (name, counters) = (line[..colon].trim_ascii(), &line[colon + 1..]);
                let at = |index| number_at(counters, index).map(|value| value as f64);
                if name != b"lo"
                    && let (Some(rx), Some(rx_packets), Some(tx), Some(tx_packets)) = (at(0), at(1), at(8), at(9))
                {
                    self.net_parts.put(name, [rx, tx, rx_packets, tx_packets]);
                }
            }
            let names = ["net_rx_bytes", "net_tx_bytes", "net_rx_packets", "net_tx_packets"];
            for (name, value) in names.iter().zip(self.net_parts.sums()) {
                into.put(Of::Machine, name, value);
            }
        }
        let netstat = self.netstat.as_ref().and_then(|file| file.read(&mut self.buffer)).unwrap_or_default();
        let snmp = self.snmp.as_ref().and_then(|file| file.read(&mut self.second)).unwrap_or_default();
        for (name, value) in sockets::NAMES.iter().zip(sockets::counts(netstat, snmp)) {
            if let Some(value) = value {
                into.put(Of::Machine, name, value);
            }
        }
    }
}

impl SourceReader for MachineReader {
    fn read(&mut self, into: &mut Reading) {
        self.read_cpus(into);
        self.read_memory(into);
        self.read_net(into);
        for (metric, file) in &self.pressure {
            let text = file.as_ref().and_then(|file| file.read(&mut self.buffer));
            if let Some(total) = text.and_then(pressure_some_us) {
                into.put(Of::Machine, metric, total as f64 * 1e-6);
            }
        }
    }

    /// All tasks are held against the busy time of the machine that the form stands on. Reading them takes a system
    /// call for each thread of the kernel.
    fn trim_for_guest(&mut self) {
        (self.tasks, self.occupied) = (None, None);
    }
}

/// Puts the values of a CPU's line of `/proc/stat` without its `cpu`; the line without a number is the sum. True if it
/// is that of a single CPU.
fn put_cpu(line: &[u8], name: &mut String, into: &mut Reading) -> bool {
    let single = !line.first().is_none_or(u8::is_ascii_whitespace);
    let mut columns = words(line);
    let cpu = if single { columns.next().and_then(number) } else { None };
    if single && cpu.is_none() {
        return false;
    }
    let mut times = [0_u64; 10];
    for (time, word) in times.iter_mut().zip(columns) {
        *time = number(word).unwrap_or(0);
    }
    let [user, nice, system, idle, waiting, irq, softirq, steal, guest, guest_nice] = times;
    for (metric, value) in [
        // The kernel's user time contains guest time; here each second is counted once.
        ("cpu_user_s", (user + nice).saturating_sub(guest + guest_nice)),
        ("cpu_system_s", system),
        ("cpu_irq_s", irq),
        ("cpu_softirq_s", softirq),
        ("cpu_steal_s", steal),
        ("cpu_idle_s", idle + waiting),
        ("cpu_guest_s", guest + guest_nice),
    ] {
        match cpu {
            Some(cpu) => {
                name.clear();
                write!(name, "{metric}@{cpu}").expect("a String takes any text");
                into.put(Of::Machine, name, ticks(value));
            }
            None => into.put(Of::Machine, metric, ticks(value)),
        }
    }
    single
}
