#!/bin/sh
# Runs fio between two looks at what the kernel counts for this shell and what it has waited for. The first fio only
# brings its own files into memory, so that reading them counts for nothing.
counted() {
    while read -r line; do
        echo "$line"
    done < /proc/self/io
}
/usr/bin/fio --version
counted
/usr/bin/fio --output-format=json+ "$@"
ended=$?
counted
exit $ended
