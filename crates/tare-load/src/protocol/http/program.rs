//! Scripts compiled into flat tables once, before anything starts.

use super::carry::Carried;
use super::options::{
    CERTAIN, Cache, Capture, Embedded, Expect, Headers, Operation, Options, Request, Setting, Source,
};
use super::pointer::Pointer;
use crate::script::{Expression, FeedId, Feeds, Names, Slot, Template, union};
use crate::search::Needle;
use regex::bytes::Regex;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// An operation: a range of asks, one after the other.
#[derive(Debug)]
pub(super) struct Script {
    pub name: String,
    pub weight: u64,
    /// Whether its answer comes when there is news.
    pub lingers: bool,
    /// Its first ask.
    pub first: u32,
    /// The end of its range of asks.
    pub end: u32,
    /// The feeds that its asks draw values from.
    pub feeds: Box<[FeedId]>,
}

/// A request as it is sent, and what is done with its reply.
#[derive(Debug)]
pub(super) struct Ask {
    pub name: String,
    pub method: String,
    pub is_head: bool,
    /// The value with which the path begins, if it does: a captured link.
    pub link: Option<Template>,
    /// The path, or what follows the link.
    pub path: Template,
    pub headers: Vec<HeaderLine>,
    pub carried: Option<Carried>,
    /// The whole request, if it contains no values.
    pub whole: Option<Whole>,
    pub judge: Judge,
    pub sets: Vec<Set>,
    pub captures: Vec<Catch>,
    pub redirects: u8,
    pub embedded: Vec<Found>,
    pub cache: Cache,
    pub forget: bool,
    /// In millionths.
    pub chance: u32,
    pub when: Option<Slot>,
    pub unless: Option<Slot>,
    /// Whether the whole body is needed.
    pub keeps: bool,
    /// Whether the body is examined, and so must be decoded.
    pub reads: bool,
    pub counts: Counts,
}

/// A request without placeholders.
#[derive(Debug)]
pub(super) struct Whole {
    pub bytes: Vec<u8>,
    /// Where further header lines are inserted.
    pub head: usize,
    pub path: Vec<u8>,
}

/// One line of a head, or several without placeholders.
#[derive(Debug)]
pub(super) enum HeaderLine {
    /// Including their line ends.
    Fixed(Vec<u8>),
    /// `Name: ` and the value.
    Valued(Vec<u8>, Template),
}

/// What is computed before a request is sent.
#[derive(Debug)]
pub(super) struct Set {
    pub slot: Slot,
    pub of: Expression<Slot>,
    pub digits: usize,
}

/// What a right reply is.
#[derive(Debug, Default)]
pub(super) struct Judge {
    pub status: Vec<(u16, u16)>,
    /// Texts searched for as the body arrives; the first `wanted` must be found, the others must not.
    pub needles: Vec<Needle>,
    pub wanted: usize,
    /// Texts with values in them, and whether they must be found.
    pub texts: Vec<(Template, bool)>,
    pub matches: Option<Regex>,
    pub json: Vec<(Pointer, Option<Template>)>,
    pub headers: Vec<(String, Regex)>,
}

/// A value captured from a reply.
#[derive(Debug)]
pub(super) struct Catch {
    pub slot: Slot,
    pub from: Origin,
    pub random: bool,
    pub optional: bool,
}

/// Where it is found.
#[derive(Debug)]
pub(super) enum Origin {
    Json(Pointer),
    Regex(Regex),
    Header(String),
    Cookie(String),
}

/// What a browser would fetch for a page.
#[derive(Debug)]
pub(super) enum Found {
    Path(Template),
    Find(Regex, usize, String),
}

/// How often an ask was sent, over all workers and including settling; reported if an operation may take more than one
/// request.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub sent: AtomicU64,
    pub redirected: AtomicU64,
    pub embedded: AtomicU64,
    pub unchanged: AtomicU64,
}

