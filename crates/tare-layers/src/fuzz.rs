//! Everything that must withstand arbitrary bytes: the agent's line, files from images and kernels, what kernels and
//! guests say, and options of layers. The table makes a test of each for the gate; `cargo xtask fuzz` runs them for as
//! long as one likes.

use crate::LAYERS;
use crate::lab::KINDS;
use crate::{agent, container, local, vm};
use tare_core::config::{Node, Problems, parse};
use tare_core::host::layer_named;
use tare_core::lab::Lab;
use tare_core::layer::{LayerOptions, LayerUse};
use tare_core::load::LoadOrigin;

hostile::targets! {
    agent { files: &["samples/agent.txt"], words: AGENT, cases: 1000 }
    control_line {
        words: &["{", "}", "[", "]", ":", ",", "\n", "\"QMP\"", "\"return\"", "\"error\"", "\"event\"", "\"cpu-index\"", "-1"],
        samples: &[GREETED],
        cases: 400,
    }
    runtime_log {
        words: &["{", "}", "\"msg\"", ":", "\"", "\n", "null", "\\u0000", "why"],
        samples: &[b"{\"level\":\"error\",\"msg\":\"why not\"}\nnoise\n"],
    }
    users_file {
        words: &[":", "\n", "\r", "/", "\0", "x:", "7", "65540", "tare-65540:", "tare-65540-:", "/home", "+7", "\u{85}"],
        samples: &[
            b"root:x:0:0:root:/root:/bin/sh\ndb:x:999:9::/var/lib/db:/x\nodd:x:7:7::data:/x\nbad:x:8\n",
            b"tare-65540:x:1:1::/:/x\ntare-65540-:x:1:1::/:/x",
            b"x:x:7:7::/a\r/b:/x\n",
            b"x:x:65540\r",
        ],
    }
    module_list {
        words: &[":", "\n", " ", "a.ko", "a.ko: ", "b.ko", "b.ko: a.ko\n", "kernel/c-d.ko.xz", "c_d.ko: ", "/", ".ko"],
        samples: &[
            b"k/a.ko:\nk/b.ko.xz: k/a.ko\nk/c-d.ko: k/b.ko.xz k/a.ko\n",
            // Without an end.
            b"a.ko: b.ko\nb.ko: a.ko\n",
        ],
    }
    maps {
        words: &["7f00-7f01", " r-xp ", " rwxp ", "/", " ", "\n", "/srv/root", " (deleted)", "/memfd:", "..", "-"],
        samples: &[
            b"00400000-00452000 r-xp 00001000 fe:00 12   /usr/lib/a b.so (deleted)\n\
              7f00-7f01 r-xp 00001000 fe:00 12   /srv/root/bin/x\n7ffd-7ffe rwxp 00000000 00:01 12   /memfd:jit\n",
            b"../../x r-xp 00000000 fe:00 12   /usr/lib/a.so\n",
        ],
    }
    control_groups {
        words: &["\n", "\n\n", ":", "0::/", "/", " - ", "cgroup", "cgroup2", "memory", "name=", ",", " ", "/docker/x"],
        samples: &[
            b"5:memory:/docker/x\n1:name=systemd:/docker/x\n0::/\n\n\
              30 20 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            b"0::/outer-one/d\n0::/outer/d\n\n29 23 0:26 /outer /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        ],
    }
    kernel_log {
        files: &["src/container/fixtures/*.kmsg"],
        words: &["oom-kill:", "task_memcg=", ",", "/docker/abc12", "abc12", "abc13", "\n", ";", "6,1,2,-;"],
    }
    console {
        words: &["\n", "\r", "\u{1b}[m", "Kernel panic - not syncing", ": no init", " ", "[ 1.0] ", "\u{85}"],
        samples: &[
            b"[ 1.0] \x1b[mKernel panic - not syncing: no init\n[ 1.1] trace\r\n",
            b"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\no\np\nq\nr\ns\nt\nu\nv\nw\nx\ny\nz\nA\nB\n",
        ],
    }
    disk_content {
        words: &["\n", "=", "TYPE=", "ext4", "UUID=", "LABEL=", "tare-scratch", "PTTYPE=", "gpt", "crypto_LUKS", "\r"],
        samples: &[
            b"DEVNAME=/dev/x\nLABEL=tare-scratch\nUUID=74617265-0d15-4c0f-9a6e-5c2a7c4be901\nTYPE=ext4\n",
            b"DEVNAME=/dev/x\nPTUUID=1\nPTTYPE=gpt\n",
            b"TYPE=\n",
        ],
    }
    lab {
        words: &["machines:", "{", "}", "[", "]", ", ", ": ", "\n", "  ", "ssh", "command", "network", "home", "{tare}", "agent", "-o"],
        samples: &[
            b"machines:\n  sut: {ssh: root@10.0.0.5, network: 192.168.50.5, home: /srv/tare}\n",
            b"machines:\n  any:\n    command: [teleport, exec, any, --, \"{tare}\", agent]\n    network: \"2001:db8::1\"\n",
            b"machines: {a: {slurm: {partition: lab}}}\n",
        ],
        cases: 300,
    }
    layer_options {
        files: &["../../studies/*.yaml"],
        samples: &[
            b"container: {network: published, storage: overlay, limits: quota}\n",
            b"vm: {vhost: \"off\", pin: false, cache: writethrough}\n",
            b"- vm: {disk: qcow2, cpus: 2, memory: 1GiB}\n- container: {engine: crun}\n",
        ],
        words: OPTIONS,
        cases: 400,
    }
}

