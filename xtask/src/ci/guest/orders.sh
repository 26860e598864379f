#!/bin/sh
# Runs in the guest as a service: does the orders that come through a port of the machine's, one line each, and answers
# with what they said and a line that tells the order's number and how it ended. The first is what the guest is.
exec 3<>/dev/virtio-ports/orders
answer() { # NUMBER COMMAND...
    number=$1
    shift
    "$@" </dev/null >&3 2>&1
    printf '\n== %s ended %s\n' "$number" $? >&3
}
stand() {
    { mount LABEL=programs /tare && . /tare/stand; } || return
    kind=$(stat -f -c %T /sys/fs/cgroup)
    [ "$kind" = cgroup2fs ] || { echo "its control groups are $kind, and not of version 2 alone" && return 1; }
    [ "$(docker info -f '{{.CgroupVersion}}')" = 2 ] || { docker info; echo "its engine does not say version 2" && return 1; }
    echo "Linux $(uname -r), systemd $(systemctl --version | sed -n '1s/^systemd \([^ ]*\).*/\1/p'), $(docker info -f \
        'engine {{.ServerVersion}} with the {{.CgroupDriver}} driver'), $(crun --version | sed -n 1p)"
}
answer 0 stand
number=0
while read -r order <&3; do
    number=$((number + 1))
    answer $number sh -c "$order"
done
