//! Images that the engine builds of a folder with a Dockerfile.
//!
//! They carry our label, which holds the tag that they are built under; both together make one ours. What somebody
//! builds from ours inherits the label, but has another tag.

mod context;
mod ignored;

use super::engine::{CallError, Engine, Heard};
use super::find;
use super::inventory::{self, EngineImage};
use bollard::models::BuildInfo;
use bollard::query_parameters::{
    BuildImageOptions, BuildImageOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptions,
    RemoveImageOptionsBuilder,
};
use context::Context;
use futures_util::stream;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tare_core::bundle::{BUILT_IMAGES, is_own_image_name};
use tare_core::fault::{Doing, Fault};
use tare_core::host::CachedItem;
use tare_core::units::{grouped, show_bytes};

/// How often it is asked whether to end, while a build says nothing.
const LISTENS: Duration = Duration::from_millis(250);
/// The kind of what is kept here, see [`kept`].
pub(super) const KIND: &str = "built image";
/// The label that holds an image's own name.
const LABEL: &str = "tare.built";
/// How long a build may say nothing: a step that compiles may take long.
const SILENCE_LIMIT: Duration = Duration::from_secs(1800);
/// How many bytes of the hash of a folder's path are in the tag, and how many letters of its name.
const HASH_BYTES: usize = 6;
const WORD_LETTERS: usize = 60;
/// How many of the last lines are shown of a build that failed.
const LAST_LINES: usize = 20;
/// Where a line that does not end is cut, bytes.
const LINE_BYTES_MAX: usize = 16 << 10;

/// What a caller decides about a build.
pub struct BuildWays<'a> {
    /// Whether something right below the folder, by its whole path, is not sent although no `.dockerignore` names it.
    pub is_no_source: &'a dyn Fn(&Path) -> bool,
    /// Whether the build is to end now.
    pub stop: &'a dyn Fn() -> bool,
}

/// An image that is built under a name of the user's.
pub struct NamedBuild<'a> {
    /// Its name, which an image that had it before loses.
    pub name: &'a str,
    /// The file in the folder that says how to build; none for the usual one.
    pub dockerfile: Option<&'a str>,
    /// Arguments of the build.
    pub args: &'a BTreeMap<String, String>,
    /// The stage that is built; none for the last one.
    pub target: Option<&'a str>,
}

/// Has the engine build the image of a folder as `build` says, and gives each line of the build's output to `say`. The
/// image is the user's, as if they had built it: it has no mark of ours, and nothing removes it, nor the image that had
/// its name before.
///
/// # Errors
/// As [`build_image`]; and, as a mistake, when the name is one of Tare's own images, whose place the build would take.
pub fn build_named_image(
    folder: &Path,
    build: &NamedBuild,
    ways: &BuildWays,
    say: &mut dyn FnMut(&str),
) -> Result<EngineImage, Fault> {
    refuse_own_name(build.name)?;
    let engine = Engine::find()?.ok_or_else(super::no_engine)?;
    let (folder, context) = open(folder, build.dockerfile, ways, say)?;
    let options = usual_options(&context.dockerfile, build.name);
    let options = options.buildargs(&build.args.clone().into_iter().collect::<HashMap<String, String>>());
    let options = options.target(build.target.unwrap_or_default()).build();
    run(&engine, (&folder, build.name), (options, context), ways.stop, say)?;
    inventory::by_name(&engine, build.name)
}

/// A Compose file, which may be somebody else's, must not put its own image in the place of one of ours.
fn refuse_own_name(name: &str) -> Result<(), Fault> {
    if !is_own_image_name(name) {
        return Ok(());
    }
    let fault = Fault::new(format!("{name} is a name of Tare's own images"));
    Err(fault.remedy("give 'image:' another name").as_mistake())
}

