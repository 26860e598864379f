//! How a run is asked to end from outside: by a signal to the process that made its mark, and to no other.

use crate::owner::Owner;
use crate::processes;
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, test_kill_process};
use std::io::Read;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicI32, Ordering};
use tare_core::fault::{Doing, Fault};
use tare_core::record::{Asker, EndRequest};

/// Asks a run to end after its block.
const AFTER_BLOCK: Signal = Signal::USR1;
/// What Ctrl-C sends.
const AT_ONCE: Signal = Signal::INT;

/// Bytes of what the handler of a signal writes: the numbers of the process that sent it and of its user.
const HEARD: usize = 8;

/// Where the handler writes that; negative before [`on_end_after_block`].
static HEARD_AT: AtomicI32 = AtomicI32::new(-1);

/// Whether this user may ask the run with this id to end.
///
/// # Errors
/// Why not: the run is not in progress on this machine, or belongs to another user.
pub fn may_ask(run: &str) -> Result<(), Fault> {
    Target::of(&owner(run)?, run)?.may_be_asked()
}

/// Asks the run with this id to end. Returns before it has.
///
/// # Errors
/// The run is not in progress on this machine, belongs to another user, or does not know this request.
pub fn ask(run: &str, request: EndRequest) -> Result<(), Fault> {
    Target::of(&owner(run)?, run)?.ask(request)
}

fn owner(run: &str) -> Result<Owner, Fault> {
    Owner::of_run(run).ok_or_else(|| over(run))
}

fn over(run: &str) -> Fault {
    let fault = Fault::new(format!("run {run} is not in progress on this machine"));
    fault.remedy("see the list of runs: it has ended, or another machine carries it out")
}

/// The process that carries out a run, held so that its number cannot pass on.
struct Target<'a> {
    run: &'a str,
    pid: Pid,
    process: OwnedFd,
}

impl<'a> Target<'a> {
    fn of(owner: &Owner, run: &'a str) -> Result<Target<'a>, Fault> {
        let pid = i32::try_from(owner.pid()).ok().and_then(Pid::from_raw).ok_or_else(|| over(run))?;
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Err(over(run)),
            opened => opened.doing(format!("look at the process of run {run}"))?,
        };
        // Only now: whoever has the number and started when the run's process did, is that process, and is held.
        if owner.lives() { Ok(Target { run, pid, process }) } else { Err(over(run)) }
    }

    fn may_be_asked(&self) -> Result<(), Fault> {
        // Of who has the number meanwhile this asks only whether it may be signalled.
        self.sent(test_kill_process(self.pid))
    }

    fn ask(&self, request: EndRequest) -> Result<(), Fault> {
        let signal = match request {
            EndRequest::AfterBlock => AFTER_BLOCK,
            EndRequest::AtOnce => AT_ONCE,
        };
        self.may_be_asked()?;
        if !is_handled(self.pid, signal) {
            // It would be killed, and leave things behind.
            let fault = Fault::new(format!("run {} does not listen to this: an older Tare carries it out", self.run));
            return Err(fault.remedy("press Ctrl-C where it was started"));
        }
        self.sent(pidfd_send_signal(&self.process, signal))
    }

    fn sent(&self, sent: rustix::io::Result<()>) -> Result<(), Fault> {
        match sent {
            Err(Errno::PERM) => {
                let fault = Fault::new(format!("run {} belongs to another user, whom you may not interrupt", self.run));
                Err(fault.remedy("press Ctrl-C where it was started, or start `sudo tare serve`"))
            }
            Err(Errno::SRCH) => Err(over(self.run)),
            sent => sent.doing(format!("signal the process of run {}", self.run)),
        }
    }
}

/// Whether a process does something of its own on a signal.
fn is_handled(pid: Pid, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigCgt:")?.trim(), 16).ok());
    mask.is_some_and(|mask| (mask >> (signal.as_raw() - 1)) & 1 == 1)
}

