//! What is sampled while a trial is measured.

use crate::fault::Fault;
use crate::profile::Profile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A set of processes whose counters are read together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// What it is, for the reader: a service's name, "hypervisor", "port proxy".
    pub name: String,
    /// Whether its CPU time is spent on serving requests and so counts towards the CPU time per operation.
    pub serving: bool,
    /// Process ids; their threads are included, their children are too.
    pub pids: Vec<u32>,
    /// Absolute directories of cgroups (v2, or one per v1 controller).
    pub cgroups: Vec<String>,
}

/// Which side a sample was taken on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vantage {
    /// On this machine.
    Host,
    /// Inside the guest.
    Guest,
}

/// The scope name under which the machine as a whole is sampled.
pub const WHOLE_MACHINE: &str = "machine";

/// The scope name under which the sampler itself is sampled, here and in guests.
pub const PROBE: &str = "probe";

/// The metric of the machine that says when its CPUs were read, within the reading of all sources, by its own
/// CLOCK_MONOTONIC, s.
pub const CPU_CLOCK: &str = "cpu_clock_s";

/// The counters of one scope at one moment. Counters are cumulative; gauges are as read. A metric that cannot be read
/// is absent, never zero. Names and units: [`METRICS`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TelemetryRow {
    /// When: CLOCK_MONOTONIC of the host, ns (a guest's clock is translated).
    pub at_ns: u64,
    /// Where.
    pub vantage: Vantage,
    /// The scope's name.
    pub scope: String,
    /// Whether the scope serves the requests. On the host it then counts towards the CPU time per operation; what a
    /// guest counts is included in its hypervisor's.
    pub serving: bool,
    /// Values by metric; metrics of one CPU have its number appended: `cpu_user_s@3`.
    pub values: BTreeMap<String, f64>,
}

/// A metric: name, unit and meaning.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name; the unit comes last.
    pub name: &'static str,
    /// Whether it only ever grows.
    pub counter: bool,
    /// What it is.
    pub meaning: &'static str,
}

macro_rules! metrics {
    ($($name:literal $kind:literal $meaning:literal)*) => {
        /// Every metric that a source may deliver. The source decides whether it is for the machine or for scopes; one
        /// name may be delivered for both, as `major_faults` is. The rows of the table of sources say which source has
        /// which.
        pub const METRICS: &[Metric] = &[$(Metric { name: $name, counter: matches!($kind, 'c'), meaning: $meaning }),*];
    };
}

