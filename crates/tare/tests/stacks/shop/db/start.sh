#!/bin/sh
# Makes a database at the first start, as the images of databases do.
set -e
bin=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/data
if [ ! -s "$data/PG_VERSION" ]; then
  "$bin/initdb" -D "$data" -U postgres --auth=trust --no-sync > /dev/null
  echo "host all all all trust" >> "$data/pg_hba.conf"
fi
exec "$bin/postgres" -D "$data" -c listen_addresses='*' -c unix_socket_directories="$SOCKETS" \
  -c dynamic_shared_memory_type=mmap
