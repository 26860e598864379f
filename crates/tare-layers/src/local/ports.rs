//! Whether a port is free on this machine, and who has it.

use crate::processes;
use std::collections::BTreeMap;
use tare_core::fault::Fault;

/// The kernel's TCP_LISTEN, as /proc/net/tcp writes it.
const LISTENING: &str = "0A";

/// Refuses ports that something on this machine already listens on, at any address: most services listen on all.
pub(crate) fn check_free(ports: &BTreeMap<String, u16>) -> Result<(), Fault> {
    for (name, port) in ports {
        let sockets: Vec<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .flat_map(|path| listeners(&std::fs::read_to_string(path).unwrap_or_default(), *port))
            .collect();
        let Some(first) = sockets.first() else { continue };
        let by = match owner(*first) {
            Some(pid) => format!("by process {pid} ({})", processes::name(pid)),
            None => "by a process that cannot be seen from here".to_owned(),
        };
        return Err(Fault::new(format!("port {port} ({name}) is already in use on this host, {by}"))
            .remedy("stop it, or give the service another port"));
    }
    Ok(())
}

/// Inodes of the sockets that listen on a port, from the text of /proc/net/tcp or tcp6.
fn listeners(text: &str, port: u16) -> Vec<u64> {
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let local = u16::from_str_radix(fields.get(1)?.rsplit(':').next()?, 16).ok()?;
        let listens = *fields.get(3)? == LISTENING && local == port;
        listens.then(|| fields.get(9)?.parse().ok()).flatten()
    };
    text.lines().skip(1).filter_map(parse).collect()
}

/// A process that has the socket open.
fn owner(inode: u64) -> Option<u32> {
    let wanted = format!("socket:[{inode}]");
    processes::all().into_iter().find(|pid| {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        entries
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .any(|link| link.to_str() == Some(wanted.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_port_in_use_is_told_with_its_owner() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let fault = check_free(&BTreeMap::from([("main".to_owned(), port)])).unwrap_err();
        assert!(fault.message.contains(&port.to_string()), "{fault}");
        assert!(fault.message.contains(&std::process::id().to_string()), "{fault}");
        drop(listener);
        // A child that another test is starting holds all descriptors of this process until it has become its program,
        // and so keeps the socket alive.
        let (began, main) = (Instant::now(), BTreeMap::from([("main".to_owned(), port)]));
        while began.elapsed() < Duration::from_secs(10) && check_free(&main).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        check_free(&main).unwrap();
    }

    #[test]
    fn only_listening_sockets_count() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                    0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000   108        0 4242 1 0\n   \
                    1: 0100007F:18EB 0100007F:C350 01 00000000:00000000 00:00000000 00000000   108        0 4343 1 0\n";
        assert_eq!(listeners(text, 6379), [4242]);
        assert_eq!(listeners(text, 6380), Vec::<u64>::new());
    }
}