/// From now on calls `heard`, on a thread of its own, whenever somebody asks this process to end after its block. To be
/// called once.
///
/// # Errors
/// When the kernel gives no pipe or no thread.
pub fn on_end_after_block(mut heard: impl FnMut(Asker) + Send + 'static) -> Result<(), Fault> {
    let doing = "listen to requests to end after a block";
    let (mut told, tells) = std::io::pipe().doing(doing)?;
    // A handler must not wait for room.
    fcntl_setfl(&tells, OFlags::NONBLOCK).doing(doing)?;
    let listening = std::thread::Builder::new().name("requests".to_owned()).spawn(move || {
        let mut sender = [0; HEARD];
        while told.read_exact(&mut sender).is_ok() {
            heard(asker(sender));
        }
    });
    listening.doing(doing)?;
    // Open for as long as this process lives.
    HEARD_AT.store(tells.into_raw_fd(), Ordering::Release);
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = hear;
    // SAFETY: all bits zero are a valid sigaction without flags and with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // Calls that were waiting go on.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler does only what a handler may, and both structures outlive the call.
    let set = unsafe { libc::sigaction(AFTER_BLOCK.as_raw(), &raw const action, std::ptr::null_mut()) };
    if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()).doing(doing) }
}

/// Writes down who has sent the signal.
extern "C" fn hear(_: libc::c_int, facts: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands the facts to a handler with SA_SIGINFO; write is one of the calls that a handler may
    // make, and gets a buffer that is there; errno is this thread's, and put back for the code that was interrupted.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let facts = &*facts;
        let sender = [facts.si_pid().cast_unsigned(), facts.si_uid()];
        libc::write(HEARD_AT.load(Ordering::Acquire), sender.as_ptr().cast(), HEARD);
        *errno = before;
    }
}

/// Who has sent a signal, by what [`hear`] wrote.
fn asker(sender: [u8; HEARD]) -> Asker {
    let [a, b, c, d, user @ ..] = sender;
    // It may have ended, or be out of sight.
    let name = processes::name(u32::from_ne_bytes([a, b, c, d]));
    let name: String = name.chars().filter(|letter| !letter.is_control()).collect();
    Asker { user: u32::from_ne_bytes(user), program: Some(name).filter(|name| !name.is_empty()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    /// A child that ends in its own way on SIGUSR1.
    fn child() -> Child {
        let script = "trap 'exit 7' USR1; echo ready; while :; do sleep 0.05; done";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 6]).unwrap();
        child
    }

    #[test]
    fn only_the_process_that_made_the_mark_is_asked_and_only_if_it_listens() {
        let mut child = child();
        let started = processes::start_time(child.id()).unwrap();
        let passed_on = Target::of(&Owner::made(child.id(), started + 1), "abcdef").err().unwrap();
        assert_eq!(passed_on.message, "run abcdef is not in progress on this machine");
        let owner = Owner::made(child.id(), started);
        let target = || Target::of(&owner, "abcdef").unwrap();
        target().may_be_asked().unwrap();
        let forbidden = target().sent(Err(Errno::PERM)).unwrap_err();
        assert!(forbidden.message.contains("another user") && forbidden.remedy.contains("Ctrl-C"), "{forbidden}");
        target().ask(EndRequest::AfterBlock).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert!(Target::of(&owner, "abcdef").is_err(), "it has ended");
        let mut deaf = Command::new("sleep").arg("60").spawn().unwrap();
        let owner = Owner::made(deaf.id(), processes::start_time(deaf.id()).unwrap());
        for request in [EndRequest::AfterBlock, EndRequest::AtOnce] {
            let unheard = Target::of(&owner, "abcdef").unwrap().ask(request).unwrap_err();
            assert!(unheard.message.contains("does not listen"), "{unheard}");
        }
        assert!(deaf.try_wait().unwrap().is_none(), "it would have been killed");
        deaf.kill().and_then(|()| deaf.wait()).unwrap();
        assert!(may_ask("../etc").is_err() && ask("zzzzzz", EndRequest::AtOnce).is_err());
    }

    #[test]
    fn who_asked_is_heard() {
        let (sender, heard) = std::sync::mpsc::channel();
        on_end_after_block(move |by| sender.send(by).unwrap()).unwrap();
        let own = Pid::from_raw(std::process::id().cast_signed()).unwrap();
        assert!(is_handled(own, AFTER_BLOCK));
        rustix::process::kill_process(own, AFTER_BLOCK).unwrap();
        let by = heard.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
        assert_eq!(by.user, rustix::process::getuid().as_raw());
        assert_eq!(by.program, Some(processes::name(std::process::id())));
        assert_eq!(asker([0; HEARD]), Asker { user: 0, program: None });
    }
}
