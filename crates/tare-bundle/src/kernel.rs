//! The kernel that guests boot: the host's own if it is readable and has virtio drivers, else the distribution's.

use crate::command;
use crate::packages::{self, sources::Distribution};
use crate::places::{self, Places};
use crate::unpack::layer::Assembly;
use crate::unpack::rooted::Rooted;
use std::path::{Path, PathBuf};
use tare_core::bundle::Kernel;
use tare_core::fault::{Doing, Fault};

/// What a guest needs, as modules or built in.
const NEEDED: &[&str] = &["virtio_blk", "virtio_net", "virtio_console", "virtio_pci", "ext4"];

/// Finds or fetches the kernel. Calls `say` before it fetches one.
pub(crate) fn find(places: &Places, say: &dyn Fn(&str)) -> Result<Kernel, Fault> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let own = Kernel {
        image: PathBuf::from(format!("/boot/vmlinuz-{release}")),
        modules: PathBuf::from(format!("/lib/modules/{release}")),
        release,
        origin: "the host's own".to_owned(),
    };
    let Err(unfit) = check(&own) else { return Ok(own) };
    let distribution = Distribution::of_host()?;
    obtain(places, &distribution, say, || {
        fetch(places, &distribution).map_err(|fault| {
            fault.context(format_args!("there is no kernel for guests ({unfit}), and fetching one failed"))
        })
    })
}

/// The kernel that is kept, else the one that `fetch` brings, once for all who ask at the same time. Because a user may
/// only have asked what this machine can do, `say` announces the download and where it is kept.
fn obtain(
    places: &Places,
    distribution: &Distribution,
    say: &dyn Fn(&str),
    fetch: impl FnOnce() -> Result<Kernel, Fault>,
) -> Result<Kernel, Fault> {
    if let Some(kernel) = kept(places, distribution)? {
        return Ok(kernel);
    }
    let _lock = places.lock("kernel")?;
    if let Some(kernel) = kept(places, distribution)? {
        return Ok(kernel);
    }
    say(&format!("fetching a kernel for guests, once: it is kept in {}", places.kernels().display()));
    fetch()
}

/// Whether a kernel can be read and has what a guest needs.
fn check(kernel: &Kernel) -> Result<(), Fault> {
    std::fs::File::open(&kernel.image).doing(format_args!("read {}", kernel.image.display()))?;
    let mut names = Vec::new();
    for list in ["modules.dep", "modules.builtin"] {
        let path = kernel.modules.join(list);
        let text = std::fs::read_to_string(&path).doing(format_args!("read {}", path.display()))?;
        names.extend(text.lines().map(|line| module_name(line.split(':').next().unwrap_or_default())));
    }
    match NEEDED.iter().find(|needed| !names.iter().any(|name| name == *needed)) {
        None => Ok(()),
        Some(missing) => Err(Fault::new(format!("the kernel {} has no {missing}", kernel.release))),
    }
}

/// `kernel/fs/ext4/ext4.ko.xz` is the module `ext4`.
fn module_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.split(".ko").next().unwrap_or_default().replace('-', "_")
}

/// The newest kernel kept for this release of the distribution.
fn kept(places: &Places, distribution: &Distribution) -> Result<Option<Kernel>, Fault> {
    let folder = places.kernels();
    let mut found: Vec<Kernel> = Vec::new();
    for item in std::fs::read_dir(&folder).doing(format_args!("list {}", folder.display()))?.flatten() {
        let suffix = format!("-{}", distribution.codename);
        if !item.file_name().to_string_lossy().ends_with(&suffix) {
            continue;
        }
        if let Ok(bytes) = std::fs::read(item.path().join("kernel.json")) {
            found.extend(serde_json::from_slice::<Kernel>(&bytes).ok().filter(|kernel| check(kernel).is_ok()));
        }
    }
    found.sort_by(|a, b| a.release.cmp(&b.release));
    Ok(found.pop())
}

