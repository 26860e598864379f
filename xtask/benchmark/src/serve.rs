//! How soon `tare serve` shows its pages with many records, and what memory that takes.

use crate::process::{resident_peak_kib, signal};
use crate::ratio::median;
use crate::records::{self, ARMS, FORM, STUDIES};
use crate::workshop::release;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How many records there are, and where.
#[derive(Args)]
pub(crate) struct Options {
    /// Number of records.
    #[arg(long, default_value_t = 10_000)]
    records: u32,
    /// Number of trials of each record, in blocks of four.
    #[arg(long, default_value_t = 100)]
    trials: u32,
    /// Make the records in this folder; needs some GiB and four million inodes for the default numbers.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Time this program instead of one that is built now.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Questions of each kind: the slowest and the median of their times are printed.
const QUESTIONS: u32 = 7;
/// The longest time that records are read until all of them are in the index.
const READ_WITHIN: Duration = Duration::from_secs(4 * 3600);
/// The longest time that is waited for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(600);

/// Makes the records, times the pages, and prints a table. Nothing fails by being slow.
///
/// # Errors
/// When records cannot be made, or the server does not answer.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    ensure!(options.trials >= 3 * ARMS, "--trials must be at least {}: three blocks of {ARMS}", 3 * ARMS);
    ensure!(options.records >= QUESTIONS, "--records must be at least {QUESTIONS}");
    let tare = match &options.binary {
        Some(binary) => binary.clone(),
        None => release(root, &["--package", "tare", "--bin", "tare"])?,
    };
    let above = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let folder = above.join(format!("tare-serve-records-{}", std::process::id()));
    eprintln!("making {} records in {}", options.records, folder.display());
    let began = Instant::now();
    let made = records::make(&folder, options.records, options.trials / ARMS);
    eprintln!("made in {:.0} s", began.elapsed().as_secs_f64());
    let timed = made.and_then(|()| pages(&tare, &folder, options));
    let removed = fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()));
    timed.and(removed)
}

fn pages(tare: &Path, folder: &Path, options: &Options) -> Result<()> {
    println!("{} records of {} trials\n", options.records, options.trials / ARMS * ARMS);
    println!("| what | median | slowest | bound |\n|---|---|---|---|");
    let began = Instant::now();
    let server = Serving::start(tare, folder)?;
    row("server and first page, no index yet", &[server.ask_since(began, "/")?.0], "1 s");
    let count = format!("{} runs", options.records);
    row("until all are listed and found", &[server.wait(began, |list| list.contains(&count))?], "");
    row("until all are read", &[server.wait(began, |list| list.contains("data-busy=\"no\""))?], "");
    memory("memory, all having been read", &server);
    drop(server);
    let began = Instant::now();
    let server = Serving::start(tare, folder)?;
    row("server and first page, with the index", &[server.ask_since(began, "/")?.0], "1 s");
    let numbers = 0..QUESTIONS;
    // From all over the folder.
    let number = |at: u32| options.records / QUESTIONS * at;
    let addresses = |address: &dyn Fn(u32) -> String| numbers.clone().map(address).collect::<Vec<_>>();
    let [study, form] = [STUDIES[1], FORM];
    let kinds: [(&str, Vec<String>, &str); 9] = [
        ("a page of the list", addresses(&|at| format!("/?page={}", 1 + at * options.records / 400)), "1 s"),
        ("search: one run", addresses(&|at| format!("/?part=list&q={}", records::run(number(at)))), "100 ms"),
        ("search: none", addresses(&|at| format!("/?part=list&q=nobody{at}")), "100 ms"),
        ("search: all, two words", addresses(&|at| format!("/?part=list&q=redis+{form}&page={}", at + 1)), "100 ms"),
        ("filters", addresses(&|at| format!("/?part=list&study={study}&form={form}&to=2024-0{}-09", at + 1)), "100 ms"),
        ("a run", addresses(&|at| format!("/run/{}", records::name(number(at)))), "300 ms"),
        ("a run, again", addresses(&|at| format!("/run/{}", records::name(number(at)))), "300 ms"),
        ("history, first", vec![format!("/history?study={study}&form={form}")], ""),
        ("history, again", addresses(&|at| format!("/history?study={study}&form={form}&page={}", at + 1)), ""),
    ];
    for (what, addresses, bound) in kinds {
        let times = addresses.iter().map(|address| server.ask(address).map(|(took, _)| took));
        row(what, &times.collect::<Result<Vec<f64>>>()?, bound);
    }
    memory("memory after that", &server);
    Ok(())
}

/// Prints times, s.
fn row(what: &str, times: &[f64], bound: &str) {
    let slowest = times.iter().copied().fold(0.0, f64::max);
    println!("| {what} | {} | {} | {bound} |", shown(median(times)), shown(slowest));
}

fn shown(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", 1e3 * seconds) } else { format!("{seconds:.2} s") }
}

fn memory(what: &str, server: &Serving) {
    let peak = resident_peak_kib(server.process.id()) as f64 / 1024.0;
    println!("| {what} | {peak:.0} MiB | | 200 MB |");
}

/// A server of these records.
struct Serving {
    process: Child,
    /// `127.0.0.1:4000`, and what all paths begin with.
    host: String,
    base: String,
}

impl Serving {
    fn start(tare: &Path, folder: &Path) -> Result<Serving> {
        let mut command = Command::new(tare);
        command.args(["serve", "--port", "0", "--records"]).arg(folder);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().with_context(|| format!("could not start {}", tare.display()))?;
        let mut link = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut link)?;
        }
        let parts = link.trim().strip_prefix("http://").and_then(|rest| rest.trim_end_matches('/').split_once('/'));
        let found = parts.map(|(host, key)| (host.to_owned(), format!("/{key}")));
        // Dropped without a link, too, the process is ended.
        let (host, base) = found.clone().unwrap_or_default();
        let server = Serving { process, host, base };
        ensure!(found.is_some(), "tare serve printed no link, but '{}'", link.trim());
        Ok(server)
    }

    /// How long a page takes, s, and the page.
    fn ask(&self, page: &str) -> Result<(f64, String)> {
        self.ask_since(Instant::now(), page)
    }

    /// How long it is from `began` until a page is there, s, and the page.
    fn ask_since(&self, began: Instant, page: &str) -> Result<(f64, String)> {
        let mut stream = TcpStream::connect(&self.host)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        let Serving { host, base, .. } = self;
        let head = format!("GET {base}{page} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let took = began.elapsed().as_secs_f64();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        ensure!(answer.starts_with("HTTP/1.1 200"), "{page}: {}", answer.lines().next().unwrap_or_default());
        Ok((took, answer))
    }

    /// How long it is from `began` until the list is like that, s.
    fn wait(&self, began: Instant, is_so: impl Fn(&str) -> bool) -> Result<f64> {
        while began.elapsed() < READ_WITHIN {
            let (_, list) = self.ask("/?part=list&again=yes")?;
            if is_so(&list) {
                return Ok(began.elapsed().as_secs_f64());
            }
            sleep(Duration::from_millis(200));
        }
        bail!("records were still being read after {READ_WITHIN:?}")
    }
}

impl Drop for Serving {
    /// Ends it as Ctrl-C does, so that its index is whole.
    fn drop(&mut self) {
        signal(self.process.id(), libc::SIGINT);
        let _ = self.process.wait();
    }
}
