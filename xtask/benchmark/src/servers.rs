//! The servers that are asked: real ones, fresh for each comparison, on one CPU of their own, on loopback.

use crate::process::{SERVER_CPU, family, find, pinned, run, signal};
use crate::sql::{Driver, sysbench_server};
use crate::tool::ACCOUNTS;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One Redis that keeps nothing on disk.
    Redis,
    /// One Redis that answers a SET when it is on the disk.
    SyncedRedis,
    /// One nginx worker with a file of 1 KiB.
    Nginx,
    /// PostgreSQL with pgbench's tables, without fsync.
    Postgres,
    /// MariaDB with sysbench's table, without a flush at each commit.
    MariaDb,
}

/// Bytes of the file that nginx serves.
const FILE_BYTES: usize = 1024;
/// How long a server may take to answer at first.
const START_MAX: Duration = Duration::from_secs(30);

/// A running server; it ends when this is dropped.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
    /// Where it listens, on 127.0.0.1.
    pub(crate) port: u16,
}

impl Server {
    /// Starts a server with its files in `folder`, which must not exist, and waits until it accepts connections.
    ///
    /// # Errors
    /// When it is not installed or does not answer.
    pub(crate) fn start(kind: Kind, folder: &Path) -> Result<Server> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
        let mut command = match kind {
            Kind::Redis | Kind::SyncedRedis => redis(kind, port, folder)?,
            Kind::Nginx => nginx(port, folder)?,
            Kind::Postgres => postgres(port, folder)?,
            Kind::MariaDb => mariadb(port, folder)?,
        };
        let log = fs::File::create(folder.join("server.log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("could not start {command:?}"))?;
        let mut server = Server { child, folder: folder.to_owned(), port };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait()?;
            let waited = ended.is_none() && start.elapsed() < START_MAX;
            let said = || fs::read_to_string(server.folder.join("server.log")).unwrap_or_default();
            ensure!(waited, "{kind:?} does not answer ({ended:?}):\n{}", said());
            std::thread::sleep(Duration::from_millis(20));
        }
        match kind {
            Kind::Postgres => fill_accounts(port)?,
            Kind::MariaDb => {
                let said = fs::read_to_string(server.folder.join("server.log")).unwrap_or_default();
                fill_rows(Driver::MySql, port).with_context(|| format!("MariaDB's log:\n{said}"))?;
            }
            Kind::Redis | Kind::SyncedRedis | Kind::Nginx => {}
        }
        Ok(server)
    }

    /// The processes that answer, which are to stop for it to be frozen.
    pub(crate) fn processes(&self) -> Vec<u32> {
        family(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let processes = self.processes();
        processes.iter().for_each(|pid| signal(*pid, libc::SIGCONT));
        // PostgreSQL ends at once and cleans up after itself at SIGQUIT; the others have nothing to clean up.
        signal(self.child.id(), libc::SIGQUIT);
        for _ in 0..100 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn installed(program: &str) -> Result<PathBuf> {
    find(program).with_context(|| format!("{program} is not installed"))
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn redis(kind: Kind, port: u16, folder: &Path) -> Result<Command> {
    let mut arguments = words(&format!("--port {port} --bind 127.0.0.1 --daemonize no --maxclients 30000 --save"));
    arguments.push(String::new());
    let log = if kind == Kind::SyncedRedis { "yes --appendfsync always" } else { "no" };
    arguments.extend(words(&format!("--appendonly {log} --tcp-backlog 4096 --dir {}", folder.display())));
    Ok(pinned(SERVER_CPU, &installed("redis-server")?, &arguments))
}

fn nginx(port: u16, folder: &Path) -> Result<Command> {
    let place = folder.display();
    let settings = format!(
        "daemon off; worker_processes 1; user root; pid {place}/pid; error_log {place}/error.log warn;\n\
         worker_rlimit_nofile 40000;\n\
         events {{ worker_connections 20000; }}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 600s;\n\
         server {{ listen 127.0.0.1:{port} backlog=4096; root {place}; }} }}\n"
    );
    fs::write(folder.join("nginx.conf"), settings)?;
    fs::write(folder.join("file"), vec![b'x'; FILE_BYTES])?;
    let arguments = words(&format!("-p {place} -c {place}/nginx.conf -e {place}/error.log"));
    Ok(pinned(SERVER_CPU, &installed("nginx")?, &arguments))
}

/// PostgreSQL refuses to run as root, so it runs as the user that its package makes.
fn postgres(port: u16, folder: &Path) -> Result<Command> {
    let data = folder.join("data");
    let own = Command::new("chown").args(["postgres", &folder.display().to_string()]).status()?;
    ensure!(own.success(), "there is no user 'postgres'");
    let runuser = PathBuf::from("runuser");
    let initdb = installed("initdb")?;
    let make = words(&format!("-u postgres -- {} -D {} -A trust -U postgres", initdb.display(), data.display()));
    run(Command::new(&runuser).args(&make).current_dir("/"), "", Duration::from_secs(120))?;
    let program = installed("postgres")?;
    let settings = "-c fsync=off -c autovacuum=off -c max_connections=200 -c listen_addresses=127.0.0.1";
    let mut arguments = words(&format!("-u postgres -- {} -D {} -p {port}", program.display(), data.display()));
    arguments.extend(words(&format!("{settings} -c unix_socket_directories={}", folder.display())));
    let mut command = pinned(SERVER_CPU, &runuser, &arguments);
    command.current_dir("/");
    Ok(command)
}

/// MariaDB runs as the user that its package makes, and asks nobody who he is.
fn mariadb(port: u16, folder: &Path) -> Result<Command> {
    let place = folder.display();
    let own = Command::new("chown").args(["mysql", &place.to_string()]).status()?;
    ensure!(own.success(), "there is no user 'mysql'");
    let make = words(&format!(
        "--no-defaults --user=mysql --datadir={place}/data --auth-root-authentication-method=normal --skip-test-db"
    ));
    run(Command::new(installed("mariadb-install-db")?).args(&make), "", Duration::from_secs(120))?;
    fs::write(folder.join("start"), "CREATE DATABASE sbtest;\n")?;
    let arguments = words(&format!(
        "--no-defaults --user=mysql --datadir={place}/data --port={port} --bind-address=127.0.0.1 \
         --socket={place}/socket --pid-file={place}/pid --init-file={place}/start \
         --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=128M"
    ));
    Ok(pinned(SERVER_CPU, &installed("mariadbd")?, &arguments))
}

fn fill_accounts(port: u16) -> Result<()> {
    let scale = ACCOUNTS / 100_000;
    let arguments = words(&format!("-i -q -s {scale} -h 127.0.0.1 -p {port} -U postgres postgres"));
    let mut command = Command::new(installed("pgbench")?);
    let mut tries = 0;
    // It may listen before it takes commands.
    while let Err(error) = run(command.args(&arguments), "", Duration::from_secs(120)) {
        tries += 1;
        ensure!(tries < 20, "{error}");
        command = Command::new(installed("pgbench")?);
        std::thread::sleep(Duration::from_millis(200));
    }
    if find("sysbench").is_some() { fill_rows(Driver::PgSql, port) } else { Ok(()) }
}

/// Makes sysbench's table.
fn fill_rows(driver: Driver, port: u16) -> Result<()> {
    let arguments = words(&format!("oltp_point_select {} prepare", sysbench_server(driver, port)));
    run(Command::new(installed("sysbench")?).args(arguments), "", Duration::from_secs(120)).map(drop)
}
