//! The emulated machine, and the line on which orders go in and answers come out.

use super::system::System;
use anyhow::{Context, Result, bail, ensure};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take from power on until its engine answers, emulated and on a busy machine.
const BOOT_LIMIT: Duration = Duration::from_secs(600);
/// How nice it is to what runs beside it: of the same CPU it gets a ninth of what one at 0 gets.
const NICENESS: i32 = 10;
/// How often it is looked whether the guest still lives while nothing comes.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How much is shown of a console.
const LINES_SHOWN: usize = 40;

/// A guest that does orders, until it is dropped.
pub(super) struct Machine {
    line: UnixStream,
    /// How many orders it was given.
    orders: u64,
    console: PathBuf,
    _qemu: Qemu,
    /// The disk with the programs and the console; and the socket, whose path must be short.
    _folders: [tempfile::TempDir; 2],
}

impl Machine {
    /// Boots a system with the programs on a second disk, in `programs`, and waits until it stands.
    ///
    /// # Errors
    /// When it does not, with the last lines of its console.
    pub(super) fn boot(system: &System, programs: tempfile::TempDir) -> Result<Machine> {
        let short = tempfile::tempdir().context("make a folder for the guest's socket")?;
        let socket = short.path().join("orders");
        let listener = UnixListener::bind(&socket).context("make the guest's socket")?;
        listener.set_nonblocking(true)?;
        let console = programs.path().join("console");
        let mut qemu = start(system, programs.path(), &socket, &console)?;
        let deadline = Instant::now() + BOOT_LIMIT;
        let line = loop {
            match listener.accept() {
                Ok((line, _)) => break line,
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    return Err(error).context("wait for QEMU to connect");
                }
                Err(_) => {}
            }
            ensure!(Instant::now() < deadline, "QEMU does not connect");
            if let Some(status) = qemu.0.try_wait()? {
                bail!("QEMU ended ({status}): {}", last_lines(&programs.path().join("qemu.log")));
            }
            std::thread::sleep(LOOK_EVERY);
        };
        line.set_nonblocking(false)?;
        line.set_read_timeout(Some(LOOK_EVERY))?;
        let mut machine = Machine { line, orders: 0, console, _qemu: qemu, _folders: [programs, short] };
        let (code, said) = machine.answer(deadline)?;
        let seconds = BOOT_LIMIT.as_secs();
        let code = code.with_context(|| format!("it is not up after {seconds} s:\n{}", machine.last_words()))?;
        ensure!(code == 0, "{said}\n{}", machine.last_words());
        println!("guest    {}", said.trim());
        Ok(machine)
    }

    /// Has the guest's shell do a line; the code it ends with, none when it takes longer than `within`, and its output.
    ///
    /// # Errors
    /// When the guest is gone.
    pub(super) fn order(&mut self, line: &str, within: Duration) -> Result<(Option<i32>, String)> {
        assert!(!line.contains('\n'), "an order is one line");
        self.orders += 1;
        self.line.write_all(format!("{line}\n").as_bytes()).context("send an order to the guest")?;
        self.answer(Instant::now() + within)
    }

    /// Reads up to the line that ends the answer to the last order.
    fn answer(&mut self, deadline: Instant) -> Result<(Option<i32>, String)> {
        let mark = format!("\n== {} ended ", self.orders);
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        while Instant::now() < deadline {
            match self.line.read(&mut buffer) {
                Ok(0) => bail!("the guest is gone:\n{}\n{}", String::from_utf8_lossy(&bytes), self.last_words()),
                Ok(read) => bytes.extend_from_slice(&buffer[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
                Err(error) => return Err(error).context("read from the guest"),
            }
            let said = String::from_utf8_lossy(&bytes);
            if let Some((before, rest)) = said.rsplit_once(&mark)
                && let Some(code) = rest.strip_suffix('\n')
            {
                return Ok((Some(code.parse().context("the guest's answer has no exit code")?), before.to_owned()));
            }
        }
        Ok((None, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// What its console said last.
    fn last_words(&self) -> String {
        format!("the guest's console ends:\n{}", last_lines(&self.console))
    }
}

/// QEMU. Dropping it switches its guest off, which keeps nothing and so has nothing to shut down in order.
struct Qemu(Child);

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts QEMU, which ends with this thread at the latest.
fn start(system: &System, folder: &Path, socket: &Path, console: &Path) -> Result<Qemu> {
    let disk = |path: &Path| format!("file={},format=raw,if=virtio,snapshot=on,cache=unsafe", path.display());
    let mut command = Command::new("qemu-system-x86_64");
    command.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "3G"]);
    command.args(["-nodefaults", "-display", "none", "-nic", "none", "-no-reboot", "-device", "virtio-rng-pci"]);
    command.arg("-kernel").arg(system.kernel()).arg("-initrd").arg(system.first_files());
    command.args(["-append", "root=/dev/vda rw console=ttyS0 quiet systemd.show_status=0 systemd.log_target=console"]);
    command.args(["-drive", &disk(&system.disk()), "-drive", &disk(&folder.join("programs.ext4"))]);
    command.arg("-serial").arg(format!("file:{}", console.display()));
    command.arg("-chardev").arg(format!("socket,id=orders,path={}", socket.display()));
    command.args(["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=orders,name=orders"]);
    let log = std::fs::File::create(folder.join("qemu.log")).context("make QEMU's log")?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    // SAFETY: prctl and setpriority are safe to be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS);
            Ok(())
        });
    }
    command.spawn().map(Qemu).context("could not run qemu-system-x86_64")
}

fn last_lines(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose line a thread answers.
    fn machine(answer: impl FnOnce(UnixStream) + Send + 'static) -> Machine {
        let (line, other) = UnixStream::pair().expect("a pair of sockets");
        line.set_read_timeout(Some(Duration::from_millis(1))).expect("it is a socket");
        std::thread::spawn(move || answer(other));
        let folders = [0, 1].map(|_| tempfile::tempdir().expect("a folder"));
        let qemu = Qemu(Command::new("sleep").arg("60").spawn().expect("there is sleep"));
        Machine { line, orders: 0, console: folders[0].path().join("console"), _qemu: qemu, _folders: folders }
    }

    fn heard(line: &mut UnixStream) -> String {
        let mut bytes = [0; 100];
        let read = line.read(&mut bytes).expect("an order");
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }

    #[test]
    fn an_answer_ends_with_its_own_number() {
        let mut machine = machine(|mut line| {
            assert_eq!(heard(&mut line), "true\n");
            for part in ["== 7 ended 0\nhel", "lo\n\n== 1 end", "ed 3", "\n"] {
                line.write_all(part.as_bytes()).expect("it listens");
                std::thread::sleep(Duration::from_millis(5));
            }
            heard(&mut line);
        });
        let (code, said) = machine.order("true", Duration::from_secs(60)).expect("it answers");
        assert_eq!((code, said.as_str()), (Some(3), "== 7 ended 0\nhello\n"));
    }

    #[test]
    fn a_timeout_gives_no_exit_code_and_a_dead_guest_is_reported() {
        let mut slow = machine(|mut line| {
            line.write_all(b"half").expect("it listens");
            heard(&mut line);
            heard(&mut line);
        });
        let (code, said) = slow.order("sleep", Duration::from_millis(50)).expect("it is there");
        assert_eq!((code, said.as_str()), (None, "half"));
        let mut gone = machine(drop);
        let error = gone.order("true", Duration::from_secs(60)).map(|_| ()).expect_err("nobody is there");
        assert!(format!("{error:#}").contains("guest"), "{error:#}");
    }
}
