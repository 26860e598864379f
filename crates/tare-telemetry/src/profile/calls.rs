//! System calls, each counted by a small BPF program that the kernel runs for it.
//!
//! The program increments a counter by process and call; processes are assigned to scopes here. Nothing is written out
//! per call, so nothing can be lost.

use std::io::Error;
use tare_bpf::Register::{self, R0, R1, R2, R3, R4, R6, R10};
use tare_bpf::{Attached, Function, Instruction, Kind, Map, Program};
use tare_core::fault::Fault;

/// How many pairs of a process and a call fit into the map.
const ROOM: u32 = 65_536;

/// How often each process made each call so far.
pub(super) struct Calls {
    /// The key has the process in its upper half and the call in its lower half.
    counts: Map<u64, u64>,
    /// Dropped, it ends the counting.
    _attached: Attached,
}

impl Calls {
    /// Counts from now on.
    ///
    /// # Errors
    /// Why this machine does not allow it, and what would.
    pub(super) fn begin() -> Result<Calls, Fault> {
        let refused = |error: Error| {
            let fault = Fault::from_error("have the kernel count system calls (bpf)", &error);
            fault.remedy(match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => "run as root, on a kernel that is not locked down",
                _ => "use a kernel with CONFIG_BPF_SYSCALL and CONFIG_FTRACE_SYSCALLS",
            })
        };
        let calls = Calls::attach().map_err(refused)?;
        // If processes have other numbers in this PID namespace, counts cannot be assigned to them.
        let own = calls.read().into_iter().any(|count| count.pid == std::process::id());
        let strange =
            || Fault::new("this PID namespace numbers processes differently from the kernel's counter of calls");
        own.then_some(calls).ok_or_else(|| strange().remedy("run Tare on the machine itself, not in a container"))
    }

    fn attach() -> Result<Calls, Error> {
        let counts = Map::new(ROOM)?;
        // Its own time shows in the stacks, by this name.
        let program = Program::load(Kind::Tracepoint, "tare_counts", c"MIT", &code(&counts))?;
        let attached = program.attach_to_tracepoint(c"sys_enter")?;
        Ok(Calls { counts, _attached: attached })
    }

    /// The counts so far. Once the map is full, new pairs are missing.
    pub(super) fn read(&self) -> Vec<Count> {
        let count = |(key, count)| Count { pid: (key >> 32) as u32, number: key as u32, count };
        self.counts.entries().into_iter().map(count).collect()
    }
}

/// How often a process made a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count {
    pub(super) pid: u32,
    /// The call's number.
    pub(super) number: u32,
    pub(super) count: u64,
}

/// `counts[process << 32 | call] += 1`, with the number of the calling process.
fn code(counts: &Map<u64, u64>) -> [Instruction; 28] {
    const CALL: Register = R6;
    const KEY: i16 = -8;
    const FIRST: i16 = -16;
    let [map1, map2] = Instruction::set_map(R1, counts);
    let [key1, key2] = [Instruction::copy(R2, R10), Instruction::add(R2, KEY as i32)];
    [
        // The second argument of the tracepoint is the call's number.
        Instruction::read_u64(CALL, R1, 8),
        Instruction::shift_left(CALL, 32),
        Instruction::shift_right(CALL, 32),
        Instruction::call(Function::ProcessAndThread),
        Instruction::shift_right(R0, 32),
        Instruction::shift_left(R0, 32),
        Instruction::or(CALL, R0),
        Instruction::write_u64(R10, KEY, CALL),
        map1,
        map2,
        key1,
        key2,
        Instruction::call(Function::LookUp),
        // Found: added to in one step, for several CPUs count.
        Instruction::skip_if_equal(R0, 0, 3),
        Instruction::set(R1, 1),
        Instruction::add_at_once_u64(R0, R1),
        Instruction::skip(9),
        // Not found: the first of its kind.
        Instruction::write_number_u64(R10, FIRST, 1),
        map1,
        map2,
        key1,
        key2,
        Instruction::copy(R3, R10),
        Instruction::add(R3, FIRST as i32),
        Instruction::set(R4, 0),
        Instruction::call(Function::Update),
        Instruction::set(R0, 0),
        Instruction::end(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_this_process_are_counted_one_by_one() {
        let calls = match Calls::begin() {
            Ok(calls) => calls,
            Err(fault) => {
                println!("skipped: {fault}");
                return;
            }
        };
        let count = || {
            let own = |count: &&Count| count.pid == std::process::id() && i64::from(count.number) == libc::SYS_getppid;
            calls.read().iter().find(own).map_or(0, |count| count.count)
        };
        let before = count();
        for _ in 0..1234 {
            let _ = std::os::unix::process::parent_id();
        }
        assert_eq!(count() - before, 1234);
    }
}
