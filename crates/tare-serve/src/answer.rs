//! What is sent back: whole pages, or events as they come.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

/// What pages made here may do: their own files, and no script or style within them. Drawings say by an attribute which
/// hatching fills them.
const OWN_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The content of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    /// All of it, until it is taken.
    Whole(Option<Bytes>),
    /// Pieces, as somebody sends them.
    Pieces(Receiver<Bytes>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Content::Whole(whole) => Poll::Ready(whole.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Pieces(pieces) => pieces.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(whole) => SizeHint::with_exact(whole.as_ref().map_or(0, Bytes::len) as u64),
            Content::Pieces(_) => SizeHint::default(),
        }
    }
}

/// An answer.
pub(crate) type Answer = Response<Content>;

fn answer(status: StatusCode, kind: &'static str, policy: &str, content: Content) -> Answer {
    let mut answer = Response::new(content);
    *answer.status_mut() = status;
    let policy = HeaderValue::from_str(policy).expect("policies are written here, in ASCII");
    let fixed = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
        // Records may hold secrets, and a browser's store of pages is not theirs.
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    answer.headers_mut().extend(fixed);
    answer
}

/// A page made here.
pub(crate) fn page(status: StatusCode, html: String) -> Answer {
    answer(status, "text/html; charset=utf-8", OWN_POLICY, Content::Whole(Some(html.into())))
}

/// A report, whose style and script are within it; the script by its digest.
pub(crate) fn report(html: Bytes) -> Answer {
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src '{}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        tare_report::script_digest()
    );
    answer(StatusCode::OK, "text/html; charset=utf-8", &policy, Content::Whole(Some(html)))
}

/// A file that is built in.
pub(crate) fn asset(kind: &'static str, text: &'static str) -> Answer {
    answer(StatusCode::OK, kind, OWN_POLICY, Content::Whole(Some(Bytes::from_static(text.as_bytes()))))
}

/// Sends the browser to another page, after a change. The address is one of pages made here.
pub(crate) fn elsewhere(address: &str) -> Answer {
    let done = Content::Whole(Some(Bytes::from_static(b"Done.\n")));
    let mut answer = answer(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", OWN_POLICY, done);
    if let Ok(address) = HeaderValue::from_str(address) {
        answer.headers_mut().insert(LOCATION, address);
    }
    answer
}

/// An archive as it is made, to be saved.
pub(crate) fn archive(pieces: Receiver<Bytes>) -> Answer {
    let mut answer = answer(StatusCode::OK, "application/x-tar", OWN_POLICY, Content::Pieces(pieces));
    let saved = HeaderValue::from_static("attachment; filename=\"tare-records.tar\"");
    answer.headers_mut().insert(CONTENT_DISPOSITION, saved);
    answer
}

/// Server-sent events.
pub(crate) fn events(pieces: Receiver<Bytes>) -> Answer {
    answer(StatusCode::OK, "text/event-stream; charset=utf-8", OWN_POLICY, Content::Pieces(pieces))
}

/// Words for a script of a page.
pub(crate) fn words(status: StatusCode, words: String) -> Answer {
    answer(status, "text/plain; charset=utf-8", OWN_POLICY, Content::Whole(Some(words.into())))
}

/// Words for who is not let in, without anything of the pages: their addresses hold the key. The connection ends.
pub(crate) fn refused(status: StatusCode, words: String) -> Answer {
    let mut answer = answer(status, "text/plain; charset=utf-8", OWN_POLICY, Content::Whole(Some(words.into())));
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}
