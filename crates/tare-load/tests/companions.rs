//! Companions whose requests are refused, against a peer that knows who is logged in.

use crate::asked;

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tare_core::load::{LoadPlan, LoadSummary};
use tare_testkit::peer::each_connection;

/// How long a poll is held while there is no news.
const HELD: Duration = Duration::from_millis(30);

/// The time limit of an operation.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The answer to a poll.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    /// A status.
    Status(u16),
    /// None: the connection is closed.
    Closed,
    /// None for longer than the time limit.
    Silence,
}

/// The answers to polls.
#[derive(Clone, Copy)]
struct Manners {
    /// Once their user has logged out.
    after: Told,
    /// Before that.
    before: Told,
}

/// The sessions logged in, and how many polls were not answered with status 200.
#[derive(Default)]
struct Sessions {
    open: Mutex<(u64, HashSet<u64>)>,
    changed: Condvar,
    refused: AtomicU64,
}

/// A peer for users who log in, poll for news and log out; a session's polls are answered as soon as it ends.
fn peer(manners: Manners) -> (SocketAddr, Arc<Sessions>) {
    let known = Arc::new(Sessions::default());
    let sessions = Arc::clone(&known);
    (each_connection(move |_, stream| serve(&stream, &sessions, manners)), known)
}

fn serve(mut stream: &TcpStream, sessions: &Sessions, manners: Manners) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(request) = lines.next() {
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        lines.by_ref().find(String::is_empty);
        let mut parts = path.trim_start_matches('/').split('/');
        let what = parts.next().unwrap_or_default();
        let token: u64 = parts.next().and_then(|text| text.parse().ok()).unwrap_or_default();
        let mut open = sessions.open.lock().unwrap();
        let (told, token) = match what {
            "login" => {
                open.0 += 1;
                let token = open.0;
                open.1.insert(token);
                (Told::Status(200), token)
            }
            "logout" => {
                open.1.remove(&token);
                sessions.changed.notify_all();
                (Told::Status(200), token)
            }
            _ => {
                let wait = sessions.changed.wait_timeout_while(open, HELD, |open| open.1.contains(&token));
                open = wait.unwrap().0;
                (if open.1.contains(&token) { manners.before } else { manners.after }, token)
            }
        };
        drop(open);
        // Counted before the other side can know.
        if told != Told::Status(200) {
            sessions.refused.fetch_add(1, Ordering::Relaxed);
        }
        let status = match told {
            Told::Status(status) => status,
            Told::Closed => return,
            Told::Silence => return std::thread::sleep(2 * TIMEOUT),
        };
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nX-Token: {token}\r\n\r\n");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Ten users who log in and out, with companions that poll all the time; returns also how many polls the peer refused.
fn drive(manners: Manners) -> (LoadSummary, u64) {
    drive_polls(manners, true)
}

/// The same with polls that linger, or do not.
fn drive_polls(manners: Manners, lingers: bool) -> (LoadSummary, u64) {
    let (endpoint, sessions) = peer(manners);
    let script = format!(
        "
operations:
  login: {{get: /login, capture: {{token: {{header: X-Token}}}}}}
  news: {{get: '/news/${{token}}', lingers: {lingers}}}
  logout: {{get: '/logout/${{token}}'}}
"
    );
    let only = |to: &str| serde_json::json!({to: 1.0});
    let companions = serde_json::json!({"watch": {
        "after": ["login"], "at_most": 1, "until": {"logout": "all"}, "start": "news", "next": {"news": only("news")},
        "pause": {"think": {"constant": {"secs": 0, "nanos": 0}}},
    }});
    let next = serde_json::json!({"login": only("logout"), "logout": only("login"), "news": only("news")});
    let profile = serde_json::json!({"users": {
        "users": 10, "behaviour": {"markov": {"start": "login", "next": next, "companions": companions}},
        "pause": {"cycle": {"constant": {"secs": 0, "nanos": 50_000_000}}},
        "connections": "own", "ramp": {"secs": 0, "nanos": 0},
    }});
    let plan = LoadPlan {
        timeout: if manners.after == Told::Silence { TIMEOUT } else { Duration::from_secs(3) },
        ..LoadPlan::of("http", asked::options("http", &script), endpoint, serde_json::from_value(profile).unwrap())
    };
    (asked::driven(&plan).unwrap(), sessions.refused.load(Ordering::Relaxed))
}

/// Whether all refusals are reported, except those in flight when measuring ended: one poll of each user's companion,
/// and one of the companion before it.
fn tells(refused: u64, told: u64) -> bool {
    told > 0 && told <= refused && refused - told <= 20
}

#[test]
fn a_poll_whose_user_has_logged_out_may_be_refused() {
    let (summary, refused) = drive(Manners { after: Told::Status(401), before: Told::Status(200) });
    let news = &summary.operations["news"];
    assert!(tells(refused, news.after_end), "{refused} refused: {summary:?}");
    assert!((news.errors, summary.failures.len()) == (0, 0) && news.count > 0, "{summary:?}");
    assert!(summary.operations["logout"].after_end == 0, "{summary:?}");
    let check =
        summary.checks.iter().find(|check| check.name == "every request was answered or counted as failed").unwrap();
    let told = format!("{} refusals after what asked had been ended", news.after_end);
    assert!(check.detail.contains(&told), "{check:?}");
}

#[test]
fn what_is_no_refusal_or_comes_before_the_end_is_a_failure() {
    let (broken, refused) = drive(Manners { after: Told::Status(500), before: Told::Status(200) });
    let news = &broken.operations["news"];
    assert!(
        tells(refused, news.errors) && news.after_end == 0,
        "a service that is at fault, {refused} times: {broken:?}"
    );
    assert_eq!(broken.failures["status 500"], news.errors, "{broken:?}");
    let (hostile, refused) = drive(Manners { after: Told::Status(401), before: Told::Status(401) });
    let news = &hostile.operations["news"];
    assert!(news.errors > 0 && news.count == 0, "nobody has logged out: {hostile:?}");
    assert!(tells(refused, news.errors + news.after_end), "{refused} refused: {hostile:?}");
    assert_eq!(hostile.failures["status 401"], news.errors, "{hostile:?}");
}

#[test]
fn a_poll_whose_user_has_logged_out_may_have_its_connection_closed() {
    let (summary, refused) = drive(Manners { after: Told::Closed, before: Told::Status(200) });
    let news = &summary.operations["news"];
    assert!(tells(refused, news.after_end), "{refused} closed: {summary:?}");
    assert!((news.errors, summary.failures.len()) == (0, 0) && news.count > 0, "{summary:?}");
    // The same if nothing comes at all, until the load closes the connection.
    let (summary, refused) = drive(Manners { after: Told::Silence, before: Told::Status(200) });
    let news = &summary.operations["news"];
    assert!(news.after_end > 0 && news.after_end <= refused && news.errors == 0, "{refused} not answered: {summary:?}");
}

#[test]
fn a_connection_that_is_closed_before_the_end_or_amid_what_is_awaited_is_a_failure() {
    let (hostile, refused) = drive(Manners { after: Told::Closed, before: Told::Closed });
    let news = &hostile.operations["news"];
    assert!(news.errors > 0 && news.count == 0, "nobody has logged out: {hostile:?}");
    assert!(tells(refused, news.errors + news.after_end), "{refused} closed: {hostile:?}");
    assert_eq!(hostile.failures["closed by server"], news.errors, "{hostile:?}");
    // A request that does not linger is answered at once, by any server that works.
    let (broken, refused) = drive_polls(Manners { after: Told::Closed, before: Told::Status(200) }, false);
    let news = &broken.operations["news"];
    assert!(tells(refused, news.errors) && news.after_end == 0, "{refused} closed: {broken:?}");
}