fn fetch(places: &Places, distribution: &Distribution) -> Result<Kernel, Fault> {
    let work = places.workplace()?;
    let package = cloud_kernel(distribution)?;
    let fetched = packages::fetch(&[package], &work.path)?;
    let made = work.path.join("kernel");
    std::fs::create_dir(&made).doing(format_args!("make {}", made.display()))?;
    let mut assembly = Assembly::new(Rooted::open(&made)?);
    let archive = std::fs::File::open(&fetched.archive).doing("open the fetched kernel")?;
    assembly.apply(std::io::BufReader::new(archive), &|path| !is_kept(path))?;
    assembly.finish()?;
    // Releases of Debian and Ubuntu ship modules under one or the other path.
    if !made.join("lib/modules").is_dir() && made.join("usr/lib/modules").is_dir() {
        std::fs::create_dir_all(made.join("lib"))
            .and_then(|()| std::fs::remove_dir(made.join("lib/modules")).or(Ok(())))
            .and_then(|()| std::fs::rename(made.join("usr/lib/modules"), made.join("lib/modules")))
            .doing("put the modules into place")?;
    }
    let release = release_in(&made)?;
    if !made.join("lib/modules").join(&release).join("modules.dep").is_file() {
        let arguments = ["-b".to_owned(), made.display().to_string(), release.clone()];
        command::run("depmod", "kmod", &arguments)
            .map_err(|fault| fault.context("could not index the kernel's modules"))?;
    }
    std::fs::rename(made.join("boot").join(format!("vmlinuz-{release}")), made.join("vmlinuz"))
        .doing("put the kernel into place")?;
    let place = places.kernels().join(format!("{release}-{}", distribution.codename));
    let version = fetched.packages.iter().find_map(|package| {
        let mut words = package.split(' ');
        let (name, version) = (words.next()?, words.next()?);
        (name == format!("linux-image-{release}")).then(|| version.to_owned())
    });
    let name = if distribution.id == "ubuntu" { "Ubuntu" } else { "Debian" };
    let version = version.map(|version| format!(" ({version})")).unwrap_or_default();
    let kernel = Kernel {
        image: place.join("vmlinuz"),
        modules: place.join("lib/modules").join(&release),
        origin: format!("{name} cloud kernel {release}{version}"),
        release,
    };
    let bytes = serde_json::to_vec_pretty(&kernel).doing("write down the kernel")?;
    places::write_whole(&made.join("kernel.json"), &bytes, 0o644)?;
    let folder = std::fs::File::open(&made).doing("keep the kernel")?;
    rustix::fs::syncfs(&folder).doing("keep the kernel")?;
    if place.exists() {
        std::fs::rename(&place, work.path.join("replaced")).doing("replace an unusable kernel")?;
    }
    std::fs::rename(&made, &place).doing("keep the kernel")?;
    check(&kernel).map_err(|fault| fault.context("the distribution's cloud kernel cannot be used"))?;
    Ok(kernel)
}

fn is_kept(path: &[u8]) -> bool {
    [&b"boot/vmlinuz"[..], b"lib/modules/", b"usr/lib/modules/"].iter().any(|start| path.starts_with(start))
}

/// The package that always depends on the newest kernel for virtual machines.
fn cloud_kernel(distribution: &Distribution) -> Result<String, Fault> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => {
            return Err(Fault::new(format!("no cloud kernel is known for {other}"))
                .remedy("install a kernel whose /boot/vmlinuz can be read"));
        }
    };
    Ok(match distribution.id.as_str() {
        "ubuntu" => "linux-image-virtual".to_owned(),
        _ => format!("linux-image-cloud-{architecture}"),
    })
}

fn release_in(made: &Path) -> Result<String, Fault> {
    let boot = made.join("boot");
    let names = std::fs::read_dir(&boot).doing(format_args!("list {}", boot.display()))?;
    names
        .flatten()
        .filter_map(|item| item.file_name().to_str()?.strip_prefix("vmlinuz-").map(str::to_owned))
        .max()
        .ok_or_else(|| Fault::new("the fetched kernel package holds no kernel"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn what_is_fetched_is_said_before_and_what_is_kept_is_not_fetched() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::open(folder.path()).unwrap();
        let distribution = Distribution { id: "debian".to_owned(), codename: "none".to_owned() };
        let said = RefCell::new(Vec::new());
        let say = |text: &str| said.borrow_mut().push(text.to_owned());
        let place = places.kernels().join("1.2.3-none");
        let kernel = Kernel {
            image: place.join("vmlinuz"),
            modules: place.clone(),
            release: "1.2.3".to_owned(),
            origin: "a test".to_owned(),
        };
        let fetch = || {
            assert_eq!(said.borrow().len(), 1, "before, not after");
            std::fs::create_dir(&place).unwrap();
            let modules: String = NEEDED.iter().map(|name| format!("kernel/{name}.ko:\n")).collect();
            let made = serde_json::to_string(&kernel).unwrap();
            let files = [("vmlinuz", ""), ("modules.dep", &*modules), ("modules.builtin", ""), ("kernel.json", &*made)];
            for (name, text) in files {
                std::fs::write(place.join(name), text).unwrap();
            }
            Ok(kernel.clone())
        };
        assert_eq!(obtain(&places, &distribution, &say, fetch).unwrap(), kernel);
        let word = said.borrow()[0].clone();
        assert!(word.contains("kernel for guests") && word.contains(&places.kernels().display().to_string()), "{word}");
        let again = obtain(&places, &distribution, &say, || panic!("it is kept")).unwrap();
        assert_eq!((again, said.borrow().len()), (kernel.clone(), 1));
    }

    #[test]
    fn modules_are_named_as_the_kernel_names_them() {
        assert_eq!(module_name("kernel/drivers/block/virtio-blk.ko.zst"), "virtio_blk");
        assert_eq!(module_name("kernel/fs/ext4/ext4.ko"), "ext4");
    }
}
