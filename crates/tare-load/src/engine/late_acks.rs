//! How often the load's side delayed an acknowledgment until its timer ran out, which the kernel counts by network
//! namespace. A server that sends an answer in pieces, and the next piece only once the previous one is acknowledged
//! (Nagle's algorithm), waits equally long: 40 ms each time.

/// The kernel's count when measuring began.
#[derive(Debug, Default)]
pub(super) struct LateAcks {
    marked: Option<u64>,
}

impl LateAcks {
    /// Counts from now on.
    pub(super) fn mark(&mut self) {
        self.marked = counted();
    }

    /// How many there have been since then; none if the kernel does not report them.
    pub(super) fn since_mark(&self) -> Option<u64> {
        Some(counted()?.saturating_sub(self.marked?))
    }
}

/// The count for this process's network namespace.
fn counted() -> Option<u64> {
    told(&std::fs::read_to_string("/proc/self/net/netstat").ok()?)
}

/// One line of the file contains the names, and the next one their values.
fn told(netstat: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split(' ').position(|name| name == "DelayedACKs")?;
    values.split(' ').nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_found_by_its_name() {
        let netstat = "TcpExt: SyncookiesSent DelayedACKs DelayedACKLocked\nTcpExt: 1 4711 3\nIpExt: A\nIpExt: 9\n";
        assert_eq!(told(netstat), Some(4711));
        assert_eq!([told("TcpExt: A\nTcpExt: 1\n"), told("TcpExt: DelayedACKs\n"), told("")], [None; 3]);
    }

    #[test]
    fn what_was_counted_before_the_mark_is_left_out() {
        let mut late = LateAcks::default();
        assert_eq!(late.since_mark(), None);
        late.mark();
        let (Some(total), Some(since)) = (counted(), late.since_mark()) else {
            println!("skipped: the kernel does not count delayed acknowledgments");
            return;
        };
        assert!(since <= total);
    }
}
