//! The server: one thread that talks to browsers, one that keeps the index, and some that read records.

use crate::changes::{change, is_change};
use crate::export::EXPORTS_MOST;
use crate::guard::Guard;
use crate::history::FoundChanges;
use crate::index::Index;
use crate::new_runs::NewRuns;
use crate::notes::Notes;
use crate::pages::Pages;
use crate::places::Places;
use crate::reports::Reports;
use crate::routes::{Site, answer};
use crate::shelf::Shelf;
use crate::stopping::Stopping;
use crate::surroundings::Surroundings;
use crate::weighing::Weighing;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;
use tare_core::fault::{Doing, Fault};
use tokio::sync::{Notify, Semaphore};

/// Threads that read records and make pages.
const MAKERS: usize = 4;
/// Connections at the same time.
const CONNECTIONS_MOST: usize = 128;
/// The largest head of a request, bytes.
const HEAD_MOST: usize = 32 << 10;
/// How long a browser may take to send one.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// The least time between two looks at the whole folder.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is served, and where.
#[derive(Debug)]
pub struct Settings {
    /// The folder of records.
    pub records: PathBuf,
    /// The port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
}

/// A server that listens, and answers once it runs.
pub struct Server {
    listener: TcpListener,
    site: Arc<Site>,
    asked: Receiver<()>,
    stop: Arc<Notify>,
}

/// Ends a server, from any thread.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<Notify>);

impl Stopper {
    /// Has it end, now or as soon as it runs.
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

impl Server {
    /// Listens on 127.0.0.1.
    ///
    /// # Errors
    /// When the folder of records cannot be opened, or the port is taken.
    pub fn bind(settings: &Settings, surroundings: Arc<dyn Surroundings>) -> Result<Server, Fault> {
        let shelf = Shelf::open(&settings.records)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, settings.port));
        let taken = format!("listen on port {} of 127.0.0.1", settings.port);
        let listener = listener.doing(taken).map_err(|fault| fault.remedy("choose another one with --port"))?;
        let listening = listener.set_nonblocking(true).and_then(|()| listener.local_addr());
        let address = listening.doing("listen on 127.0.0.1")?;
        let (ask, asked) = sync_channel(1);
        let guard = Guard::new(address.port())?;
        let site = Site {
            pages: Pages::new(&guard.base())?,
            guard,
            index: Index::open(shelf.path())?,
            shelf,
            reports: Reports::default(),
            found: FoundChanges::default(),
            notes: Notes::default(),
            surroundings,
            stopping: Stopping::default(),
            ask,
            reading: Arc::new(Semaphore::new(1)),
            followers: AtomicUsize::new(0),
            exports: Arc::new(Semaphore::new(EXPORTS_MOST)),
            new_runs: None,
        };
        Ok(Server { listener, site: Arc::new(site), asked, stop: Arc::new(Notify::new()) })
    }

    /// Has a page start runs, as this user, with the priority that the calling thread has now. To be called before the
    /// server runs.
    ///
    /// # Errors
    /// When there can be no thread that starts them.
    pub fn allow_runs(&mut self, weighing: Arc<dyn Weighing>) -> Result<(), Fault> {
        let site = Arc::get_mut(&mut self.site).expect("only the server has it until it runs");
        site.new_runs = Some(NewRuns::of(weighing)?);
        site.pages.allow_runs();
        Ok(())
    }

    /// The link that lets a browser in. Whoever has it may read all records.
    pub fn link(&self) -> String {
        self.site.guard.link()
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn address(&self) -> Result<SocketAddr, Fault> {
        self.listener.local_addr().doing("look where the server listens")
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Answers until it is stopped.
    ///
    /// # Errors
    /// When it cannot begin to.
    pub fn run(self) -> Result<(), Fault> {
        let Server { listener, site, asked, stop } = self;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(MAKERS)
            .build()
            .doing("start the server")?;
        let indexed = site.clone();
        let keeper = std::thread::Builder::new().name("index".to_owned());
        keeper.spawn(move || keep_index(&indexed, &asked)).doing("start a thread")?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).doing("start the server")?;
            tokio::select! {
                () = stop.notified() => {}
                () = accept(&listener, &site) => {}
            }
            Ok::<(), Fault>(())
        })?;
        // Who still reads a record or follows a run is not waited for.
        runtime.shutdown_background();
        site.index.close();
        Ok(())
    }
}

/// Keeps the index as the records are: at once, and whenever it is asked to. It ends with the process.
fn keep_index(site: &Site, asked: &Receiver<()>) {
    loop {
        site.index.refresh(&site.shelf);
        std::thread::sleep(LOOK_EVERY);
        if asked.recv().is_err() {
            return;
        }
    }
}

async fn accept(listener: &tokio::net::TcpListener, site: &Arc<Site>) {
    let places = Places::of(CONNECTIONS_MOST);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files, for one: that passes.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Some(place) = places.take().await else { return };
        let site = site.clone();
        tokio::spawn(async move {
            let known = place.is_known();
            let service = service_fn(move |request: Request<Incoming>| {
                let (site, known) = (site.clone(), known.clone());
                async move {
                    let (head, body) = request.into_parts();
                    if is_change(&site.guard, &head.method, &head.uri) {
                        return Ok(change(site, &known, &head.uri, &head.headers, body).await);
                    }
                    Ok::<_, Infallible>(answer(site, &known, head.method, head.uri, head.headers).await)
                }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(HEAD_MOST);
            tokio::select! {
                // A browser that goes away in the middle is no error.
                _ = builder.serve_connection(TokioIo::new(stream), service) => {}
                () = place.is_to_end() => {}
            }
        });
        // What has come with this connection is read before it could have to leave.
        tokio::task::yield_now().await;
    }
}
