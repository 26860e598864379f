# Sourced by ./quickstart and ./test: finds out what is missing on a Debian or Ubuntu machine, says it, installs it,
# and sees to it that a Docker Engine answers.

rust_needed=1.91   # the oldest that builds it
rust_wanted=1.95.0 # what is installed where there is none: lints and formatting change with the version
deny_wanted=0.20.2
docker_socket=/var/run/docker.sock
our_policy=        # the file that keeps packages from starting what they bring, while we have put it there
docker_started_by= # how we started the Docker Engine: empty (we did not), "systemd" or its process id

# A unit of systemd and a job of cron have none.
export HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}

say() { printf '%s\n' "$*"; }

die() {
    printf '%s: error: %s\n' "${0##*/}" "$1" >&2
    [ -z "${2:-}" ] || printf '  to do: %s\n' "$2" >&2
    exit 1
}

# say_what_sudo_does: the first that a user sees of sudo is a question for a password.
say_what_sudo_does() {
    [ "$(id -u)" = 0 ] || say "sudo is used to install packages, start the Docker Engine and run Tare; it may ask for your password"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# install_packages NEED...: each need is `package=what shows that it is there`, a command or an absolute path.
# Nothing that the packages bring is started or enabled: a fresh redis-server would take the port that is wanted. And
# nothing is removed for them: what somebody has instead of one, as mysql-server, is not ours to take away.
install_packages() {
    local need package evidence missing=()
    for need in "$@"; do
        package=${need%%=*} evidence=${need#*=}
        case $evidence in
        /*) [ -e "$evidence" ] ;;
        *) PATH=$PATH:/usr/sbin:/sbin command -v "$evidence" >/dev/null ;;
        esac || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null ||
        die "missing: ${missing[*]}; and this is neither Debian nor Ubuntu" "install their like by hand, then run this again"
    say "installing with apt: ${missing[*]}"
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        our_policy=/usr/sbin/policy-rc.d
        printf '#!/bin/sh\nexit 101\n' | as_root install -m 755 /dev/stdin $our_policy
    fi
    local apt=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C.UTF-8 apt-get -o Dpkg::Use-Pty=0
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o APT::Get::AutomaticRemove=false)
    local install=(install -y --no-install-recommends "${missing[@]}")
    local failed=
    { as_root "${apt[@]}" -qq update && as_root "${apt[@]}" -qq --no-remove "${install[@]}"; } \
        </dev/null >"$log_dir/apt.log" 2>&1 || failed=1
    remove_our_policy
    if [ -n "$failed" ]; then
        tail -n 20 "$log_dir/apt.log" >&2
        # So quiet, it does not name what would have to go.
        local conflicts
        conflicts=$(grep -q 'remove is disabled' "$log_dir/apt.log" && "${apt[@]}" -q --simulate "${install[@]}" </dev/null 2>/dev/null |
            sed -n 's/^Remv \([^ ]*\).*/\1/p' | paste -sd ' ') || true
        [ -z "$conflicts" ] ||
            die "to install ${missing[*]}, apt would have to remove what is here: $conflicts; nothing was installed" \
                "where nothing needs that any more: apt-get remove $conflicts; else take another machine, or a guest"
        die "apt could not install: ${missing[*]}" "see the lines above; 'apt-get update' and a working mirror are needed"
    fi
    local server
    for server in redis-server nginx postgresql mariadb-server lxc podman openssh-server; do
        if has_systemd && [[ " ${missing[*]} " == *" $server "* ]]; then
            local units=("${server/mariadb-server/mariadb}")
            case $server in
            lxc) units+=(lxc-net) ;;
            podman) units+=(podman.socket podman-restart podman-auto-update.timer) ;;
            openssh-server) units=(ssh.service ssh.socket) ;;
            esac
            as_root systemctl disable --quiet "${units[@]}" </dev/null || true
        fi
    done
}

remove_our_policy() {
    [ -z "$our_policy" ] || as_root rm -f "$our_policy"
    our_policy=
}

