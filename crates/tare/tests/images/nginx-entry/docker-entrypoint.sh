#!/bin/sh
set -e
if [ "$1" = nginx ]; then
    mkdir -p /srv/www
    echo hello > /srv/www/index.html
    sed "s/NGINX_PORT/$NGINX_PORT/" /etc/nginx/templates/site.template > /etc/nginx/sites-enabled/default
    ln -sf /dev/stdout /var/log/nginx/access.log
    ln -sf /dev/stderr /var/log/nginx/error.log
fi
exec "$@"