impl Counts {
    /// The counts in words; `name` is the request's.
    pub(super) fn describe(&self, name: &str) -> String {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut text = format!("{name}: {}", read(&self.sent));
        for (count, what) in
            [(&self.redirected, "redirected"), (&self.embedded, "embedded"), (&self.unchanged, "of them not modified")]
        {
            if read(count) > 0 {
                text.push_str(&format!(", {} {what}", read(count)));
            }
        }
        text
    }
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// All scripts.
#[derive(Debug)]
pub(super) struct Program {
    pub scripts: Vec<Script>,
    pub asks: Vec<Ask>,
    /// The request for embedded resources.
    pub embedded: Ask,
    pub feeds: Feeds,
    pub names: Names,
    /// The names of this host in redirects.
    pub hosts: Vec<String>,
    /// Whether requests are counted individually.
    pub counting: bool,
}

impl Program {
    /// Compiles options that were checked when they were read.
    ///
    /// # Errors
    /// What is wrong, if they were not.
    pub(super) fn new(options: &Options, endpoint: SocketAddr) -> Result<Program, String> {
        let names = options.names();
        let name = options.tls.as_ref().and_then(|tls| tls.name.as_deref());
        let port = if options.tls.is_some() { 443 } else { 80 };
        let host = match name {
            Some(name) if endpoint.port() == port => name.to_owned(),
            Some(name) => format!("{name}:{}", endpoint.port()),
            None => endpoint.to_string(),
        };
        let compiler = Compiler { names: &names, options, host: &host };
        let (mut scripts, mut asks) = (Vec::new(), Vec::new());
        for operation in &options.operations {
            scripts.push(compiler.script(operation, &mut asks)?);
        }
        let page = |ask: &Ask| !ask.embedded.is_empty() || ask.redirects > 0;
        let counting = asks.len() > scripts.len() || asks.iter().any(page);
        let given =
            options.headers.iter().chain(options.operations.iter().flat_map(|o| &o.requests).flat_map(|r| &r.headers));
        let given = given.filter(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, value)| value.clone());
        let mut hosts = vec![host.clone(), endpoint.to_string()];
        hosts.extend(name.map(str::to_owned));
        hosts.extend(given);
        // The default port may be given or omitted.
        let usual = format!(":{port}");
        let other = |host: &String| match host.strip_suffix(&usual) {
            Some(bare) => Some(bare.to_owned()),
            None => (endpoint.port() == port && !has_port(host)).then(|| format!("{host}{usual}")),
        };
        let others: Vec<String> = hosts.iter().filter_map(other).collect();
        hosts.extend(others);
        let embedded = compiler.embedded()?;
        let feeds = Feeds::new(&options.feeds);
        Ok(Program { scripts, asks, embedded, feeds, hosts, counting, names })
    }
}

/// Whether the host of a URL includes a port; an IPv6 address is in brackets.
fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

struct Compiler<'a> {
    names: &'a Names,
    options: &'a Options,
    host: &'a str,
}