# What running Tare needs. The engine's package only when there is no engine of another origin.
run_needs() {
    say curl=curl ca-certificates=/etc/ssl/certs/ca-certificates.crt
    docker_answers 2>/dev/null || say docker.io=dockerd
    # Where the kernel has it, no engine starts a container without its tool, which Debian's package only recommends.
    [ "$(cat /sys/module/apparmor/parameters/enabled 2>/dev/null)" != Y ] || say apparmor=apparmor_parser
    # Engines bring one; not every one under this name.
    command -v crun >/dev/null || say runc=runc
    say mmdebstrap=mmdebstrap qemu-system-x86=qemu-system-x86_64 iproute2=ip iptables=iptables e2fsprogs=mkfs.ext4
    say kmod=modprobe xz-utils=xz zstd=zstd
}

# What building it needs, beside Rust.
build_needs() { say gcc=gcc libc6-dev=/usr/include/stdio.h; }

# What its tests need on top.
test_needs() {
    say git=git redis-server=redis-server redis-tools=redis-cli cpio=cpio nginx=nginx crun=crun nftables=nft
    say postgresql=/usr/lib/postgresql mariadb-server=mariadbd qemu-utils=qemu-img
    # Runtimes and networks beside Docker's and QEMU's own: Podman by root and by a user, LXC, systemd-nspawn, passt.
    say podman=podman netavark=/usr/lib/podman/netavark aardvark-dns=/usr/lib/podman/aardvark-dns uidmap=newuidmap
    say slirp4netns=slirp4netns lxc=lxc-start systemd-container=systemd-nspawn passt=passt
    # Machines of a lab are reached over ssh.
    say openssh-server=sshd openssh-client=ssh
    # A browser for what 'tare serve' shows. Ubuntu has it as a snap only.
    grep -qx 'ID=ubuntu' /etc/os-release || say chromium-driver=chromedriver
    # The program of the workload auction, and what its own tests run with.
    local java=/usr/share/java
    say default-jdk-headless=javac junit4=$java/junit4.jar libtomcat10-embed-java=$java/tomcat10-embed-core.jar
    say libtomcat10-java=$java/tomcat10-annotations-api.jar libhikaricp-java=$java/HikariCP.jar
    say libpostgresql-jdbc-java=$java/postgresql.jar librabbitmq-client-java=$java/amqp-client.jar
    say libcurator-recipes-java=$java/curator-recipes.jar libjackson2-databind-java=$java/jackson-databind.jar
    say libslf4j-java=$java/slf4j-simple.jar
}

# install_rust [COMPONENT...]: a cargo that is new enough, with these components, first on PATH.
install_rust() {
    PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    export PATH
    if ! rust_is_new_enough; then
        if command -v rustup >/dev/null; then
            say "installing with rustup: Rust $rust_wanted (at least $rust_needed is needed)"
            rustup -q toolchain install "$rust_wanted" --profile minimal || die "rustup could not install Rust"
            export RUSTUP_TOOLCHAIN=$rust_wanted
        else
            local origin=https://static.rust-lang.org/rustup/dist/$(uname -m)-unknown-linux-gnu/rustup-init
            say "installing Rust $rust_wanted with rustup ($origin) into ${CARGO_HOME:-$HOME/.cargo}"
            curl --proto '=https' --tlsv1.2 -fsS --retry 3 "$origin" -o "$log_dir/rustup-init" ||
                die "$origin cannot be had" "install Rust $rust_needed or newer by hand"
            chmod 755 "$log_dir/rustup-init"
            "$log_dir/rustup-init" -q -y --profile minimal --default-toolchain "$rust_wanted" --no-modify-path \
                </dev/null >"$log_dir/rustup.log" 2>&1 || {
                tail -n 20 "$log_dir/rustup.log" >&2
                die "rustup could not install Rust" "install Rust $rust_needed or newer by hand"
            }
        fi
        hash -r
        rust_is_new_enough || die "cargo is still older than $rust_needed: $(cargo --version 2>&1)"
    fi
    local component missing=()
    for component in "$@"; do
        cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 || missing+=("$component")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v rustup >/dev/null || die "missing parts of Rust: ${missing[*]}" "install them the way Rust was installed"
    say "installing with rustup: ${missing[*]}"
    rustup -q component add "${missing[@]}" || die "rustup could not install: ${missing[*]}"
}

