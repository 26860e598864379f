//! The host's package sources that belong to its distribution.
//!
//! A bundle must not depend on sources that somebody added to the host, so an entry counts only if its suite is the
//! release's own (or its updates or security suite), it offers `main`, and the archive is the distribution's: by the
//! origin in its signed index if the host has that index, else by its key and address.

use std::path::Path;
use tare_core::fault::{Doing, Fault};

/// What this machine runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Distribution {
    /// `debian` or `ubuntu`.
    pub(crate) id: String,
    /// The release's code name.
    pub(crate) codename: String,
}

/// One entry, ready for `mmdebstrap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Options as in a one-line entry, such as `signed-by=/usr/share/keyrings/...`.
    pub(crate) options: Vec<String>,
    /// A key given in the entry itself, which must be put into a file.
    pub(crate) inline_key: Option<String>,
    /// The archive's address.
    pub(crate) uri: String,
    /// The suite.
    pub(crate) suite: String,
    /// Components.
    pub(crate) components: Vec<String>,
}

impl Entry {
    /// The entry in one line; `key` is the file that holds the inline key.
    pub(crate) fn line(&self, key: Option<&Path>) -> String {
        let mut options = self.options.clone();
        options.extend(key.map(|key| format!("signed-by={}", key.display())));
        let options = if options.is_empty() { String::new() } else { format!("[{}] ", options.join(" ")) };
        format!("deb {options}{} {} {}", self.uri, self.suite, self.components.join(" "))
    }
}

impl Distribution {
    /// Reads `/etc/os-release`.
    pub(crate) fn of_host() -> Result<Distribution, Fault> {
        let path = Path::new("/etc/os-release");
        let text = std::fs::read_to_string(path).doing("read /etc/os-release")?;
        Distribution::parse(&text)
    }

    fn parse(text: &str) -> Result<Distribution, Fault> {
        let field = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
            Some(line.trim_matches(|c| c == '"' || c == '\'').to_owned())
        };
        let id = field("ID").unwrap_or_default();
        let codename = field("VERSION_CODENAME").unwrap_or_default();
        if !matches!(id.as_str(), "debian" | "ubuntu") || codename.is_empty() {
            let name = field("PRETTY_NAME").unwrap_or_else(|| "an unknown system".to_owned());
            return Err(Fault::new(format!("bundles of packages need Debian or Ubuntu; this machine runs {name}"))
                .remedy("use `image:` or `folder:` as the service's bundle"));
        }
        Ok(Distribution { id, codename })
    }

    /// The distribution's own entries among the host's sources.
    pub(crate) fn sources(&self) -> Result<Vec<Entry>, Fault> {
        let mut files = vec![Path::new("/etc/apt/sources.list").to_path_buf()];
        if let Ok(folder) = std::fs::read_dir("/etc/apt/sources.list.d") {
            files.extend(folder.flatten().map(|item| item.path()));
        }
        files.sort();
        let mut entries = Vec::new();
        for file in files {
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("list") => entries.extend(text.lines().filter_map(parse_line)),
                Some("sources") => entries.extend(parse_stanzas(&text)),
                _ => {}
            }
        }
        let mut own: Vec<Entry> = entries.into_iter().filter(|entry| self.owns(entry, &origin_on_host)).collect();
        for index in (1..own.len()).rev() {
            if own[..index].contains(&own[index]) {
                own.remove(index);
            }
        }
        if own.iter().any(|entry| entry.suite == self.codename) {
            return Ok(own);
        }
        Err(Fault::new(format!("this machine's package sources do not include {} {}", self.id, self.codename))
            .remedy(format!("add the '{}' suite of a {} mirror to /etc/apt/sources.list", self.codename, self.id)))
    }

    fn owns(&self, entry: &Entry, origin: &dyn Fn(&Entry) -> Option<String>) -> bool {
        let suffix = entry.suite.strip_prefix(&self.codename);
        if !matches!(suffix, Some("" | "-updates" | "-security" | "/updates")) {
            return false;
        }
        if !entry.components.iter().any(|component| component == "main") {
            return false;
        }
        if let Some(origin) = origin(entry) {
            return origin.eq_ignore_ascii_case(&self.id);
        }
        let key = entry.options.iter().find_map(|option| option.strip_prefix("signed-by="));
        let own_key = key.is_none_or(|key| key.contains(&format!("{}-archive", self.id)));
        let last = entry.uri.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let own_path = last == self.id
            || last.strip_prefix(&self.id).is_some_and(|rest| matches!(rest, "-security" | "-ports" | "-archive"));
        own_key && (own_path || entry.uri.contains("://deb.debian.org") || entry.uri.starts_with("mirror"))
    }
}