/// Has the engine build the image of a folder with a Dockerfile (or Containerfile), and gives each line of the build's
/// output to `say`. The folder's `.dockerignore` is respected. The image is tagged
/// `localhost/tare-built:<folder>-<hash of its path>`, and replaces the one of an earlier build of the folder. The
/// engine uses what it remembers of earlier builds: a folder without changes gives the same image at once. `ways` says
/// what of the folder is no source, and when to give up.
///
/// # Errors
/// No engine answers, or it breaks off. As a mistake: the folder has no Dockerfile, its `.dockerignore` cannot be
/// understood, or the build failed, with its last lines in the log.
pub fn build_image(folder: &Path, ways: &BuildWays, say: &mut dyn FnMut(&str)) -> Result<EngineImage, Fault> {
    let engine = Engine::find()?.ok_or_else(super::no_engine)?;
    let (folder, context) = open(folder, None, ways, say)?;
    let name = name_of(&folder);
    let replaced = inventory::inspect(&engine, &name)?.and_then(|image| image.id);
    let options = usual_options(&context.dockerfile, &name).labels(&HashMap::from([(LABEL, name.as_str())])).build();
    run(&engine, (&folder, &name), (options, context), ways.stop, say)?;
    let image = inventory::by_name(&engine, &name)?;
    if let Some(replaced) = replaced.filter(|id| !image.id.ends_with(id.as_str())) {
        remove_replaced(&engine, &replaced, &name);
    }
    Ok(image)
}

/// The folder without links on the way to it, and what of it is sent.
fn open(
    folder: &Path,
    dockerfile: Option<&str>,
    ways: &BuildWays,
    say: &mut dyn FnMut(&str),
) -> Result<(PathBuf, Context), Fault> {
    let folder = folder.canonicalize().doing(format_args!("open the folder {}", folder.display()));
    let folder = folder.map_err(Fault::as_mistake)?;
    let context = Context::of(&folder, dockerfile, ways.is_no_source)?;
    for path in &context.left_out {
        say(&format!("{} is neither a file, a folder nor a link, and is not sent to the build", path.display()));
    }
    Ok((folder, context))
}

/// The options that all builds have.
fn usual_options(dockerfile: &str, name: &str) -> BuildImageOptionsBuilder {
    // `forcerm` removes the containers of the steps of a build that fails, too.
    BuildImageOptionsBuilder::new().dockerfile(dockerfile).t(name).rm(true).forcerm(true)
}

/// The name of the image of a folder, which no other folder has.
fn name_of(folder: &Path) -> String {
    let path = folder.as_os_str().as_bytes();
    let hash: String = Sha256::digest(path).iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let word = folder.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let fitting = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let word: String = word.chars().map(fitting).take(WORD_LETTERS).collect();
    match word.trim_matches('-') {
        "" => format!("{BUILT_IMAGES}:{hash}"),
        word => format!("{BUILT_IMAGES}:{word}-{hash}"),
    }
}

/// Builds the image `name` of a folder.
fn run(
    engine: &Engine,
    (folder, name): (&Path, &str),
    (options, context): (BuildImageOptions, Context),
    stop: &dyn Fn() -> bool,
    say: &mut dyn FnMut(&str),
) -> Result<(), Fault> {
    let (size, count) = (show_bytes(context.bytes), grouped(context.len() as f64));
    say(&format!("building {}, {size} in {count} files, folders and links, as the image {name}", folder.display()));
    let body = bollard::body_try_stream(stream::iter(context.archive()));
    let mut progress = Box::pin(engine.docker().build_image(options, None, Some(body)));
    let (mut output, mut heard) = (Output::default(), Instant::now());
    loop {
        match engine.hear(LISTENS, &mut progress) {
            Ok(Heard::Item(info)) => {
                heard = Instant::now();
                output.take(info, say);
            }
            Ok(Heard::End) => {
                output.end(say);
                return Ok(());
            }
            // The engine ends a build that nobody listens to any more.
            Ok(Heard::Nothing) if stop() => return Err(Fault::new("interrupted")),
            Ok(Heard::Nothing) if heard.elapsed() < SILENCE_LIMIT => {}
            Ok(Heard::Nothing) => {
                let (minutes, folder) = (SILENCE_LIMIT.as_secs() / 60, folder.display());
                let message = format!("the build of {folder} has said nothing for {minutes} minutes, and was ended");
                return Err(output.explain(Fault::new(message)));
            }
            Err(error) => {
                output.end(say);
                return Err(output.explain(failed(folder, error)));
            }
        }
    }
}

/// Why a build failed: the engine says what is wrong with it, or the engine itself broke off.
fn failed(folder: &Path, error: CallError) -> Fault {
    match error {
        CallError::Refused { message, .. } => {
            let message = format!("the image of {} could not be built: {}", folder.display(), message.trim());
            let remedy = "fix what its last lines show; if it needs BuildKit or a registry's password, build the image \
                          by hand (docker build -t NAME FOLDER) and name it: docker-daemon:NAME";
            Fault::new(message).remedy(remedy).as_mistake()
        }
        broken => broken.doing(format_args!("build the image of {}", folder.display())),
    }
}

