//! What a workload may say, and that mistakes are reported in their places.

use super::super::Http;
use super::*;
use crate::protocol::read_text;

fn check(text: &str) -> Result<Options, Vec<String>> {
    read_text(read, text)
}

/// Checks that exactly these mistakes are found, each on its line.
fn mistakes(text: &str, expected: &[(usize, &str)]) {
    let found = check(text).unwrap_err();
    for (line, part) in expected {
        let place = format!("workload.yaml:{line}:");
        assert!(found.iter().any(|f| f.contains(&place) && f.contains(part)), "{line} {part}: {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn defaults_are_filled_in() {
    let found =
        check("requests:\n- path: /\n- {path: /a, body: x, weight: 3, headers: {Accept: text/html}}\n").unwrap();
    let (first, second) = (&found.operations[0], &found.operations[1]);
    assert_eq!((first.name.as_str(), first.weight), ("GET /", 1));
    assert_eq!(first.requests[0].expect.status, [(200, 200)]);
    assert_eq!((second.name.as_str(), second.weight), ("POST /a", 3));
    assert!(found.cookies && found.tls.is_none() && found.body_max == 1 << 20);
}

#[test]
fn all_ways_to_say_the_same_are_the_same() {
    let long =
        check("operations: {'GET /x': {requests: [{method: GET, path: /x, expect: {status: 204, contains: a}}]}}");
    for short in [
        "requests: [{path: /x, status: 204, contains: a}]",
        "requests: [{get: /x, status: 204, expect: {contains: [a]}}]",
        "operations: {'GET /x': {get: /x, expect: {status: [204], contains: a}}}",
    ] {
        assert_eq!(check(short), long, "{short}");
    }
}

#[test]
fn what_is_written_down_can_be_compiled() {
    let text = "
tls: {verify: false, name: shop.test}
headers: {Host: '${who}.test'}
redirects: 2
cache: keep
feeds: {who: {choice: [a, b]}}
operations:
  upload:
    requests:
    - get: /form
      capture: {csrf: {regex: 'x=(\\d+)', pick: random}, id: {json: '/a/*', optional: true}}
      embedded: [/a.css, {find: 'src=(\\S+)', max: 3}]
      forget: true
    - post: /up
      multipart: {title: '${who}', image: {file: a.jpg, type: image/jpeg, bytes: 20kB}, whole: {from: picture.jpg},
        filled: {from: picture.jpg, bytes: 10}}
      chance: 2.5%
      when: id
    - {put: /x, json: {a: [1, '2', null], b: '${csrf}'}, cache: off, redirects: 0}
";
    let options = check(text).unwrap();
    let written = serde_json::to_value(&options).unwrap();
    assert_eq!(serde_json::from_value::<Options>(written).unwrap(), options);
    let requests = &options.operations[0].requests;
    assert_eq!((requests[1].chance, requests[0].redirects, requests[2].redirects), (25_000, 2, 0));
    let Body::Multipart(parts) = &requests[1].body else { panic!("{:?}", requests[1].body) };
    assert_eq!(parts[2].content, Content::File { base64: "/9g=".into(), filler: 0 });
    assert_eq!(parts[3].content, Content::File { base64: "/9g=".into(), filler: 8 });
    assert_eq!(requests[2].body, Body::Json(r#"{"a":[1,"2",null],"b":"${csrf}"}"#.into()));
    Http::new(options, "127.0.0.1:443".parse().unwrap()).unwrap();
}

#[test]
fn numbers_and_places_stand_in_json_without_quotes_if_written_so() {
    let body = |json: &str| {
        let text =
            format!("feeds: {{n: {{sequence: {{from: 1, to: 9}}}}}}\nrequests:\n- put: /\n  json:\n    {json}\n");
        match &check(&text).unwrap().operations[0].requests[0].body {
            Body::Json(text) => text.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(body("a: ${n}"), r#"{"a":${n}}"#);
    assert_eq!(body("a: '${n}'"), r#"{"a":"${n}"}"#);
    assert_eq!(body("a: 1.5"), r#"{"a":1.5}"#);
    assert_eq!(body("a: \"1.5\""), r#"{"a":"1.5"}"#);
    assert_eq!(body("a: 01"), r#"{"a":"01"}"#);
    assert_eq!(body("a: true"), r#"{"a":true}"#);
    assert_eq!(body("a: say \"x\""), r#"{"a":"say \"x\""}"#);
}

#[test]
fn every_mistake_of_a_request_has_its_place() {
    mistakes(
        "requests:
- path: a b
- {path: /, method: GTE}
- {path: /, staus: 3}
- {path: /x, headers: {A B: 1}}
- {path: /y, headers: {Cookie: a=b}}
- {get: /, post: /}
- {post: /z, body: x, form: {a: b}}
- {weight: 3}
- {path: /w, status: 99}
- {path: /v, status: 200, expect: {status: 200}}
- {path: /u, chance: 50%}
",
        &[
            (2, "begin it"),
            (3, "did you mean 'GET'"),
            (4, "did you mean 'status'"),
            (4, "two requests named 'GET /'"),
            (5, "cannot name"),
            (6, "set by the load generator"),
            (7, "here is a second"),
            (7, "two requests named 'GET /'"),
            (8, "one body"),
            (9, "no path"),
            (10, "not a status"),
            (11, "under 'expect' as well"),
            (12, "give it a 'weight'"),
        ],
    );
}

#[test]
fn every_mistake_of_a_script_has_its_place() {
    mistakes(
        "feeds: {n: {uniform: {from: 1, to: 2}}}
operations:
  a:
    requests:
    - get: /${m}
    - {get: /, capture: {n: {header: X}}}
    - {get: /, capture: {v: {regex: '(a'}}}
    - {get: /, capture: {v: {json: a/b}}}
    - {get: /, capture: {v: {json: /a~2}}}
    - {get: /, capture: {v: {}}}
    - {get: /, capture: {v: {header: X, cookie: Y}}}
    - {get: /, expect: {matches: '[', json: {x: 1}}}
    - {get: /, when: w}
    - {get: /, embedded: [b.css, {find: '*'}]}
    - {post: /, multipart: {a: {file: x}, b: {bytes: 1, content: x}}}
    - {post: /, json: {a: '${q}'}}
    - {post: /, multipart: {a: {from: no.jpg}, b: {from: ../x}, c: {from: picture.jpg, content: x}, d: {file: x}}}
    - {post: /, multipart: {a: {from: picture.jpg, bytes: 1}}}
  b: {get: /, chance: 1%}
  c: {requests: []}
",
        &[
            (5, "'${m}' is no value"),
            (6, "already the name of a feed"),
            (7, "not a regular expression: unclosed group"),
            (8, "not a JSON pointer"),
            (9, "not a JSON pointer"),
            (10, "has one of"),
            (11, "has one of"),
            (12, "not a regular expression"),
            (12, "'x' is not a JSON pointer"),
            (13, "no variable 'w'"),
            (14, "begin it"),
            (14, "not a regular expression"),
            (15, "has one of 'content', 'from' and 'bytes'"),
            (15, "part 'b' has one of"),
            (16, "'${q}' is no value"),
            (17, "there is no file no.jpg"),
            (17, "'../x' is no file of the workload's own folder"),
            (17, "part 'c' has one of"),
            (17, "part 'd' has one of"),
            (18, "'picture.jpg' has 2 bytes, which 1 cannot hold"),
            (19, "depends on something"),
            (20, "no request"),
        ],
    );
}

#[test]
fn mistakes_of_the_whole_have_their_places() {
    mistakes("{}", &[(1, "no 'requests'")]);
    mistakes("requests: []", &[(1, "no request")]);
    mistakes("requests: [{path: /}]\noperations: {a: {path: /}}", &[(1, "both")]);
    mistakes(
        "tls: {verify: maybe, name: a b, version: '1.1', verfy: x}
body_max: 1GiB
cache: no
redirects: 99
requests: [{path: /}]",
        &[
            (1, "name a PEM file"),
            (1, "not a server's name"),
            (1, "'1.1' is not known"),
            (1, "no field 'verfy'"),
            (2, "more than a reply"),
            (3, "'no' is not known"),
            (4, "99 is out of range"),
        ],
    );
}
