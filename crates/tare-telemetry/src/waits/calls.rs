//! What a thread is doing, from the system call or kernel function that it is in.

use crate::scan::after_name;

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Running,
    Sleep,
    Sync,
    Disk,
    Lock,
    Net,
    /// Stopped by a signal (SIGSTOP), a tracer or a freezer.
    Stopped,
    Other,
}

/// How many there are.
pub(super) const DOINGS: usize = 8;

/// Their metrics, in their order.
pub(super) const NAMES: [&str; DOINGS] = [
    "seen_running_s",
    "wait_sleep_s",
    "wait_sync_s",
    "wait_disk_s",
    "wait_lock_s",
    "wait_net_s",
    "wait_stopped_s",
    "wait_other_s",
];

/// What a pending system call says about its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// It is doing this.
    Is(Doing),
    /// It waits for a disk if it cannot be interrupted, else it is doing this.
    Unless(Doing),
    /// It writes to the file with this descriptor. If it cannot be interrupted, it waits for a disk, or for its data to
    /// be safe there if the file was opened for that; else it waits for a reader.
    Writes(u32),
    /// It continues what it did before a signal or a freeze.
    Resumed,
}

/// The meaning of a line of `/proc/<pid>/task/<tid>/syscall`; none for nonsense. A thread that waits outside of a call
/// waits for a page.
pub(super) fn call(text: &[u8]) -> Option<Call> {
    let mut words = text.split(u8::is_ascii_whitespace);
    let first = words.next()?;
    match first {
        b"running" => Some(Call::Is(Doing::Running)),
        b"-1" => Some(Call::Unless(Doing::Other)),
        _ => {
            let call = by_number(crate::scan::number(first)?.try_into().ok()?);
            let file = |word| u32::from_str_radix(std::str::from_utf8(word).ok()?.strip_prefix("0x")?, 16).ok();
            Some(match call {
                Call::Writes(_) => words.next().and_then(file).map_or(Call::Unless(Doing::Net), Call::Writes),
                call => call,
            })
        }
    }
}

/// Whether each write to a file waits until its data are safe on disk: it was opened with O_DSYNC, which O_SYNC
/// includes. `facts` is the text of `/proc/<pid>/fdinfo/<number>`, which has the flags in octal.
pub(super) fn writes_through(facts: &str) -> bool {
    let flags = facts.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i64::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & i64::from(libc::O_DSYNC) != 0)
}

/// The meaning of a call by its number alone; a call that writes gets no file.
fn by_number(number: libc::c_long) -> Call {
    #[cfg(target_arch = "x86_64")]
    if let libc::SYS_poll | libc::SYS_select | libc::SYS_epoll_wait = number {
        return Call::Is(Doing::Net);
    }
    match number {
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Call::Is(Doing::Sleep),
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range => Call::Is(Doing::Sync),
        libc::SYS_msync | libc::SYS_sync | libc::SYS_syncfs => Call::Is(Doing::Sync),
        // Older databases use System V semaphores as locks.
        libc::SYS_futex | libc::SYS_futex_waitv | libc::SYS_semop | libc::SYS_semtimedop => Call::Is(Doing::Lock),
        libc::SYS_flock => Call::Is(Doing::Lock),
        libc::SYS_ppoll | libc::SYS_pselect6 => Call::Is(Doing::Net),
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Call::Is(Doing::Net),
        libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg => Call::Is(Doing::Net),
        libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg => Call::Is(Doing::Net),
        libc::SYS_accept | libc::SYS_accept4 | libc::SYS_connect => Call::Is(Doing::Net),
        // A wait for a file cannot be interrupted; a wait for a socket or pipe always can.
        libc::SYS_read | libc::SYS_readv | libc::SYS_pread64 | libc::SYS_preadv | libc::SYS_preadv2 => {
            Call::Unless(Doing::Net)
        }
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            Call::Writes(0)
        }
        libc::SYS_sendfile | libc::SYS_splice | libc::SYS_io_uring_enter => Call::Unless(Doing::Net),
        libc::SYS_restart_syscall => Call::Resumed,
        _ => Call::Unless(Doing::Other),
    }
}

/// The state in a line of `/proc/<pid>/task/<tid>/stat`: the letter after the name and a space.
pub(super) fn state(stat: &[u8]) -> Option<u8> {
    after_name(stat)?.get(1).copied()
}

/// What a thread is doing, by its state and the kernel function in which it waits, if system calls are not visible.
/// None if that function is not visible either.
pub(super) fn by_channel(state: u8, channel: &[u8]) -> Option<Doing> {
    match state {
        b'R' => return Some(Doing::Running),
        b'T' | b't' => return Some(Doing::Stopped),
        b'S' | b'D' => {}
        _ => return Some(Doing::Other),
    }
    let channel = std::str::from_utf8(channel).ok()?.trim();
    let has = |parts: &[&str]| parts.iter().any(|part| channel.contains(part));
    // The order matters: names of functions that wait for a sync also contain words for waiting for a disk.
    if has(&["fsync", "log_wait_commit", "sync_file", "writeback", "wait_commit"]) {
        return Some(Doing::Sync);
    }
    if state == b'D' {
        return Some(if is_frozen(channel) { Doing::Stopped } else { Doing::Disk });
    }
    if channel.is_empty() || channel == "0" {
        return None;
    }
    Some(if has(&["nanosleep"]) {
        Doing::Sleep
    } else if has(&["futex", "sem_wait", "do_semtimedop"]) {
        Doing::Lock
    } else if has(&[
        "poll",
        "select",
        "sk_wait",
        "skb",
        "accept",
        "sock",
        "tcp_",
        "unix_",
        "inet_",
        "pipe",
        "io_cqring",
    ]) {
        Doing::Net
    } else {
        Doing::Other
    })
}

