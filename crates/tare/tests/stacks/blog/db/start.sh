#!/bin/sh
# Makes the database that the variables name at the first start, as the images of databases do.
set -e
data=/srv/mysql
if [ ! -d "$data/mysql" ]; then
  mariadb-install-db --no-defaults --user=mysql --datadir="$data" --skip-test-db > /dev/null
fi
cat > /tmp/init.sql <<END
CREATE DATABASE IF NOT EXISTS $MYSQL_DATABASE;
CREATE USER IF NOT EXISTS '$MYSQL_USER'@'%' IDENTIFIED BY '$MYSQL_PASSWORD';
GRANT ALL ON $MYSQL_DATABASE.* TO '$MYSQL_USER'@'%';
CREATE TABLE IF NOT EXISTS $MYSQL_DATABASE.visits (id int PRIMARY KEY, count bigint NOT NULL);
INSERT IGNORE INTO $MYSQL_DATABASE.visits VALUES (1, 0);
END
chmod 644 /tmp/init.sql
exec mariadbd --no-defaults --user=mysql --datadir="$data" --socket=/tmp/mysql.sock --pid-file=/tmp/mysql.pid \
  --bind-address=0.0.0.0 --init-file=/tmp/init.sql --skip-name-resolve --innodb-buffer-pool-size=64M
