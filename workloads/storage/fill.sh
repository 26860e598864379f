#!/bin/sh
# Writes the file that is read and written later, and sees that all of it is there: a hole would be read for nothing.
set -e
/usr/bin/fio --output-format=json /etc/storage/fill.fio
case $SIZE in
*[gG]) wanted=$((${SIZE%?} << 30)) ;;
*[mM]) wanted=$((${SIZE%?} << 20)) ;;
*) wanted=$SIZE ;;
esac
long=$(stat -c %s data)
kept=$(($(stat -c '%b * %B' data)))
if [ "$long" -ne "$wanted" ] || [ "$kept" -lt "$wanted" ]; then
    echo "the file has $long bytes and $kept on the disk, wanted were $wanted" >&2
    exit 1
fi