impl Compiler<'_> {
    fn template(&self, text: &str) -> Result<Template, String> {
        Template::compile(text, self.names)
    }

    fn slot(&self, name: &str) -> Result<Slot, String> {
        self.names.slot(name).ok_or_else(|| format!("there is no variable '{name}'"))
    }

    fn script(&self, operation: &Operation, asks: &mut Vec<Ask>) -> Result<Script, String> {
        let first = asks.len();
        for request in &operation.requests {
            asks.push(self.ask(request)?);
        }
        let used = operation.requests.iter().flat_map(|request| &request.sets);
        let used = used.flat_map(|setting| self.feeds_of(&setting.of));
        let feeds = union(asks[first..].iter().flat_map(Ask::templates), used);
        let (first, end) = (first as u32, asks.len() as u32);
        let (name, weight, lingers) = (operation.name.clone(), operation.weight, operation.lingers);
        Ok(Script { name, weight, lingers, first, end, feeds })
    }

    fn ask(&self, request: &Request) -> Result<Ask, String> {
        let carried = Carried::new(&request.body, self.names)?;
        let kind = carried.as_ref().and_then(|carried| carried.kind.as_deref());
        let headers = self.headers(&request.headers, kind)?;
        let judge = self.judge(&request.expect)?;
        let sets = request.sets.iter().map(|setting| self.set(setting)).collect::<Result<_, _>>()?;
        let mut captures = Vec::new();
        for capture in &request.captures {
            captures.push(self.catch(capture)?);
        }
        let mut embedded = Vec::new();
        for found in &request.embedded {
            embedded.push(match found {
                Embedded::Path(path) => Found::Path(self.template(path)?),
                Embedded::Find { pattern, max, suffix } => {
                    Found::Find(expression(pattern)?, *max as usize, suffix.clone())
                }
            });
        }
        let body = |catch: &Catch| matches!(catch.from, Origin::Json(_) | Origin::Regex(_));
        let finds = embedded.iter().any(|found| matches!(found, Found::Find(..)));
        let keeps = captures.iter().any(body) || finds || judge.needs_body();
        let reads = keeps || !judge.needles.is_empty();
        let (link, path) = self.path(&request.path)?;
        let mut ask = Ask {
            name: request.name.clone(),
            method: request.method.clone(),
            is_head: request.method == "HEAD",
            link,
            path,
            headers,
            carried,
            whole: None,
            judge,
            sets,
            captures,
            redirects: request.redirects,
            embedded,
            cache: request.cache,
            forget: request.forget,
            chance: request.chance,
            when: request.when.as_deref().map(|name| self.slot(name)).transpose()?,
            unless: request.unless.as_deref().map(|name| self.slot(name)).transpose()?,
            keeps,
            reads,
            counts: Counts::default(),
        };
        ask.whole = ask.write_whole();
        Ok(ask)
    }

    /// The value with which a path begins, and the rest of the path.
    fn path(&self, text: &str) -> Result<(Option<Template>, Template), String> {
        if let Some((link, rest)) = text.split_once('}').filter(|_| text.starts_with("${")) {
            let link = self.template(&format!("{link}}}"))?;
            if link.only().is_some() {
                return Ok((Some(link), self.template(rest)?));
            }
        }
        Ok((None, self.template(text)?))
    }

    /// The request for embedded resources: like a page's, without what belongs to the page alone.
    fn embedded(&self) -> Result<Ask, String> {
        let judge = Judge { status: vec![(200, 200)], ..Judge::default() };
        Ok(Ask {
            name: "embedded".to_owned(),
            method: "GET".to_owned(),
            is_head: false,
            link: None,
            path: Template::default(),
            headers: self.headers(&Headers::new(), None)?,
            carried: None,
            whole: None,
            judge,
            sets: Vec::new(),
            captures: Vec::new(),
            redirects: 0,
            embedded: Vec::new(),
            cache: Cache::Off,
            forget: false,
            chance: CERTAIN,
            when: None,
            unless: None,
            keeps: false,
            reads: false,
            counts: Counts::default(),
        })
    }

    /// The header lines of a request: its own, then the common ones that it does not override, then required ones that
    /// are missing.
    fn headers(&self, own: &Headers, kind: Option<&str>) -> Result<Vec<HeaderLine>, String> {
        let mut all: Headers = own.clone();
        let has = |all: &Headers, name: &str| all.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        for (name, value) in &self.options.headers {
            if !has(own, name) {
                all.push((name.clone(), value.clone()));
            }
        }
        if !has(&all, "host") {
            all.insert(0, ("Host".to_owned(), self.host.to_owned()));
        }
        if let Some(kind) = kind.filter(|_| !has(&all, "content-type")) {
            all.push(("Content-Type".to_owned(), kind.to_owned()));
        }
        let mut lines: Vec<HeaderLine> = Vec::new();
        for (name, value) in &all {
            let value = self.template(value)?;
            let mut line = format!("{name}: ").into_bytes();
            let Some(fixed) = value.fixed() else {
                lines.push(HeaderLine::Valued(line, value));
                continue;
            };
            line.extend_from_slice(fixed);
            line.extend_from_slice(b"\r\n");
            match lines.last_mut() {
                Some(HeaderLine::Fixed(lines)) => lines.extend(line),
                _ => lines.push(HeaderLine::Fixed(line)),
            }
        }
        Ok(lines)
    }

    fn judge(&self, expect: &Expect) -> Result<Judge, String> {
        let mut judge = Judge { status: expect.status.clone(), ..Judge::default() };
        for (texts, wanted) in [(&expect.contains, true), (&expect.lacks, false)] {
            for text in texts {
                let template = self.template(text)?;
                match template.fixed() {
                    Some(fixed) => judge.needles.push(Needle::new(fixed)),
                    None => judge.texts.push((template, wanted)),
                }
            }
            if wanted {
                judge.wanted = judge.needles.len();
            }
        }
        judge.matches = expect.matches.as_deref().map(expression).transpose()?;
        for (pointer, text) in &expect.json {
            let text = text.as_deref().map(|text| self.template(text)).transpose()?;
            judge.json.push((Pointer::new(pointer), text));
        }
        for (name, pattern) in &expect.headers {
            judge.headers.push((name.clone(), expression(pattern)?));
        }
        Ok(judge)
    }

    fn set(&self, setting: &Setting) -> Result<Set, String> {
        let of = Expression::parse(&setting.of, |name| self.slot(name))?;
        Ok(Set { slot: self.slot(&setting.name)?, of, digits: usize::from(setting.digits) })
    }

    /// The feeds whose values an expression uses.
    fn feeds_of(&self, expression: &str) -> Vec<FeedId> {
        let mut feeds = Vec::new();
        // It was parsed before; mistakes are reported then.
        let _ = Expression::parse(expression, |name| {
            feeds.extend(self.names.feed(name));
            Ok(())
        });
        feeds
    }

    fn catch(&self, capture: &Capture) -> Result<Catch, String> {
        let from = match &capture.source {
            Source::Json(pointer) => Origin::Json(Pointer::new(pointer)),
            Source::Regex(pattern) => Origin::Regex(expression(pattern)?),
            Source::Header(name) => Origin::Header(name.clone()),
            Source::Cookie(name) => Origin::Cookie(name.clone()),
        };
        let slot = self.slot(&capture.name)?;
        Ok(Catch { slot, from, random: capture.random, optional: capture.optional })
    }
}