/// The output of a build, which comes in pieces of lines.
#[derive(Default)]
struct Output {
    open: String,
    last: VecDeque<String>,
}

impl Output {
    fn take(&mut self, info: BuildInfo, say: &mut dyn FnMut(&str)) {
        if let Some(piece) = info.stream {
            self.open.push_str(&piece);
            while let Some(end) = self.open.find('\n') {
                let line: String = self.open.drain(..=end).collect();
                self.line(&line, say);
            }
            if self.open.len() > LINE_BYTES_MAX {
                self.end(say);
            }
        }
        // With an ID it is about one layer of many, and changes several times a second.
        if let Some(status) = info.status.filter(|_| info.id.is_none()) {
            self.line(&status, say);
        }
    }

    /// Takes what is there of a line as a whole one.
    fn end(&mut self, say: &mut dyn FnMut(&str)) {
        let line = std::mem::take(&mut self.open);
        self.line(&line, say);
    }

    fn line(&mut self, line: &str, say: &mut dyn FnMut(&str)) {
        let line = plain(line);
        if line.is_empty() {
            return;
        }
        say(&line);
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    fn explain(self, fault: Fault) -> Fault {
        fault.with_log(Vec::from(self.last).join("\n"))
    }
}

/// A line as it stands in the end, without colours and other orders to a terminal.
fn plain(line: &str) -> String {
    let line = line.trim_end();
    // A progress bar goes back to the start of its line.
    let line = line.rsplit('\r').next().unwrap_or_default();
    let mut text = String::new();
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => {
                // An order ends with its first letter.
                let _ = letters.by_ref().find(char::is_ascii_alphabetic);
            }
            '\t' => text.push(' '),
            letter if letter.is_control() => {}
            letter => text.push(letter),
        }
    }
    text.trim_end().to_owned()
}

/// Removes the image of an earlier build that has lost its name to a new one. One that somebody has given another name,
/// or still uses, stays.
fn remove_replaced(engine: &Engine, id: &str, name: &str) {
    let Ok(Some(image)) = inventory::inspect(engine, id) else { return };
    let labels = image.config.and_then(|config| config.labels).unwrap_or_default();
    let is_nameless = inventory::real_tags(image.repo_tags.unwrap_or_default()).is_empty();
    if is_nameless && labels.get(LABEL).is_some_and(|labelled| labelled == name) {
        let _ = engine.call(engine.docker().remove_image(id, None::<RemoveImageOptions>, None));
    }
}

/// The built images that engines have, each once; none when there is no engine.
///
/// # Errors
/// When an engine does not answer.
pub(super) fn kept() -> Result<Vec<CachedItem>, Fault> {
    let mut kept: Vec<CachedItem> = Vec::new();
    for engine in find::all()? {
        kept.extend(listed(&engine)?);
    }
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    kept.dedup();
    Ok(kept)
}

fn listed(engine: &Engine) -> Result<Vec<CachedItem>, Fault> {
    let filters = HashMap::from([("label", vec![LABEL])]);
    let options = ListImagesOptionsBuilder::new().filters(&filters).build();
    let images = engine.call(engine.docker().list_images(Some(options)));
    let images = images.map_err(|error| error.doing("list the images that were built"))?;
    let own = images.into_iter().filter_map(|image| own_name(&image.labels, &image.repo_tags));
    Ok(own.map(|name| CachedItem { kind: KIND.to_owned(), name, bundle: None }).collect())
}

/// The name under which an image was built, if it still has it.
fn own_name(labels: &HashMap<String, String>, tags: &[String]) -> Option<String> {
    let name = labels.get(LABEL)?;
    let is_ours = name.strip_prefix(BUILT_IMAGES).is_some_and(|tag| tag.starts_with(':'));
    (is_ours && tags.contains(name)).then(|| name.clone())
}

/// Removes a built image by the name that [`kept`] gives it; one that is already gone is no error.
///
/// # Errors
/// When the engine does not answer, or a container still uses the image.
pub(super) fn remove(name: &str) -> Result<(), Fault> {
    find::all()?.iter().try_for_each(|engine| remove_from(engine, name))
}