/// Whether a thread that cannot be interrupted is in a wait that normally can be: then a freezer holds it.
pub(super) fn is_frozen(channel: &str) -> bool {
    ["refrigerator", "nanosleep", "futex", "ep_poll", "epoll_wait", "poll_schedule", "do_select"]
        .iter()
        .any(|part| channel.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_apart() {
        let line = |number: libc::c_long| format!("{number} 0x5 0x7f21d9f0 0x0 0x0 0x0 0x0 0x7ffd4c30 0x7f21da01\n");
        for (number, wanted) in [
            (libc::SYS_clock_nanosleep, Call::Is(Doing::Sleep)),
            (libc::SYS_fdatasync, Call::Is(Doing::Sync)),
            (libc::SYS_futex, Call::Is(Doing::Lock)),
            (libc::SYS_epoll_pwait, Call::Is(Doing::Net)),
            (libc::SYS_read, Call::Unless(Doing::Net)),
            (libc::SYS_pwritev, Call::Writes(5)),
            (libc::SYS_ioctl, Call::Unless(Doing::Other)),
            (libc::SYS_restart_syscall, Call::Resumed),
        ] {
            assert_eq!(call(line(number).as_bytes()), Some(wanted), "{number}");
        }
        assert_eq!(call(b"running\n"), Some(Call::Is(Doing::Running)));
        assert_eq!(call(b"-1 0x7ffd2c6f1e48 0x7f2b3c0f5a11\n"), Some(Call::Unless(Doing::Other)));
        assert_eq!((call(b""), call(b"0x5\n"), call(b"99999999999999999999\n")), (None, None, None));
    }

    #[test]
    fn files_that_are_written_through_are_known_by_their_flags() {
        let facts = |flags: &str| format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t29\nino:\t7\n");
        // O_WRONLY and O_CLOEXEC; the same with O_DSYNC, then with O_SYNC.
        assert_eq!(
            ["02000001", "02010001", "06010001"].map(|flags| writes_through(&facts(flags))),
            [false, true, true]
        );
        assert!(!writes_through("") && !writes_through("flags:\tnone\n"));
    }

    /// Lines of Linux 6.18 on x86_64: `sleep`, a shell's `read` of a pipe, an event loop, a thread that waits for
    /// another.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn recorded_lines_of_x86_64() {
        for (recorded, wanted) in RECORDED {
            assert_eq!(call(recorded.as_bytes()), Some(*wanted), "{recorded}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    const RECORDED: &[(&str, Call)] = &[
        ("230 0x0 0x0 0x7ffe1d27d740 0x7ffe1d27d780 0x0 0x0 0x7ffe1d27d728 0x7f0eb021f503", Call::Is(Doing::Sleep)),
        ("0 0x0 0x7ffd2aa4e87f 0x1 0x0 0x2 0x0 0x7ffd2aa4e848 0x7f5bb1ca52ad", Call::Unless(Doing::Net)),
        ("232 0x3 0x55f76ed57b40 0x3ff 0xea60 0x0 0x0 0x7fffc77eb2f0 0x7fa9b8326f36", Call::Is(Doing::Net)),
        ("202 0x7fa9b0000df0 0x189 0x0 0x0 0x0 0xffffffff 0x7fa9b7d4c950 0x7fa9b82a3f16", Call::Is(Doing::Lock)),
    ];

    #[test]
    fn names_of_waits_stand_in_for_refused_calls() {
        for (state, channel, wanted) in [
            (b'R', "0", Some(Doing::Running)),
            (b'S', "hrtimer_nanosleep", Some(Doing::Sleep)),
            (b'S', "futex_wait_queue", Some(Doing::Lock)),
            (b'S', "futex_wait_queue_me", Some(Doing::Lock)),
            (b'S', "futex_do_wait", Some(Doing::Lock)),
            (b'S', "ep_poll", Some(Doing::Net)),
            (b'S', "do_epoll_wait", Some(Doing::Net)),
            (b'S', "inet_csk_accept", Some(Doing::Net)),
            (b'S', "anon_pipe_read", Some(Doing::Net)),
            (b'D', "jbd2_log_wait_commit", Some(Doing::Sync)),
            (b'D', "folio_wait_bit_common", Some(Doing::Disk)),
            (b'D', "0", Some(Doing::Disk)),
            (b'S', "do_wait", Some(Doing::Other)),
            (b'T', "do_signal_stop", Some(Doing::Stopped)),
            (b'D', "hrtimer_nanosleep", Some(Doing::Stopped)),
            (b'D', "__refrigerator", Some(Doing::Stopped)),
            (b'S', "0", None),
            (b'S', "", None),
        ] {
            assert_eq!(by_channel(state, channel.as_bytes()), wanted, "{channel}");
        }
        assert_eq!(state(b"77 (a) b (c) D 5 1"), Some(b'D'));
        assert_eq!((state(b"77 (a)"), state(b"")), (None, None));
    }
}