/// The origin that the signed index of an entry states, if the host has fetched it.
fn origin_on_host(entry: &Entry) -> Option<String> {
    let (_, address) = entry.uri.split_once("://")?;
    let name = format!("{}/dists/{}", address.trim_end_matches('/'), entry.suite).replace('/', "_");
    let lists = Path::new("/var/lib/apt/lists");
    let index = ["InRelease", "Release"]
        .iter()
        .find_map(|kind| std::fs::read_to_string(lists.join(format!("{name}_{kind}"))).ok())?;
    index.lines().take(60).find_map(|line| line.strip_prefix("Origin:")).map(|origin| origin.trim().to_owned())
}

/// All entries of a text, in either of the two formats.
#[cfg(any(test, fuzzing))]
pub(super) fn entries(text: &str) -> impl Iterator<Item = Entry> {
    text.lines().filter_map(parse_line).chain(parse_stanzas(text))
}

/// `deb [options] uri suite component...`
fn parse_line(line: &str) -> Option<Entry> {
    let line = line.split('#').next()?.trim();
    let mut rest = line.strip_prefix("deb")?.strip_prefix(|c: char| c.is_whitespace())?.trim_start();
    let mut options = Vec::new();
    if let Some(inner) = rest.strip_prefix('[') {
        let (inner, after) = inner.split_once(']')?;
        options = inner.split_whitespace().filter(|option| carried(option)).map(str::to_owned).collect();
        rest = after;
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    Some(Entry { options, inline_key: None, uri, suite, components: words.collect() })
}

/// Options about trust are kept; architectures and languages concern this machine, not a bundle.
fn carried(option: &str) -> bool {
    option.starts_with("signed-by=") || option.starts_with("trusted=") || option.starts_with("check-valid-until=")
}

/// Deb822 stanzas: `Key: value`, continued on lines that begin with a blank.
fn parse_stanzas(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for stanza in lines.split(|line| line.trim().is_empty()) {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in stanza {
            if line.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut() {
                    value.push('\n');
                    // A dot stands for an empty line.
                    value.push_str(if line.trim() == "." { "" } else { line.trim() });
                }
            } else if let Some((key, value)) = line.split_once(':') {
                fields.push((key.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        entries.extend(entries_of(&fields));
    }
    entries
}

fn entries_of(fields: &[(String, String)]) -> Vec<Entry> {
    let field = |key: &str| fields.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value.as_str());
    let words = |key: &str| field(key).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let off = matches!(field("enabled").to_ascii_lowercase().as_str(), "no" | "false" | "off" | "0");
    if off || !words("types").iter().any(|kind| kind == "deb") {
        return Vec::new();
    }
    let mut options = Vec::new();
    let mut inline_key = None;
    let signed = field("signed-by");
    if signed.contains("BEGIN PGP") {
        inline_key = Some(signed.trim().to_owned());
    } else if !signed.is_empty() {
        options.push(format!("signed-by={}", signed.split_whitespace().collect::<Vec<_>>().join(",")));
    }
    for key in ["trusted", "check-valid-until"] {
        if !field(key).is_empty() {
            options.push(format!("{key}={}", words(key).join(",")));
        }
    }
    let mut entries = Vec::new();
    for uri in words("uris") {
        for suite in words("suites") {
            let (options, inline_key, uri) = (options.clone(), inline_key.clone(), uri.clone());
            entries.push(Entry { options, inline_key, uri, suite, components: words("components") });
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(id: &str, codename: &str, text: &str) -> Vec<String> {
        let distribution = Distribution { id: id.to_owned(), codename: codename.to_owned() };
        let entries =
            if text.contains("Types:") { parse_stanzas(text) } else { text.lines().filter_map(parse_line).collect() };
        let mine = entries.iter().filter(|entry| distribution.owns(entry, &|_| None));
        mine.map(|entry| entry.line(None)).collect()
    }

    #[test]
    fn debian_sources_are_found_and_third_parties_are_not() {
        let text = "\
Types: deb deb-src
URIs: http://deb.debian.org/debian
# a remark in the middle
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://deb.debian.org/debian-security
Suites: bookworm-security bookworm-backports
Components: main

Types: deb
URIs: https://apt.releases.example.com
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/example.gpg

Types: deb
URIs: https://deb.example.org/11.4/debian
Suites: bookworm
Components: main
Signed-By: /etc/apt/keyrings/example.gpg

Types: deb
Enabled: no
URIs: http://deb.debian.org/debian
Suites: bookworm
Components: main contrib
";
        let key = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ";
        assert_eq!(
            own("debian", "bookworm", text),
            [
                format!("deb {key}http://deb.debian.org/debian bookworm main"),
                format!("deb {key}http://deb.debian.org/debian bookworm-updates main"),
                "deb http://deb.debian.org/debian-security bookworm-security main".to_owned(),
            ]
        );
    }

    #[test]
    fn one_line_entries_and_ubuntu_mirrors_are_read() {
        let text = "\
# deb http://archive.ubuntu.com/ubuntu noble main
deb http://eu.archive.ubuntu.com/ubuntu/ noble main restricted universe # the mirror
deb [arch=amd64 signed-by=/usr/share/keyrings/ubuntu-archive-keyring.gpg] http://security.ubuntu.com/ubuntu noble-security main
deb-src http://archive.ubuntu.com/ubuntu noble main
deb https://packages.example.com/apt cloud-sdk-noble main
deb [signed-by=/x/engine.gpg] https://download.example.com/linux/ubuntu noble stable
deb nonsense
";
        assert_eq!(
            own("ubuntu", "noble", text),
            [
                "deb http://eu.archive.ubuntu.com/ubuntu/ noble main restricted universe",
                "deb [signed-by=/usr/share/keyrings/ubuntu-archive-keyring.gpg] http://security.ubuntu.com/ubuntu noble-security main",
            ]
        );
    }

    #[test]
    fn the_signed_index_decides_where_there_is_one() {
        let distribution = Distribution { id: "debian".to_owned(), codename: "bookworm".to_owned() };
        let entry = parse_line("deb https://mirror.example.net/x bookworm main").unwrap();
        assert!(!distribution.owns(&entry, &|_| None));
        assert!(distribution.owns(&entry, &|_| Some("Debian".to_owned())));
        assert!(!distribution.owns(&entry, &|_| Some("Example".to_owned())));
    }

    #[test]
    fn a_key_inside_a_stanza_is_kept_whole() {
        let text = "Types: deb\nURIs: http://a/debian\nSuites: b\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC \
                    KEY BLOCK-----\n .\n abc\n";
        let entries = parse_stanzas(text);
        assert_eq!(entries[0].inline_key.as_deref(), Some("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabc"));
    }

    #[test]
    fn another_system_is_told_what_to_use() {
        assert!(Distribution::parse("ID=fedora\nPRETTY_NAME=\"Fedora 40\"\n").unwrap_err().remedy.contains("image"));
        let debian = Distribution::parse("ID=debian\nVERSION_CODENAME=bookworm\n").unwrap();
        assert_eq!((debian.id.as_str(), debian.codename.as_str()), ("debian", "bookworm"));
    }
}
