//! Operations of several requests.

use super::*;
use std::cell::Cell;

const LOGIN: &str = "
headers: {User-Agent: tare}
feeds: {user: {choice: [anna b]}, item: {uniform: {from: 7, to: 7}}}
operations:
  login:
    requests:
      - post: /login
        form: {name: '${user}', password: 'p&${item}'}
        expect: {status: 302}
        capture: {token: {header: X-Token}, session: {cookie: sid}}
      - get: /home?item=${item}&who=${user}
        headers: {Authorization: 'Bearer ${token}'}
        expect: {contains: 'welcome ${user}'}
        capture: {next: {regex: 'href=\"([^\"]+)\"'}}
      - get: '${next}&item=${item}&who=${user}'
        expect: {json: {/items/0/owner: '${user}'}}
        capture: {bid: {json: '/items/*/id'}, more: {json: /more, optional: true}}
      - post: /bid/${session}
        json: {id: '${bid}', amount: 5, who: '${user}', note: 'say \"hi\"'}
        expect: {status: 201}
      - {get: /more, when: more}
      - {get: /less, unless: more}
";

fn shop(request: &str) -> Vec<u8> {
    let path = request.split(' ').nth(1).unwrap();
    match path.split('?').next().unwrap() {
        "/login" => reply(302, "x-token: t1\r\nSet-Cookie: sid=s9; Path=/\r\n", ""),
        "/home" => reply(200, "", "welcome anna b <a href=\"../list?of=a b\">").replace_space(),
        "/list" => reply(200, "", r#"{"items": [{"owner": "anna b", "id": 41}]}"#),
        "/bid/s9" => reply(201, "", ""),
        "/less" => reply(200, "", ""),
        other => panic!("nobody should ask for {other}"),
    }
}

trait Fix {
    fn replace_space(self) -> Self;
}

impl Fix for Vec<u8> {
    /// Links in pages have no spaces.
    fn replace_space(self) -> Self {
        String::from_utf8(self).unwrap().replace("of=a b\">", "of=a+b\">").into_bytes()
    }
}

#[test]
fn values_pass_from_reply_to_request() {
    let http = http(LOGIN);
    let mut rig = Rig::new(&http);
    assert_eq!(rig.run(0, &shop), Reply::Right);
    let lines = [
        "POST /login",
        "GET /home?item=7&who=anna%20b",
        "GET /list?of=a+b&item=7&who=anna%20b",
        "POST /bid/s9",
        "GET /less",
    ];
    assert_eq!(rig.lines(), lines);
    let body = |at: usize| rig.sent[at].split("\r\n\r\n").nth(1).unwrap();
    assert_eq!(body(0), "name=anna%20b&password=p%267");
    let bid: serde_json::Value = serde_json::from_str(body(3)).unwrap();
    assert_eq!(bid, serde_json::json!({"id": "41", "amount": 5, "who": "anna b", "note": "say \"hi\""}));
    assert!(rig.sent[0].contains("Content-Type: application/x-www-form-urlencoded\r\n"), "{}", rig.sent[0]);
    assert!(rig.sent[0].contains(&format!("Content-Length: {}\r\n", body(0).len())));
    assert!(rig.sent[1].contains("Authorization: Bearer t1\r\n") && rig.sent[1].contains("Cookie: sid=s9\r\n"));
    assert!(!rig.sent[0].contains("Cookie"));
    let facts = http.facts();
    assert_eq!(facts["requests of login"].matches(": 1").count(), 5, "{facts:?}");
}

#[test]
fn an_operation_ends_with_its_first_wrong_reply() {
    let http = http(LOGIN);
    for (path, failure) in
        [("/login", Failure::Status(200)), ("/list", Failure::WrongReply), ("/home", Failure::WrongReply)]
    {
        let mut rig = Rig::new(&http);
        let broken = |request: &str| {
            if request.contains(&format!(" {path}")) { reply(200, "", "nothing") } else { shop(request) }
        };
        assert_eq!(rig.run(0, &broken), Reply::Wrong(failure), "{path}");
        assert!(rig.sent.last().unwrap().contains(path));
    }
    let mute = |request: &str| {
        if request.contains(" /home") { reply(200, "", "welcome anna b, no link") } else { shop(request) }
    };
    assert_eq!(Rig::new(&http).run(0, &mute), Reply::Wrong(Failure::Capture));
    let silent = |request: &str| if request.contains(" /login") { reply(302, "", "") } else { shop(request) };
    assert_eq!(Rig::new(&http).run(0, &silent), Reply::Wrong(Failure::Capture));
}

#[test]
fn values_of_other_operations_are_there_or_named_as_missing() {
    let http = http(
        "operations: {use: {get: '/x/${id}'}, get: {get: /, capture: {id: {json: /id}}},
        late: {requests: [{get: /, capture: {no: {header: X, optional: true}}}, {get: '/y/${no}'}]}}",
    );
    let mut rig = Rig::new(&http);
    let answer = |_: &str| reply(200, "", r#"{"id": "a/b"}"#);
    assert_eq!(rig.run(0, &answer), Reply::Wrong(Failure::Unset));
    assert_eq!(rig.run(1, &answer), Reply::Right);
    assert_eq!(rig.run(0, &answer), Reply::Right);
    assert_eq!(rig.lines(), ["GET /x/", "GET /", "GET /x/a%2Fb"]);
    assert_eq!(rig.run(2, &answer), Reply::Wrong(Failure::Unset));
    assert_eq!(rig.sent.len(), 4, "what cannot be said is not said");
}

#[test]
fn values_cannot_add_lines() {
    let http =
        http("operations: {a: {requests: [{get: /, capture: {v: {json: ''}}}, {get: /, headers: {X: '${v}'}}]}}");
    let mut rig = Rig::new(&http);
    assert_eq!(rig.run(0, &|_| reply(200, "", r#""a\r\nEvil: b""#)), Reply::Right);
    assert!(rig.sent[1].contains("X: a  Evil: b\r\n"), "{}", rig.sent[1]);
}

#[test]
fn redirects_are_followed_as_far_as_is_said() {
    let http =
        http("redirects: 3\noperations: {a: {post: /a, form: {x: y}, contains: end}, b: {post: /b, body: keep}}");
    let answer = |request: &str| match request.split(' ').nth(1).unwrap() {
        "/a" => reply(302, "Location: d/b?c\r\nSet-Cookie: k=v\r\n", "not the end"),
        "/d/b?c" => reply(301, "Location: http://127.0.0.1:8080/e\r\n", ""),
        "/e" => reply(200, "", "the end"),
        "/b" => reply(307, "Location: /kept\r\n", ""),
        "/kept" => reply(200, "", ""),
        other => panic!("{other}"),
    };
    let mut rig = Rig::new(&http);
    assert_eq!(rig.run(0, &answer), Reply::Right);
    assert_eq!(rig.lines(), ["POST /a", "GET /d/b?c", "GET /e"]);
    assert!(rig.sent[2].contains("Cookie: k=v") && !rig.sent[2].contains("Content-Length"), "{}", rig.sent[2]);
    let mut rig = Rig::new(&http);
    assert_eq!(rig.run(1, &answer), Reply::Right);
    assert_eq!(rig.lines(), ["POST /b", "POST /kept"]);
    assert!(rig.sent[1].ends_with("Content-Length: 4\r\n\r\nkeep"));
    let redirect = Reply::Wrong(Failure::Redirect);
    let mut rig = Rig::new(&http);
    assert_eq!(rig.run(1, &|_| reply(302, "Location: /b\r\n", "")), redirect);
    assert_eq!(rig.sent.len(), 4);
    assert_eq!(Rig::new(&http).run(1, &|_| reply(302, "Location: https://other.test/\r\n", "")), redirect);
    assert_eq!(Rig::new(&http).run(1, &|_| reply(302, "", "")), Reply::Wrong(Failure::Status(302)));
}

#[test]
fn a_redirect_to_this_host_may_say_the_usual_port_or_leave_it_out() {
    let text = "redirects: 1\nheaders: {Host: shop.test}\nrequests: [{path: /a}]";
    let secure = format!("tls: {{verify: false, name: cdn.test}}\n{text}");
    let follows = |http: &Http, scheme: &str, host: &str| {
        let location = format!("{scheme}://{host}/b");
        let secured = http.tls.is_some();
        super::super::redirect::resolve(location.as_bytes(), b"/a", secured, &http.program.hosts).is_some()
    };
    let plain = http_at(text, "127.0.0.1:80");
    for host in ["127.0.0.1", "127.0.0.1:80", "shop.test", "shop.test:80"] {
        assert!(follows(&plain, "http", host), "{host}");
    }
    let six = http_at(&secure, "[::1]:443");
    for host in ["[::1]", "[::1]:443", "shop.test:443", "cdn.test", "cdn.test:443"] {
        assert!(follows(&six, "https", host), "{host}");
    }
    assert!(!follows(&six, "https", "[::1]:80") && !follows(&plain, "http", "127.0.0.1:8080"));
    let other = http_at(text, "127.0.0.1:8080");
    assert!(follows(&other, "http", "127.0.0.1:8080") && !follows(&other, "http", "127.0.0.1"));
}

#[test]
fn a_path_with_values_is_written_where_the_last_one_was() {
    let http = http("feeds: {id: {uniform: {from: 1, to: 9}}}\noperations: {a: {get: '/x?id=${id}'}}");
    let mut rig = Rig::new(&http);
    rig.run(0, &|_| reply(200, "", ""));
    let before = rig.session.trip.path.as_ptr();
    rig.run(0, &|_| reply(200, "", ""));
    assert!(rig.sent[1].starts_with("GET /x?id="), "{}", rig.sent[1]);
    assert_eq!(rig.session.trip.path.as_ptr(), before, "the buffer is not made anew");
}

fn pages(cache: &str) -> Http {
    http(&format!(
        "cache: {cache}
operations:
  page:
    get: /dir/page
    embedded: {{css: /style.css, logo: '/logo.png', again: /style.css, images: {{find: 'src=\"([^\"]+)\"', max: 2}}}}
  leave: {{get: /bye, forget: true}}"
    ))
}

/// A page with images; the images change when `version` does.
fn album(request: &str, version: u32) -> Vec<u8> {
    let path = request.split(' ').nth(1).unwrap();
    let tag = format!("\"{path} {version}\"");
    match path {
        "/dir/page" => reply(200, "", r#"<img src="one.png"><img src="/two.png"><img src="three.png">"#),
        "/bye" => reply(200, "", ""),
        _ if request.contains(&format!("If-None-Match: {tag}\r\n")) => b"HTTP/1.1 304 Same\r\n\r\n".to_vec(),
        _ => reply(200, &format!("ETag: {tag}\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), "image"),
    }
}

const ALBUM: [&str; 5] = ["GET /dir/page", "GET /style.css", "GET /logo.png", "GET /dir/one.png", "GET /two.png"];

#[test]
fn embedded_resources_are_fetched_once_and_asked_for_changes() {
    let http = pages("revalidate");
    let mut rig = Rig::new(&http);
    assert_eq!(rig.run(0, &|request| album(request, 1)), Reply::Right);
    assert_eq!(rig.lines(), ALBUM);
    assert!(rig.sent.iter().all(|request| !request.contains("If-")));
    rig.sent.clear();
    assert_eq!(rig.run(0, &|request| album(request, 1)), Reply::Right);
    assert_eq!(rig.lines(), ALBUM);
    let dated = "If-None-Match: \"/style.css 1\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    assert!(rig.sent[1].contains(dated), "{}", rig.sent[1]);
    assert_eq!(rig.run(0, &|request| album(request, 2)), Reply::Right);
    assert_eq!(http.facts()["requests of page"], "GET /dir/page: 3, 12 embedded, 4 of them not modified");
    rig.sent.clear();
    assert_eq!(rig.run(1, &|request| album(request, 2)), Reply::Right);
    assert_eq!(rig.run(0, &|request| album(request, 2)), Reply::Right);
    assert!(rig.sent.iter().all(|request| !request.contains("If-")), "it was told to forget");
}

#[test]
fn caches_may_keep_or_be_off() {
    let kept = pages("keep");
    let mut rig = Rig::new(&kept);
    for _ in 0..2 {
        assert_eq!(rig.run(0, &|request| album(request, 1)), Reply::Right);
    }
    assert_eq!(rig.lines()[..5], ALBUM);
    assert_eq!(rig.lines()[5..], ["GET /dir/page"]);
    let off = pages("off");
    let mut rig = Rig::new(&off);
    for _ in 0..2 {
        assert_eq!(rig.run(0, &|request| album(request, 1)), Reply::Right);
    }
    assert_eq!(rig.lines()[5..], ALBUM);
    assert!(rig.sent.iter().all(|request| !request.contains("If-")));
}

#[test]
fn an_embedded_resource_that_is_not_there_is_an_error() {
    let http = pages("revalidate");
    let missing = |request: &str| if request.contains("/two") { reply(404, "", "") } else { album(request, 1) };
    assert_eq!(Rig::new(&http).run(0, &missing), Reply::Wrong(Failure::Status(404)));
    let unasked = |request: &str| {
        if request.contains("/two") { b"HTTP/1.1 304 Same\r\n\r\n".to_vec() } else { album(request, 1) }
    };
    assert_eq!(Rig::new(&http).run(0, &unasked), Reply::Wrong(Failure::Status(304)));
}

#[test]
fn chances_are_met() {
    let http = http("operations: {a: {requests: [{get: /}, {get: /rare, chance: 10%}]}}");
    let (mut rig, rare) = (Rig::new(&http), Cell::new(0));
    for _ in 0..2000 {
        rig.run(0, &|request| {
            rare.set(rare.get() + u32::from(request.contains("/rare")));
            reply(200, "", "")
        });
    }
    // Five standard deviations of the binomial: 5 * sqrt(2000 * 0.1 * 0.9) = 67.
    assert!((133..267).contains(&rare.get()), "{}", rare.get());
}

#[test]
fn an_operation_goes_on_over_a_new_connection() {
    let http = http("operations: {a: {requests: [{get: /}, {get: /b}]}}");
    for (ends, step) in [("Connection: close\r\nContent-Length: 0\r\n", Step::Reopen), ("", Step::More)] {
        let mut rig = Rig::new(&http);
        let answer = format!("HTTP/1.1 200 OK\r\n{ends}\r\n").into_bytes();
        assert_eq!(rig.run_in(0, usize::MAX, &|_| answer.clone()), step);
        let (mut out, flight) = (Vec::new(), Flight::default());
        if step == Step::More {
            assert_eq!(http.closed(&mut rig.session, &mut rig.user, &flight), None);
        }
        assert!(http.goes_on(&rig.session));
        http.greet(&mut rig.session, &mut out);
        http.resume(&mut rig.session, &mut out);
        assert!(out.starts_with(b"GET /b HTTP/1.1\r\n") && !http.goes_on(&rig.session));
        let (session, user, draw) = (&mut rig.session, &mut rig.user, &mut rig.draw);
        let step = http.feed(session, user, &flight, &reply(200, "", ""), draw, &mut Vec::new());
        assert!(matches!(step, Step::Done { reply: Reply::Right, last: false, .. }), "{step:?}");
    }
}

#[test]
fn values_are_worked_out_and_links_are_asked_for_in_a_size() {
    let http = http(
        "
feeds: {raise: {uniform: {from: 20, to: 20}}}
variables: [heard]
operations:
  list:
    get: /list
    capture: {price: {json: /price}}
    embedded: [{find: 'href=..([^.\"\\\\]+)', max: 2, suffix: '?size=SMALL'}]
  bid:
    requests:
      - {get: '/bid/${offer}/${whole}', set: {offer: {of: 'price * (1000 + raise) / 1000', digits: 2}, whole: price + 1}}
  never: {get: '/told/${copy}', set: {copy: heard + 1}}
",
    );
    let answer = |request: &str| match request {
        list if list.starts_with("GET /list") => {
            reply(200, "", r#"{"price": "12.5", "a": "href=\"/i/1\" href=\"/i/2\""}"#)
        }
        _ => reply(200, "", ""),
    };
    let mut rig = Rig::new(&http);
    assert_eq!(rig.run(0, &answer), Reply::Right);
    assert_eq!(rig.run(1, &answer), Reply::Right);
    let asked = ["GET /list", "GET /i/1?size=SMALL", "GET /i/2?size=SMALL", "GET /bid/12.75/14"];
    assert_eq!(rig.lines(), asked, "half of 12.5 + 1 is rounded to even");
    assert_eq!(rig.run(2, &answer), Reply::Wrong(Failure::Unset), "nobody has told it yet");
    let (heard, price) = (http.variable("heard").unwrap(), http.variable("price").unwrap());
    let mut owner = http.user(1);
    http.tell(&rig.user, &mut owner, &[(heard, price)]);
    let mut companion = Rig { user: http.accompany(&owner), ..Rig::new(&http) };
    assert_eq!(companion.run(2, &answer), Reply::Right);
    assert_eq!(companion.lines(), ["GET /told/14"]);
}