impl Ask {
    /// Everything in it that may have placeholders.
    fn templates(&self) -> impl Iterator<Item = &Template> {
        let headers = self.headers.iter().filter_map(|line| match line {
            HeaderLine::Valued(_, value) => Some(value),
            HeaderLine::Fixed(_) => None,
        });
        let embedded = self.embedded.iter().filter_map(|found| match found {
            Found::Path(path) => Some(path),
            Found::Find(..) => None,
        });
        let texts = self.judge.texts.iter().map(|(text, _)| text);
        let json = self.judge.json.iter().filter_map(|(_, text)| text.as_ref());
        std::iter::once(&self.path)
            .chain(&self.link)
            .chain(headers)
            .chain(self.carried.as_ref().map(|carried| &carried.content))
            .chain(embedded)
            .chain(texts)
            .chain(json)
    }

    /// Whether its method has a body even if that is empty.
    pub(super) fn has_body(&self) -> bool {
        self.carried.is_some() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }

    fn write_whole(&self) -> Option<Whole> {
        let path = self.path.fixed().filter(|_| self.link.is_none())?;
        let mut bytes = [self.method.as_bytes(), b" ", path, b" HTTP/1.1\r\n"].concat();
        for line in &self.headers {
            let HeaderLine::Fixed(lines) = line else { return None };
            bytes.extend_from_slice(lines);
        }
        let content = match &self.carried {
            Some(carried) => carried.content.fixed()?,
            None => b"",
        };
        let head = bytes.len();
        if self.has_body() {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", content.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(content);
        Some(Whole { bytes, head, path: path.to_vec() })
    }
}

impl Judge {
    /// Whether the status is right.
    #[inline]
    pub(super) fn accepts(&self, status: u16) -> bool {
        self.status.iter().any(|(low, high)| (*low..=*high).contains(&status))
    }

    fn needs_body(&self) -> bool {
        !self.texts.is_empty() || self.matches.is_some() || !self.json.is_empty()
    }
}

fn expression(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| error.to_string())
}