# install_deny: cargo-deny, which checks what others wrote. It runs for a second or two, so it is built as fast as can be.
# Whether a gate does without it, the gate says.
install_deny() {
    ! cargo deny --version >/dev/null 2>&1 || return 0
    say "installing with cargo: cargo-deny $deny_wanted"
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_PROFILE_RELEASE_DEBUG=0 cargo install --quiet --locked cargo-deny --version "$deny_wanted" \
        </dev/null >"$log_dir/deny.log" 2>&1 || tail -n 5 "$log_dir/deny.log" >&2
}

rust_is_new_enough() {
    local version
    version=$(cargo --version 2>/dev/null | cut -d' ' -f2) || return 1
    [ -n "$version" ] && [ "$(printf '%s\n%s\n' "$rust_needed" "$version" | sort -V | head -n 1)" = "$rust_needed" ]
}

host_triple() { rustc -vV | sed -n 's/^host: //p'; }

# find_target_dir: where cargo puts what it builds, by the caller's variable or by a configuration. As a whole path, for
# what is run in another folder takes the variable from there.
find_target_dir() {
    CARGO_TARGET_DIR=$(cargo metadata --no-deps --format-version 1 </dev/null |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
    [ -n "$CARGO_TARGET_DIR" ] || die "cargo metadata names no folder for builds"
    export CARGO_TARGET_DIR
}

# target_in_config FILE: the build.target-dir of a configuration of cargo's, as it stands there; nothing if it has none.
target_in_config() {
    awk -v single="'" '
        function told(text, mark) {
            sub(/^[ \t]+/, "", text)
            mark = substr(text, 1, 1)
            if (mark != "\"" && mark != single) return
            text = substr(text, 2)
            print substr(text, 1, index(text, mark) - 1)
            exit
        }
        /^[ \t]*\[/ { below = 1; build = ($0 ~ /^[ \t]*\[[ \t]*"?build"?[ \t]*\]/); next }
        build && match($0, /^[ \t]*"?target-dir"?[ \t]*=/) { told(substr($0, RLENGTH + 1)) }
        below { next }
        match($0, /^[ \t]*"?build"?[ \t]*[.][ \t]*"?target-dir"?[ \t]*=/) { told(substr($0, RLENGTH + 1)) }
        match($0, /^[ \t]*"?build"?[ \t]*=[ \t]*[{].*target-dir"?[ \t]*=/) { told(substr($0, RLENGTH + 1)) }
    ' "$1"
}

# configured_target: what find_target_dir finds, where there is no cargo to ask yet: by the environment, else by the
# nearest configuration that cargo would read. What it names is beside the folder that the configuration is in.
configured_target() {
    local target=${CARGO_TARGET_DIR:-${CARGO_BUILD_TARGET_DIR:-}} here folder beside config configs=()
    here=$(pwd -P) # as cargo sees it
    folder=$here beside=$here
    until [ "$folder" = / ]; do
        configs+=("$folder/.cargo/config")
        folder=$(dirname "$folder")
    done
    for config in "${configs[@]}" /.cargo/config "${CARGO_HOME:-$HOME/.cargo}/config"; do
        [ -z "$target" ] || break
        # Of two, cargo reads the one without an ending.
        [ -e "$config" ] || config=$config.toml
        if [ -r "$config" ]; then
            target=$(target_in_config "$config")
            beside=$(dirname "$(dirname "$config")")
        fi
    done
    case $target in
    '') target=$here/target ;;
    /*) ;;
    *) target=${beside%/}/$target ;;
    esac
    printf '%s\n' "$target"
}

# nearest_folder PATH: the folder itself, or the one that is there and in which it would be made.
nearest_folder() {
    local folder=$1
    until [ -d "$folder" ]; do folder=$(dirname "$folder"); done
    printf '%s\n' "$folder"
}

# refuse_others_checkout: what is built is linked into the checkout, whoever's that is.
refuse_others_checkout() {
    [ -w . ] || die "this user may not write to $PWD, where ./tare is to be linked" "make a checkout of your own, and run this there"
}

# refuse_others_target: what root has built, as ./test does, nobody else can build anew, nor make a folder for it where
# somebody else has a checkout. Before there is a cargo to ask, too.
refuse_others_target() {
    local target closed
    target=$(configured_target)
    if [ -d "$target" ]; then
        closed=$(find -H "$target" -maxdepth 3 -type d ! -writable -print -quit 2>/dev/null) || true
        [ -z "$closed" ] ||
            die "Tare is built in $closed, and this user may not write there" "sudo chown -R $(id -u) '$target'"
        return 0
    fi
    closed=$(nearest_folder "$target")
    [ -w "$closed" ] ||
        die "Tare is built in $target, which is not there, and this user may not write to $closed" \
            "set CARGO_TARGET_DIR to a folder of your own, or make a checkout of your own"
}

# refuse_full_disk GB PROFILE: so much is written into the folder for builds, unless that profile was built there before.
refuse_full_disk() {
    local free
    [ -z "$(find -H "$CARGO_TARGET_DIR" -maxdepth 3 -type d -path "*/$2/deps" -print -quit 2>/dev/null)" ] || return 0
    free=$(df -Pk "$(nearest_folder "$CARGO_TARGET_DIR")" | awk 'NR == 2 { print int($4 * 1.024 / 1000000) }') || return 0
    [ "${free:-$1}" -ge "$1" ] ||
        die "$CARGO_TARGET_DIR is on a disk with $free GB free, and this writes some $1 GB there" \
            "make room, or set CARGO_TARGET_DIR to a folder on a larger disk"
}

has_systemd() { [ -d /run/systemd/system ]; }

# Whether an engine answers. Asked of the socket: a `docker` on PATH says nothing about an engine.
docker_answers() {
    as_root curl -fs --max-time 10 --unix-socket $docker_socket http://localhost/_ping >/dev/null 2>&1
}

# remove_stale_pid_file FILE NAME: an engine that was killed leaves its number behind, and the next one does not start when
# that number belongs to another process by then.
remove_stale_pid_file() {
    [ -f "$1" ] || return 0
    [ "$(cat "/proc/$(cat "$1")/comm" 2>/dev/null)" = "$2" ] || as_root rm -f "$1"
}

# Starts the Docker Engine unless one answers. $1: where its output goes when there is no systemd.
start_docker() {
    docker_answers && return
    if has_systemd; then
        say "starting the Docker Engine: systemctl start docker"
        as_root systemctl start docker </dev/null || die "systemd could not start the Docker Engine" "journalctl -u docker"
        docker_started_by=systemd
    else
        say "starting the Docker Engine: dockerd (its output: $1)"
        # A minimal init may leave the control groups unmounted; no engine starts without them.
        grep -q ' /sys/fs/cgroup' /proc/self/mounts || as_root mount -t cgroup2 none /sys/fs/cgroup
        remove_stale_pid_file /var/run/docker.pid dockerd
        remove_stale_pid_file /var/run/docker/containerd/containerd.pid containerd
        # Without what a caller holds locked.
        as_root sh -c 'setsid dockerd </dev/null >"$1" 2>&1 9>&- & echo $!' sh "$1" >"$log_dir/dockerd.pid"
        docker_started_by=$(cat "$log_dir/dockerd.pid")
    fi
    local waited=0
    until docker_answers; do
        waited=$((waited + 1))
        if [ $waited -gt 60 ] || { ! has_systemd && ! as_root kill -0 "$docker_started_by" 2>/dev/null; }; then
            has_systemd || tail -n 15 "$1" >&2
            docker_started_by=
            die "the Docker Engine does not answer at $docker_socket" "see the lines above; start it by hand, then run this again"
        fi
        sleep 1
    done
}

# Stops the Docker Engine if start_docker started it, and waits for it.
stop_our_docker() {
    case $docker_started_by in
    "") return ;;
    systemd) as_root systemctl stop docker.service docker.socket </dev/null >/dev/null 2>&1 || true ;;
    *)
        as_root kill "$docker_started_by" 2>/dev/null || true
        local waited=0
        while as_root kill -0 "$docker_started_by" 2>/dev/null && [ $waited -lt 30 ]; do
            sleep 1
            waited=$((waited + 1))
        done
        ;;
    esac
    docker_started_by=
}
