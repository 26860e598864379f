//! Which build of Tare this is.

use std::sync::LazyLock;

/// The version, with commit and date where they are known: `0.1.0 (1a2b3c4d5e 2026-11-24)`.
///
/// In a checkout they come from git. Packagers of a source tree without git set them at build time: `TARE_COMMIT`, and
/// `SOURCE_DATE_EPOCH`, the time in seconds since 1970. These override git.
pub(crate) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let said = option_env!("TARE_COMMIT").filter(|commit| !commit.is_empty());
    // Without the time of git's commit if another commit was named.
    let time = option_env!("TARE_GIT_TIME").filter(|_| said.is_none());
    described(said.or(option_env!("TARE_GIT_COMMIT")), option_env!("SOURCE_DATE_EPOCH").or(time))
});

/// Characters of a commit that are shown: a fixed number, because git's own choice depends on the clone.
const COMMIT_LENGTH: usize = 10;

fn described(commit: Option<&str>, seconds: Option<&str>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let commit = commit.map(|commit| commit.chars().take(COMMIT_LENGTH).collect::<String>());
    let time = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds.parse().ok()?).ok());
    let date = time.map(|time| time.strftime("%Y-%m-%d").to_string());
    let known: Vec<String> = commit.into_iter().chain(date).collect();
    if known.is_empty() { version.to_owned() } else { format!("{version} ({})", known.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parts_of_a_version_are_left_out() {
        let version = env!("CARGO_PKG_VERSION");
        let commit = Some("1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d");
        let of = |known: &str| format!("{version}{known}");
        assert_eq!(described(None, None), version);
        assert_eq!(described(commit, None), of(" (1a2b3c4d5e)"));
        assert_eq!(described(commit, Some("1795564799")), of(" (1a2b3c4d5e 2026-11-24)"));
        assert_eq!(described(Some("v7"), Some("1795564800")), of(" (v7 2026-11-25)"));
        assert_eq!(described(None, Some("0")), of(" (1970-01-01)"));
        assert_eq!(described(commit, Some("today")), of(" (1a2b3c4d5e)"));
    }
}