metrics! {
    "cpu_user_s" 'c' "CPU time in user mode"
    "cpu_system_s" 'c' "CPU time in the kernel"
    "cpu_total_s" 'c' "CPU time, by the scheduler's own clock"
    "cpu_softirq_s" 'c' "CPU time in software interrupts"
    "cpu_irq_s" 'c' "CPU time in interrupts"
    "cpu_steal_s" 'c' "time in which the hypervisor ran something else"
    "cpu_idle_s" 'c' "CPU time idle"
    "cpu_guest_s" 'c' "CPU time running a guest"
    "cpu_tasks_s" 'c' "CPU time of all tasks, kernel threads included, as the scheduler counts it"
    "cpu_occupied_s" 'c' "time in which CPUs had a task to run, counted when the task leaves the CPU"
    "cpu_clock_s" 'c' "when the machine's CPUs were read, by its own clock"
    "cpu_on_s" 'c' "CPU time of threads that were seen on a CPU when they had last run"
    "run_queue_wait_s" 'c' "time ready to run, waiting for a CPU"
    "context_switches_voluntary" 'c' "context switches because the task waited"
    "context_switches_involuntary" 'c' "context switches because the time slice was over"
    "context_switches" 'c' "context switches of the whole machine"
    "tasks_started" 'c' "processes and threads started on the whole machine"
    "migrations" 'c' "moves from one CPU to another"
    "minor_faults" 'c' "page faults served from memory"
    "major_faults" 'c' "page faults served from disk"
    "memory_bytes" 'g' "resident memory, or the cgroup's use"
    "memory_available_bytes" 'g' "memory available on the machine"
    "threads" 'g' "threads"
    "disk_read_bytes" 'c' "bytes read from disks"
    "disk_write_bytes" 'c' "bytes written to disks"
    "disk_reads" 'c' "reads that disks finished"
    "disk_writes" 'c' "writes that disks finished"
    "disk_flushes" 'c' "flushes of disks' own caches"
    "disk_busy_s" 'c' "time in which disks had something to do"
    "disk_wait_s" 'c' "time that requests spent at disks, all requests together"
    "net_rx_bytes" 'c' "bytes received by all interfaces but loopback"
    "net_tx_bytes" 'c' "bytes sent by all interfaces but loopback"
    "net_rx_packets" 'c' "packets received by all interfaces but loopback"
    "net_tx_packets" 'c' "packets sent by all interfaces but loopback"
    "tcp_retransmits" 'c' "TCP segments sent again"
    "listen_drops" 'c' "connections dropped at a full listen queue"
    "listen_overflows" 'c' "finished handshakes that found the queue of accept full"
    "syn_retransmits" 'c' "requests for a TCP connection, or answers to them, sent again"
    "receive_drops" 'c' "segments and datagrams dropped at a full receive buffer or backlog"
    "request_queue_full" 'c' "requests for a TCP connection that found the queue of half-open ones full"
    "zero_windows" 'c' "times that a TCP receiver told its sender that its buffer is full"
    "connections_accepted" 'c' "TCP connections that were opened from the other side"
    "throttled_s" 'c' "time in which the CPU quota was used up"
    "throttled_periods" 'c' "periods in which the CPU quota was used up"
    "cpu_quota_s" 'g' "CPU time that a quota allows in each of its periods"
    "cpu_period_s" 'g' "the period of the CPU quota"
    "psi_cpu_some_s" 'c' "time in which some task waited for a CPU"
    "psi_memory_some_s" 'c' "time in which some task waited for memory"
    "psi_io_some_s" 'c' "time in which some task waited for I/O"
    "memory_limit_hits" 'c' "times that the cgroup hit its memory limit"
    "reclaimed_pages" 'c' "pages taken from the cgroup to make room"
    "refaults" 'c' "pages that were needed again soon after they had been reclaimed"
    "oom_kills" 'c' "processes killed for lack of memory"
    "interrupts" 'c' "interrupts served"
    "softirqs_net_rx" 'c' "software interrupts for packets received"
    "softirqs_net_tx" 'c' "software interrupts for packets sent"
    "softirqs_timer" 'c' "software interrupts for timers"
    "softirqs_sched" 'c' "software interrupts for balancing load between CPUs"
    "softirqs_block" 'c' "software interrupts for requests that disks finished"
    "softnet_drops" 'c' "packets dropped at a CPU's full backlog"
    "softnet_squeezed" 'c' "times that a software interrupt ran out of time with packets left"
    "conntrack_entries" 'g' "connections tracked for address translation"
    "conntrack_found" 'c' "searches of tracked connections that found one"
    "conntrack_inserted" 'c' "connections put into the table of tracked ones, where the kernel counts it"
    "conntrack_drops" 'c' "connections that the table of tracked ones did not take, or lost early"
    "kvm_exits" 'c' "exits of guests to the hypervisor"
    "kvm_halt_exits" 'c' "of these, because a CPU of the guest had nothing to do"
    "kvm_io_exits" 'c' "of these, because of a port of a device"
    "kvm_mmio_exits" 'c' "of these, because of a register of a device in memory"
    "huge_bytes" 'g' "resident memory in huge pages, and all of hugetlbfs"
    "numa_local_pages" 'c' "pages handed out by the node of the CPU that asked"
    "numa_remote_pages" 'c' "pages handed out by another node than that of the CPU that asked"
    "instructions" 'c' "instructions executed by all CPUs, or by one"
    "cycles" 'c' "cycles of all CPUs that were not halted, or of one"
    "cache_misses" 'c' "accesses to memory that no cache of the processor served"
    "branch_misses" 'c' "branches that the processor predicted wrongly"
    "dtlb_misses" 'c' "reads whose address had to be translated by the page table"
    "load_running" 'g' "tasks ready to run"
    "seen_running_s" 'c' "thread-seconds on a CPU or ready for one, by sampling"
    "wait_sleep_s" 'c' "thread-seconds asleep for a set time"
    "wait_sync_s" 'c' "thread-seconds waiting for written data to be safe (fsync and its like)"
    "wait_disk_s" 'c' "thread-seconds waiting for a disk otherwise"
    "wait_lock_s" 'c' "thread-seconds waiting for another thread (futex, semaphore, file lock); idle helpers too"
    "wait_net_s" 'c' "thread-seconds waiting for a socket, a pipe or an event: a server that is idle"
    "wait_stopped_s" 'c' "thread-seconds held by a signal, a tracer or a freezer"
    "wait_other_s" 'c' "thread-seconds waiting in any other way, such as for a child, or in a halted CPU of a guest"
}

/// A period in which a sampler does nothing, so that its cost can be found by comparison with the period beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    /// How long after the sampler was told.
    pub after: Duration,
    /// How long it lasts.
    pub lasts: Duration,
}

/// In which half of a stretch of time the samplers of a deployment rest; the other half is what the rest is compared
/// with. A load that is slow at first makes the earlier half the slower one, so blocks take it by turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestHalf {
    /// They rest, and are at work after that.
    First,
    /// They are at work, and rest after that.
    Second,
}

/// The shortest measurement in which a sampler rests: each rest is compared with the same time before or after it.
pub const RESTS_FROM: Duration = Duration::from_secs(10);

/// In rows of the sampler itself: how long it has rested so far, s. Absent until it has.
pub const RESTED: &str = "rested_s";

/// Samples scopes periodically, on the machine where it lives, using less than one per cent of a core.
pub trait Prober: Send {
    /// Starts sampling the whole machine and `scopes`, once a `period`.
    ///
    /// # Errors
    /// When nothing can be sampled.
    fn begin(&mut self, scopes: &[Scope], period: Duration) -> Result<(), Fault>;

    /// Makes the sampler rest during these periods, counted from now; they are in order and apart.
    ///
    /// # Errors
    /// When the sampler died.
    fn rest(&mut self, _rests: &[Rest]) -> Result<(), Fault> {
        Ok(())
    }

    /// Ends sampling and returns what was read.
    ///
    /// # Errors
    /// When the sampler died.
    fn end(&mut self) -> Result<Vec<TelemetryRow>, Fault>;

    /// Starts to profile the serving ones of `scopes`, which slows them down.
    ///
    /// # Errors
    /// When nothing can be profiled at all; always, if there is no profiler.
    fn begin_profile(&mut self, _scopes: &[Scope]) -> Result<(), Fault> {
        Err(Fault::new("there is no profiler here"))
    }

    /// Ends profiling and returns what was seen between two times of CLOCK_MONOTONIC, ns. Names are looked up now, so
    /// the processes must still be running.
    ///
    /// # Errors
    /// When the profiler died, or was never begun.
    fn end_profile(&mut self, _from_ns: u64, _to_ns: u64) -> Result<Profile, Fault> {
        Err(Fault::new("there is no profiler here"))
    }
}
