//! Images made elsewhere: those that cannot run are all refused at once, with their places, before anything starts; one
//! that begins as root runs in each form.

use crate::end_to_end::lab::{Lab, flat, text};
use std::path::Path;
use std::process::Command;
use tare_core::trial::Outcome;

/// An image: its name, its configuration, the script that makes its files, and the expected message.
type Image = (&'static str, &'static str, &'static str, &'static str);

const REFUSED: &[Image] = &[
    ("nobody", r#""User":"nosuchuser","Cmd":["/bin/true"]"#, "cp /bin/true bin/", "there is no user 'nosuchuser'"),
    (
        "nogroup",
        r#""User":"33:nosuchgroup","Cmd":["/bin/true"]"#,
        "cp /bin/true bin/",
        "there is no group 'nosuchgroup'",
    ),
    ("bash", r#""Cmd":["/go"]"#, "printf '#!/bin/bash\\n' > go; chmod +x go", "is a script for /bin/bash"),
    ("windows", r#""Cmd":["/go"]"#, "printf '#!/bin/sh\\r\\n' > go; chmod +x go", "Windows line endings"),
    ("closed", r#""Cmd":["/go"]"#, "printf '#!/bin/sh\\n' > go; chmod 644 go", "/go, which is not executable"),
    ("loader", r#""Cmd":["/bin/true"]"#, "cp /bin/true bin/", "is linked for the loader"),
    ("nowhere", r#""Cmd":["server","-x"]"#, ":", "'server', which is not in any folder of PATH"),
];

/// Makes an archive with one layer, like `docker save`, by tar and sha256sum.
pub(crate) fn save(archive: &Path, says: &str, files: &str) {
    let script = "set -e; d=$(mktemp -d); trap 'rm -rf $d' EXIT; cd $d; mkdir -p root/bin\n\
                  (cd root; eval \"$3\")\n\
                  tar -cf layer.tar --owner=0 --group=0 -C root .\n\
                  id=$(sha256sum layer.tar | cut -d' ' -f1)\n\
                  printf '{\"os\":\"linux\",\"config\":{\"ExposedPorts\":{\"8080/tcp\":{}},%s},' \"$2\" > c.json\n\
                  printf '\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:%s\"]}}' $id >> c.json\n\
                  echo '[{\"Config\":\"c.json\",\"RepoTags\":null,\"Layers\":[\"layer.tar\"]}]' > manifest.json\n\
                  tar -cf \"$1\" manifest.json c.json layer.tar";
    let made = Command::new("sh").args(["-c", script, "sh", text(archive), says, files]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn images_that_cannot_run_are_all_reported_with_their_place() {
    let Some(lab) = Lab::open(&["tar", "sha256sum"]) else { return };
    let mut workload =
        "workload: hands\nload: {service: nobody, protocol: {http: {requests: [{path: /}]}}}\nservices:\n".to_owned();
    std::fs::create_dir_all(lab.path("hands")).unwrap();
    for (name, says, files, _) in REFUSED {
        save(&lab.path(&format!("hands/{name}.tar")), says, files);
        workload += &format!("  {name}: {{bundle: {{image: ./{name}.tar}}}}\n");
    }
    lab.write("hands/workload.yaml", workload);
    let study =
        lab.write("s.yaml", "study: s\nworkload: ./hands\nload: {closed: {connections: 1}}\nforms: {native: []}\n");
    let record = lab.path("record");
    let said = lab.expect(2, &["run", text(&study), "--out", text(&record)]);
    let flat = flat(&said);
    for (line, (name, .., told)) in (4..).zip(REFUSED) {
        assert!(flat.contains(told), "{name}: '{told}' is not there: {said}");
        assert!(flat.contains(&format!("hands/workload.yaml:{line}:")), "{name}: {said}");
    }
    assert!(flat.contains(&format!("{} mistakes; nothing was started", REFUSED.len())), "{said}");
    assert_eq!(flat.matches("= hint:").count(), REFUSED.len(), "{said}");
    assert!(!record.join("record.json").exists(), "{said}");
    lab.expect_clean();
}

#[test]
fn an_unknown_compression_of_an_archive_is_reported() {
    let Some(lab) = Lab::open(&["tar", "sha256sum", "xz"]) else { return };
    let plain = lab.path("image.tar");
    save(&plain, r#""Cmd":["/bin/true"]"#, "cp /bin/true bin/");
    lab.expect(0, &["bundle", "build", "--image", text(&plain)]);
    assert!(Command::new("xz").arg(&plain).status().unwrap().success());
    let said = lab.expect(2, &["bundle", "build", "--image", text(&lab.path("image.tar.xz"))]);
    let flat = flat(&said);
    assert!(flat.contains("it is compressed with xz, which is not supported to do: decompress it"), "{said}");
}

/// Puts the programs of this machine that `$programs` names into an image.
const COPY: &str = r##"
for program in $programs; do
  file=$(command -v $program)
  for part in $file $(ldd $file | grep -o '/[^ )]*'); do mkdir -p .${part%/*}; cp -L $part .$part; done
done
"##;

/// What an image holds that begins as root, as those of well-known servers do: it makes directories, gives them away
/// and drops to a user.
const ENTRY: &str = r##"
mkdir -p etc data tmp; chmod 1777 tmp; echo image > data/begun
printf 'root:x:0:0::/root:/bin/sh\nweb:x:33:33::/var/www:/bin/sh\n' > etc/passwd
{
  echo "#!$(command -v sh)"
  cat <<'END'
set -e
test "$HOME" = /root
test -e /data/begun
mkdir -p /var/cache/app /run/app
chown -R 33:33 /var/cache/app /run/app /data
echo 'by root' > /etc/begun
exec setpriv --reuid 33 --regid 33 --clear-groups redis-server --port 8080 --bind 0.0.0.0 --protected-mode no \
  --dir /data --pidfile /run/app/pid --save '' "$@"
END
} > entry
chmod 755 entry
"##;

#[test]
fn an_image_that_begins_as_root_and_drops_to_a_user_runs_in_each_form() {
    let Some(lab) = Lab::with_engine(&["tar", "sha256sum", "setpriv", "redis-server"]) else { return };
    std::fs::create_dir_all(lab.path("entry")).unwrap();
    let says = r#""Entrypoint":["/entry"],"Cmd":["--appendonly","no"],"Volumes":{"/data":{}},"StopSignal":"SIGINT""#;
    save(&lab.path("entry/app.tar"), says, &format!("programs='sh mkdir chown setpriv redis-server'{COPY}{ENTRY}"));
    let redis = "{mix: {get: 1, set: 1}, keys: 100, value_bytes: 8, populate: all, verify: true}";
    let workload = format!(
        "workload: entry\nservices: {{app: {{bundle: {{image: ./app.tar}}, as_image: true}}}}\n\
         load: {{protocol: {{redis: {redis}}}}}\n"
    );
    lab.write("entry/workload.yaml", workload);
    let study = "study: entry\nworkload: ./entry\nload: {closed: {connections: 2}}\nrepeat: 1\n\
                 time: {settle: 0s, measure: 1s}\n\
                 forms: {native: [], container: [container], host: [container: {network: host}]}\n";
    let (said, record) = lab.run(study);
    assert!(flat(&said).contains("user from the image: root, which is 0:0"), "{said}");
    assert!(!record.trials.is_empty());
    for trial in record.trials.iter().map(|trial| &trial.record) {
        assert_eq!(trial.outcome, Outcome::Measured, "{}", trial.trial.arm());
        assert!(trial.load.as_ref().unwrap().failures.is_empty(), "{}", trial.trial.arm());
    }
}

/// An image whose service makes a file for others, or serves once it has read it.
const SHARING: &str = r##"
mkdir -p etc data tmp; chmod 1777 tmp
printf 'root:x:0:0::/root:/bin/sh\nweb:x:33:33::/var/www:/bin/sh\n' > etc/passwd
{
  echo "#!$(command -v sh)"
  cat <<'END'
set -e
if test "$1" = maker; then
  echo made > /site/made
  chown 33:33 /site/made
  chmod 600 /site/made
else
  test "$(setpriv --reuid 33 --regid 33 --clear-groups cat /common/made)" = made
  if touch /common/other; then exit 1; fi
fi
exec redis-server --port "$2" --bind 0.0.0.0 --protected-mode no --dir /data --save ''
END
} > entry
chmod 755 entry
"##;

#[test]
fn services_share_a_volume_in_each_form() {
    let Some(lab) = Lab::with_engine(&["tar", "sha256sum", "setpriv", "redis-server"]) else { return };
    std::fs::create_dir_all(lab.path("sharing")).unwrap();
    let files = format!("programs='sh chown chmod cat touch setpriv redis-server'{COPY}{SHARING}");
    save(&lab.path("sharing/app.tar"), r#""Entrypoint":["/entry"]"#, &files);
    let service = |name: &str, port: u16, volume: &str| {
        format!(
            "  {name}: {{bundle: {{image: ./app.tar}}, as_image: true, command: [/entry, {name}, '{port}'], ports: \
             {{main: {port}}}, volumes: {{{volume}}}}}\n"
        )
    };
    let workload = format!(
        "workload: sharing\nservices:\n{}{}load:\n  service: reader\n  protocol: {{redis: {{mix: {{get: 1, set: 1}}, \
         keys: 100, value_bytes: 8, populate: all}}}}\n",
        service("maker", 8081, "/site: {shared: site, space: 1MiB}"),
        service("reader", 8080, "/common: {shared: site, read_only: true}")
    );
    lab.write("sharing/workload.yaml", workload);
    let study = "study: sharing\nworkload: ./sharing\nload: {closed: {connections: 2}}\nrepeat: 1\n\
                 time: {settle: 0s, measure: 1s}\n\
                 forms: {native: [], container: [container], host: [container: {network: host}]}\n";
    let (_, record) = lab.run(study);
    assert!(!record.trials.is_empty());
    for trial in record.trials.iter().map(|trial| &trial.record) {
        assert_eq!(trial.outcome, Outcome::Measured, "{}", trial.trial.arm());
    }
}
