#!/bin/bash
set -Eeuo pipefail
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA" /var/run/postgresql
    chmod 700 "$PGDATA"
    chown -R postgres "$PGDATA" /var/run/postgresql
    exec gosu postgres "$BASH_SOURCE" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username="$POSTGRES_USER" --pwfile=<(echo "$POSTGRES_PASSWORD") --auth=scram-sha-256 > /dev/null
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    export PGPASSWORD=$POSTGRES_PASSWORD
    pg_ctl --wait --options="-c listen_addresses=''" start > /dev/null
    psql --username="$POSTGRES_USER" --dbname=postgres --quiet --command="CREATE DATABASE \"$POSTGRES_DB\"" || true
    psql --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" --quiet --command="CREATE TABLE words AS SELECT 'hello' AS word"
    pg_ctl --wait --mode=fast stop > /dev/null
fi
exec "$@" -c listen_addresses='*'