/// What comes over the agent's line.
pub fn agent(bytes: &[u8]) {
    agent::chew(bytes);
}

/// What comes over the control line of a guest's QEMU.
pub fn control_line(bytes: &[u8]) {
    vm::chew_control_line(bytes);
}

/// What a container's runtime leaves in its log.
pub fn runtime_log(bytes: &[u8]) {
    container::chew_runtime_log(&String::from_utf8_lossy(bytes));
}

/// An image's list of users, or of hosts.
pub fn users_file(bytes: &[u8]) {
    local::accounts::chew(bytes);
    local::hosts::chew(bytes);
}

/// What a kernel says about its modules.
pub fn module_list(bytes: &[u8]) {
    vm::chew_modules(&String::from_utf8_lossy(bytes));
}

/// What the kernel says a process has mapped, where the process chose the files' names.
pub fn maps(bytes: &[u8]) {
    local::chew_maps(&String::from_utf8_lossy(bytes));
}

/// What the kernel says about control groups and where they are mounted.
pub fn control_groups(bytes: &[u8]) {
    container::chew_groups(&String::from_utf8_lossy(bytes));
}

/// What is in the kernel's log, where processes have names of their own choice.
pub fn kernel_log(bytes: &[u8]) {
    container::chew_log(&String::from_utf8_lossy(bytes));
}

/// What a guest writes to its console.
pub fn console(bytes: &[u8]) {
    vm::chew_console(&String::from_utf8_lossy(bytes));
}

/// What is found on a disk that the user named.
pub fn disk_content(bytes: &[u8]) {
    vm::chew_content(&String::from_utf8_lossy(bytes));
}

/// A lab file: each machine that is accepted is reached by a command with a program of its own, which runs the words
/// behind it, and each failure of it has a message.
pub fn lab(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let machines = match Lab::read("lab.yaml", &text, &KINDS) {
        Ok(lab) => lab.machines,
        Err(found) => {
            assert!(!found.is_empty());
            return;
        }
    };
    for machine in machines {
        let command = machine.way.command(&["uname", "-sm"], false);
        assert!(command.len() > 2 && command.ends_with(&["uname".to_owned(), "-sm".to_owned()]), "{command:?}");
        let failed = machine.way.broken(Some(255), &text).into_iter().chain(machine.way.broken(None, &text));
        assert!(failed.chain([machine.way.absent()]).all(|fault| !fault.message.is_empty()));
    }
}

/// Options of layers, wherever in a file a layer's name is. What is refused is explained; what is accepted is broken
/// down into features and variants, each of which is again a valid set of options.
pub fn layer_options(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some(node) = parse(&text, &mut Problems::default()) else { return };
    node.each_entry(&mut |name, options| {
        let layer = layer_named(LAYERS, name);
        layer.inspect(|layer| read_options(*layer, options, &text)).is_some()
    });
}

fn read_options(layer: &dyn LayerOptions, node: &Node, text: &str) {
    let mut problems = Problems::new("study.yaml", text);
    let read = layer.read(node, &mut problems);
    assert_eq!(read.is_none(), !problems.is_empty(), "{}: {read:?}, and {:#?}", layer.name(), problems.into_vec());
    let Some(options) = read else { return };
    let used = |options: &serde_json::Value| LayerUse { layer: layer.name().to_owned(), options: options.clone() };
    layer.listens(&options);
    for from in [LoadOrigin::Outside, LoadOrigin::Host, LoadOrigin::Inside] {
        for below in [vec![], vec![used(&options)]] {
            let rungs = layer.rungs(&options, &below, from);
            assert!(rungs.last().is_none_or(|rung| rung.options == options), "the last rung is all of {options}");
        }
        layer.variants(&options, from);
    }
}

const GREETED: &[u8] =
    b"{\"QMP\":{\"version\":{\"qemu\":{\"micro\":22,\"minor\":2,\"major\":7}},\"capabilities\":[]}}\n\
    {\"return\":{}}\n{\"event\":\"RESUME\"}\n\
    {\"return\":[{\"cpu-index\":1,\"thread-id\":77},{\"cpu-index\":0,\"thread-id\":76}]}\n";
const AGENT: &[&str] = &[
    "{\"id\":",
    "\"call\":",
    "\"outcome\":",
    "}",
    "]",
    "[",
    ",",
    "\n",
    "\"freeze\"",
    "\"close\"",
    "null",
    "\"ok\"",
    "18446744073709551615",
    "-1",
    "1e999",
    "{\"secs\":18446744073709551615,\"nanos\":999999999}",
    "{\"start\":{",
    "\"",
    "\\u0000",
];
const OPTIONS: &[&str] = &[
    "container: ",
    "vm: ",
    "{",
    "}",
    "[",
    "]",
    ", ",
    ": ",
    "- ",
    "\n",
    "  ",
    "network",
    "storage",
    "limits",
    "memory",
    "cpus",
    "disk",
    "cache",
    "vhost",
    "pin",
    "true",
    "false",
    "\"off\"",
    "4KiB",
    "2",
    "host",
    "published",
    "~",
    "'",
];
