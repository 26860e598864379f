//! Records, and the run that goes on, in a browser: a server on 127.0.0.1 that reads a folder of records and its
//! events, writes an index and the user's notes beside them, and deletes records when its user says so. A run that goes
//! on may be asked to end, by way of [`Surroundings`], and one that [`Server::allow_runs`] allows may be started.
//! Nothing else is changed.
//!
//! **Architecture invariant:** a run neither knows nor waits for this. What is shown of records is rendered by
//! `tare-report`, the drawings of a run that goes on included; nothing is worked out here.
//!
//! **Architecture invariant:** records may be hostile. Everything from them is escaped where it is shown, and no path
//! leaves their folder.

mod answer;
mod changes;
mod compared;
mod contents;
mod database;
mod deleting;
mod drafts;
mod entry;
mod export;
mod findings;
mod follow;
mod guard;
mod history;
mod index;
mod new_runs;
mod noted;
mod notes;
mod now;
mod pages;
mod places;
mod points;
mod programs;
mod query;
mod reports;
mod routes;
mod runs;
mod seconds;
mod server;
mod shelf;
mod starter;
mod stopping;
mod surroundings;
mod tail;
mod timeline;
mod wanted;
mod weighing;

pub use server::{Server, Settings, Stopper};
pub use surroundings::Surroundings;
pub use weighing::{OfferedForm, Weighing};
