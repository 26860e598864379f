#!/bin/bash
set -eo pipefail
if [ "$(id -u)" = 0 ]; then
    mkdir -p /run/mysqld
    chown -R mysql:mysql /var/lib/mysql /run/mysqld
    exec gosu mysql "$BASH_SOURCE" "$@"
fi
if [ ! -d /var/lib/mysql/mysql ]; then
    mariadb-install-db --datadir=/var/lib/mysql --skip-test-db > /dev/null
    mariadbd --bootstrap --datadir=/var/lib/mysql <<END
FLUSH PRIVILEGES;
CREATE DATABASE $MARIADB_DATABASE;
CREATE USER '$MARIADB_USER'@'%' IDENTIFIED BY '$MARIADB_PASSWORD';
GRANT ALL ON $MARIADB_DATABASE.* TO '$MARIADB_USER'@'%';
CREATE TABLE $MARIADB_DATABASE.words AS SELECT 'hello' AS word;
END
fi
exec "$@" --bind-address=0.0.0.0 --innodb-buffer-pool-size=32M
