//! The protocol `http` against a real server: nginx, if it is installed.

use crate::asked;

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tare_core::load::{LoadPlan, LoadProfile, LoadSummary};
use tare_testkit::peer::listen;
use tempfile::TempDir;

/// A server on two free ports, plain and TLS; it ends with the test.
struct Nginx {
    child: Child,
    plain: SocketAddr,
    secured: SocketAddr,
    folder: TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PAGE: &str = "<link href=/style.css><img src=\"a.png\"><img src=\"b.png\"> welcome <a href=\"/item.json\">";

/// None if there is no nginx, with a message on the terminal.
fn start(fill: impl Fn(&Path, SocketAddr, SocketAddr)) -> Option<Nginx> {
    let found = ["/usr/sbin/nginx", "/usr/bin/nginx"].into_iter().find(|path| Path::new(path).exists());
    let Some(program) = found else {
        println!("skipped: nginx is not installed");
        return None;
    };
    let (folder, plain, secured) = (TempDir::new().unwrap(), listen().1, listen().1);
    fill(folder.path(), plain, secured);
    let mut command = Command::new(program);
    command.args(["-e", "stderr", "-c"]).arg(folder.path().join("nginx.conf")).stdin(Stdio::null());
    let child = command.spawn().unwrap();
    let nginx = Nginx { child, plain, secured, folder };
    for _ in 0..200 {
        if TcpStream::connect(plain).is_ok() {
            return Some(nginx);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nginx does not listen");
}

/// Fills a folder with `nginx.conf` and the files it serves.
fn shop(root: &Path, plain: SocketAddr, secured: SocketAddr) {
    let certified = rcgen::generate_simple_self_signed(["shop.test".to_owned()]).unwrap();
    let (page, style) = (format!("{PAGE}{}", "hay ".repeat(5000)), "p { margin: 0 }\n".repeat(300));
    let configuration = format!(
        "daemon off; master_process off; pid {0}/pid; error_log stderr warn;
        events {{}}
        http {{
            access_log off; keepalive_requests 1000000; gzip on; gzip_min_length 100; gzip_types text/css;
            types {{ text/html html; text/css css; image/png png; application/json json; }}
            client_body_temp_path {0}/1; proxy_temp_path {0}/2; fastcgi_temp_path {0}/3;
            uwsgi_temp_path {0}/4; scgi_temp_path {0}/5;
            split_clients $request_id $state {{ 30% sold; * open; }}
            server {{
                listen {plain}; listen {secured} ssl; root {0};
                ssl_certificate {0}/cert.pem; ssl_certificate_key {0}/key.pem; ssl_protocols TLSv1.2 TLSv1.3;
                location = /login {{
                    add_header Set-Cookie 'sid=abc; Path=/'; add_header X-Token t-$arg_user; return 302 /page.html;
                }}
                location = /who {{ return 200 '$cookie_sid $http_authorization'; }}
                location = /item {{ add_header X-State $state; return 200 item; }}
                location = /close {{ keepalive_timeout 0; return 200 bye; }}
            }}
        }}",
        root.display()
    );
    for (name, text) in [
        ("nginx.conf", configuration.as_str()),
        ("cert.pem", &certified.cert.pem()),
        ("key.pem", &certified.signing_key.serialize_pem()),
        ("page.html", &page),
        ("style.css", &style),
        ("a.png", "a"),
        ("b.png", "b"),
        ("item.json", r#"{"items": [{"id": 7}]}"#),
    ] {
        std::fs::write(root.join(name), text).unwrap();
    }
}

fn drive(options: &str, endpoint: SocketAddr) -> LoadSummary {
    drive_as(options, endpoint, LoadProfile::Closed { connections: 4, pipeline: 1 })
}

fn drive_as(options: &str, endpoint: SocketAddr, profile: LoadProfile) -> LoadSummary {
    let plan = LoadPlan {
        settle: Duration::from_millis(100),
        measure: Duration::from_millis(500),
        timeout: Duration::from_secs(5),
        ..LoadPlan::of("http", asked::options("http", options), endpoint, profile)
    };
    asked::driven(&plan).unwrap()
}

const SCRIPT: &str = "
headers: {Accept-Encoding: gzip}
feeds: {user: {uniform: {from: 1, to: 9}}}
operations:
  visit:
    requests:
      - get: /login?user=${user}
        expect: {status: 302}
        capture: {token: {header: X-Token}}
      - get: /login
        redirects: 1
        contains: welcome
        capture: {link: {regex: 'a href=\"([^\"]+)\"'}}
        embedded: [/style.css, {find: 'img src=\"([^\"]+)\"'}]
      - {get: '${link}', expect: {json: {/items/0/id: 7}}, capture: {id: {json: /items/*/id}}}
      - {get: /who, headers: {Authorization: '${id} ${token}'}, contains: 'abc 7 t-${user}'}
";

#[test]
fn scripts_work_plain_and_secured() {
    let Some(nginx) = start(shop) else { return };
    let pem = nginx.folder.path().join("cert.pem");
    for (tls, endpoint, facts) in [
        (String::new(), nginx.plain, 1),
        (format!("tls: {{verify: {}, name: shop.test, version: '1.2'}}", pem.display()), nginx.secured, 2),
        (format!("tls: {{verify: {}, name: shop.test}}", pem.display()), nginx.secured, 2),
    ] {
        let summary = drive(&format!("{tls}\n{SCRIPT}"), endpoint);
        assert!(summary.failures.is_empty() && summary.operations["visit"].count > 10, "{tls}: {summary:?}");
        assert_eq!(summary.facts.len(), facts, "{:?}", summary.facts);
        let unchanged = "of them not modified";
        assert!(summary.facts["requests of visit"].contains(unchanged), "{:?}", summary.facts);
    }
}

#[test]
fn connections_that_nginx_closes_are_made_anew() {
    let Some(nginx) = start(shop) else { return };
    let summary = drive("requests: [{path: /close, contains: bye}]", nginx.plain);
    assert!(summary.failures.is_empty() && summary.operations["GET /close"].count > 10, "{summary:?}");
    // The same in the middle of operations.
    let script = "operations: {a: {requests: [{get: /close}, {get: /item.json}, {get: /close}, {get: /who}]}}";
    let tls = "tls: {verify: false}";
    for (options, endpoint) in [(script.to_owned(), nginx.plain), (format!("{tls}\n{script}"), nginx.secured)] {
        let summary = drive(&options, endpoint);
        assert!(summary.failures.is_empty() && summary.operations["a"].count > 10, "{summary:?}");
    }
}

#[test]
fn users_go_where_what_they_captured_leads() {
    let Some(nginx) = start(shop) else { return };
    let script = "
operations:
  look: {get: /item, capture: {state: {header: X-State}}}
  leave: {get: /who}
  wait: {get: /who}
";
    let after_look = serde_json::json!([
        {"when": {"variable": "state", "is": ["sold", "lost"]}, "to": {"leave": 1.0}},
        {"unless": {"variable": "state", "is": []}, "to": {"look": 1.0}},
        {"to": {"wait": 1.0}},
    ]);
    let next = serde_json::json!({"look": after_look, "leave": {"look": 1.0}, "wait": {"look": 1.0}});
    let profile = serde_json::json!({"users": {
        "users": 20, "behaviour": {"markov": {"start": "look", "next": next}},
        "pause": {"think": {"constant": {"secs": 0, "nanos": 1_000_000}}},
        "connections": "own", "ramp": {"secs": 0, "nanos": 0},
    }});
    let summary = drive_as(script, nginx.plain, serde_json::from_value(profile).unwrap());
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    let count = |name: &str| summary.operations[name].count;
    let (looks, leaves, waits) = (count("look"), count("leave"), count("wait"));
    // One follows each look, except for those in progress at either end.
    assert!(looks > 200 && looks.abs_diff(leaves + waits) <= 40, "{looks}, {leaves}, {waits}");
    // Five standard deviations of a share of 0.3.
    let share = leaves as f64 / (leaves + waits) as f64;
    let deviation = (0.3 * 0.7 / (leaves + waits) as f64).sqrt();
    assert!((share - 0.3).abs() < 5.0 * deviation + 0.005, "{share} of {looks}");
}

#[test]
fn companions_go_on_beside_their_users() {
    let Some(nginx) = start(shop) else { return };
    let script = "
operations:
  join: {get: /who}
  look: {get: /item}
  news: {get: /item, lingers: true, capture: {state: {header: X-State}}}
  leave: {get: /who}
";
    let only = |to: &str| serde_json::json!({to: 1.0});
    let companions = serde_json::json!({"watch": {
        "after": ["join"], "at_most": 2, "until": {"leave": "all"}, "start": "news", "next": {"news": only("news")},
        "pause": {"cycle": {"constant": {"secs": 0, "nanos": 10_000_000}}}, "tells": {"state": "state"},
    }});
    let after_join = serde_json::json!([
        {"unless": {"variable": "watch", "is": ["2"]}, "to": only("join")},
        {"to": only("look")},
    ]);
    // The value passed on by the companion decides: without it, a user would look for ever.
    let after_look = serde_json::json!([
        {"when": {"variable": "state", "is": []}, "to": {"look": 9.0, "leave": 1.0}},
        {"to": only("look")},
    ]);
    let next = serde_json::json!({
        "join": after_join, "look": after_look, "leave": only("join"), "news": only("news"),
    });
    let profile = serde_json::json!({"users": {
        "users": 20, "behaviour": {"markov": {"start": "join", "next": next, "companions": companions}},
        "pause": {"cycle": {"constant": {"secs": 0, "nanos": 10_000_000}}},
        "connections": "own", "ramp": {"secs": 0, "nanos": 0},
    }});
    let summary = drive_as(script, nginx.plain, serde_json::from_value(profile).unwrap());
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
    let count = |name: &str| summary.operations[name].count;
    let (joins, looks, news, leaves) = (count("join"), count("look"), count("news"), count("leave"));
    assert!(leaves > 10, "{:?}", summary.operations);
    // Two joins per session, and while a user looks, twice as much news as looks.
    assert!(joins.abs_diff(2 * leaves) <= 40, "{joins} joins, {leaves} leaves");
    let ratio = news as f64 / looks as f64;
    assert!((1.6..2.4).contains(&ratio), "{news} news, {looks} looks");
    assert!(summary.operations["news"].lingers && !summary.operations["look"].lingers);
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused() {
    let Some(nginx) = start(shop) else { return };
    let other = TempDir::new().unwrap();
    let certified = rcgen::generate_simple_self_signed(["shop.test".to_owned()]).unwrap();
    let pem = other.path().join("cert.pem");
    std::fs::write(&pem, certified.cert.pem()).unwrap();
    let options = format!("tls: {{verify: {}, name: shop.test}}\nrequests: [{{path: /who}}]", pem.display());
    let told = std::panic::catch_unwind(|| drive(&options, nginx.secured)).unwrap_err();
    let told = told.downcast_ref::<String>().unwrap();
    assert!(told.contains("certificate refused"), "{told}");
}

#[test]
fn visits_to_the_shipped_site_are_answered() {
    let site = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/nginx-site");
    let copy = |root: &Path, plain: SocketAddr, _: SocketAddr| {
        for entry in std::fs::read_dir(&site).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), root.join(entry.file_name())).unwrap();
        }
        let text = std::fs::read_to_string(site.join("nginx.conf")).unwrap();
        let folder = root.display().to_string();
        let text = text.replace("0.0.0.0:8080", &plain.to_string()).replace("/srv/www", &folder);
        let text = text.replace("/scratch", &folder).replace("worker_processes 1", "master_process off");
        std::fs::write(root.join("nginx.conf"), text).unwrap();
    };
    let Some(nginx) = start(copy) else { return };
    let text = std::fs::read_to_string(site.join("workload.yaml")).unwrap();
    let options = text.split("    http:\n").nth(1).unwrap();
    let summary = drive(options, nginx.plain);
    assert!(summary.failures.is_empty(), "{summary:?}");
    let counts: Vec<u64> = ["home", "item", "search", "login"].map(|name| summary.operations[name].count).into();
    assert!(counts.iter().all(|count| *count > 0) && counts[1] > counts[2], "{counts:?}");
}