fn remove_from(engine: &Engine, name: &str) -> Result<(), Fault> {
    if !listed(engine)?.iter().any(|item| item.name == name) {
        return Ok(());
    }
    // By its name and not forced: other names of the image, and who uses it, stay.
    let options = RemoveImageOptionsBuilder::new().build();
    match engine.call(engine.docker().remove_image(name, Some(options), None)) {
        Ok(_) => Ok(()),
        Err(error) if error.is_missing() => Ok(()),
        Err(error) => Err(error.doing(format!("remove the image {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str) -> BuildInfo {
        BuildInfo { stream: Some(text.to_owned()), ..Default::default() }
    }

    #[test]
    fn a_folder_has_a_name_of_its_own() {
        let name = name_of(Path::new("/home/me/My App"));
        let tag = name.strip_prefix("localhost/tare-built:my-app-").expect("it begins with the folder's name");
        assert_eq!(tag.len(), 2 * HASH_BYTES);
        assert_ne!(name, name_of(Path::new("/home/you/My App")));
        for odd in ["/", "/.hidden", "/ä/ö", "/-x-"] {
            let name = name_of(Path::new(odd));
            let tag = name.strip_prefix("localhost/tare-built:").unwrap();
            assert!(tag.starts_with(|first: char| first.is_ascii_alphanumeric()) && tag.len() <= 128, "{name}");
        }
    }

    #[test]
    fn nothing_is_built_under_a_name_of_our_own_images() {
        let bundle = format!("localhost/tare-bundle:{}", "ab".repeat(16));
        for name in [bundle.as_str(), "docker.io/library/tare-built:app-1", name_of(Path::new("/app")).as_str()] {
            let fault = refuse_own_name(name).unwrap_err();
            assert!(fault.mistake && fault.message == format!("{name} is a name of Tare's own images"), "{fault}");
            assert_eq!(fault.remedy, "give 'image:' another name");
        }
        assert!(refuse_own_name("shop-web").is_ok());
    }

    #[test]
    fn output_is_said_line_by_line_and_the_last_lines_are_kept() {
        let (mut said, mut output) = (Vec::new(), Output::default());
        let mut say = |line: &str| said.push(line.to_owned());
        output.take(piece("Step 1/2 : FROM"), &mut say);
        output.take(piece(" scratch\n\n ---> 1\n"), &mut say);
        output.take(piece("\u{1b}[91m10%\r50%\r\u{1b}[0m100%\u{7}\r\n"), &mut say);
        let of_layer =
            BuildInfo { id: Some("a1".to_owned()), status: Some("Waiting".to_owned()), ..Default::default() };
        output.take(of_layer, &mut say);
        output.take(BuildInfo { status: Some("Digest: x".to_owned()), ..Default::default() }, &mut say);
        output.take(piece("no end"), &mut say);
        output.end(&mut say);
        let lines = ["Step 1/2 : FROM scratch", " ---> 1", "100%", "Digest: x", "no end"];
        let fault = output.explain(Fault::new("x"));
        assert_eq!(said, lines);
        assert_eq!(fault.log, lines.join("\n"));
        let mut output = Output::default();
        (0..100).for_each(|line| output.take(piece(&format!("{line}\n")), &mut |_| {}));
        assert!(output.last.len() == LAST_LINES && output.last.back().is_some_and(|line| line == "99"));
    }

    #[test]
    fn a_build_that_failed_is_a_mistake_and_an_engine_that_broke_off_is_none() {
        let refused = CallError::Refused { status: 500, message: "returned a non-zero code: 2\n".to_owned() };
        let fault = failed(Path::new("/app"), refused);
        assert!(fault.mistake && fault.message.ends_with("could not be built: returned a non-zero code: 2"), "{fault}");
        let fault = failed(Path::new("/app"), CallError::Broken(Fault::new("it hangs")));
        assert_eq!((fault.mistake, fault.message.as_str()), (false, "could not build the image of /app: it hangs"));
    }

    #[test]
    fn what_has_our_label_under_another_name_is_not_ours() {
        let ours = format!("{BUILT_IMAGES}:app-1");
        let labels = HashMap::from([(LABEL.to_owned(), ours.clone())]);
        assert_eq!(own_name(&labels, &["mine:1".to_owned(), ours.clone()]), Some(ours.clone()));
        assert_eq!(own_name(&labels, &["mine:1".to_owned()]), None);
        assert_eq!(own_name(&HashMap::new(), std::slice::from_ref(&ours)), None);
        let other = HashMap::from([(LABEL.to_owned(), "mine:1".to_owned())]);
        assert_eq!(own_name(&other, &["mine:1".to_owned()]), None);
    }
}
