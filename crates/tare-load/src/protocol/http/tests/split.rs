//! Replies in pieces.

use super::*;
use proptest::prelude::*;
use std::io::Write as _;

const PAGE: &str = "
redirects: 2
operations:
  page:
    requests:
      - get: /old
        contains: needle
        capture: {link: {regex: 'href=(\\S+)'}}
        embedded: [/a.css]
      - get: '${link}'
        expect: {json: {/ok: true}}
";

/// Every way in which a reply may end, compressed or not.
fn answer(request: &str, compressed: bool, chunk: usize) -> Vec<u8> {
    let chunked = |headers: &str, body: &[u8]| {
        let mut reply = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{headers}\r\n").into_bytes();
        for piece in body.chunks(chunk) {
            reply.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            reply.extend_from_slice(piece);
            reply.extend_from_slice(b"\r\n");
        }
        reply.extend_from_slice(b"0\r\n\r\n");
        reply
    };
    match request.split(' ').nth(1).unwrap() {
        "/old" => reply(301, "Location: /new\r\nSet-Cookie: a=b\r\n", "gone"),
        "/new" => {
            let body = b"some nneedle href=/end behind";
            if !compressed {
                return chunked("", body);
            }
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
            encoder.write_all(body).unwrap();
            chunked("Content-Encoding: gzip\r\n", &encoder.finish().unwrap())
        }
        "/a.css" => reply(200, "ETag: x\r\n", "body {}"),
        _ => reply(200, "", r#"{"ok": true}"#),
    }
}

proptest! {
    #[test]
    fn every_split_gives_the_same(piece in 1..400usize, chunk in 1..40usize, compressed: bool) {
        let http = http(PAGE);
        let mut rig = Rig::new(&http);
        let step = rig.run_in(0, piece, &|request| answer(request, compressed, chunk));
        let right = matches!(step, Step::Done { reply: Reply::Right, last: false, .. });
        prop_assert!(right, "{:?}", step);
        prop_assert_eq!(rig.lines(), ["GET /old", "GET /new", "GET /a.css", "GET /end"]);
    }

    #[test]
    fn any_bytes_are_taken_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 1..200),
        cut in 0..200usize,
        piece in 1..50usize,
    ) {
        let http = http(PAGE);
        let good = answer("GET /new ", true, 7);
        let mut reply = good[..cut.min(good.len())].to_vec();
        reply.extend_from_slice(&bytes);
        let broken = |request: &str| if request.contains("/old") { answer(request, true, 7) } else { reply.clone() };
        let _ = Rig::new(&http).run_in(0, piece, &broken);
    }
}
