//! What is known of widely used images, schemes and ports.

/// What a load speaks to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Redis,
    Http,
    Postgres,
    MySql,
    Memcached,
}

/// A widely used image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// The last part of its name.
    name: &'static str,
    /// Where it listens by default.
    pub(crate) port: u16,
    /// The memory that it should have at least, in MiB.
    pub(crate) memory_mib: u64,
    /// How long it may take to become ready, in seconds.
    pub(crate) within_s: u64,
}

const fn small(name: &'static str, port: u16) -> Known {
    Known { name, port, memory_mib: 512, within_s: 60 }
}

const fn large(name: &'static str, port: u16) -> Known {
    Known { name, port, memory_mib: 1024, within_s: 120 }
}

const IMAGES: &[Known] = &[
    small("adminer", 8080),
    small("caddy", 80),
    large("cassandra", 9042),
    large("elasticsearch", 9200),
    small("grafana", 3000),
    small("haproxy", 80),
    small("httpd", 80),
    large("kafka", 9092),
    large("mariadb", 3306),
    small("memcached", 11211),
    large("mongo", 27017),
    large("mysql", 3306),
    small("nats", 4222),
    small("nginx", 80),
    small("phpmyadmin", 80),
    large("postgis", 5432),
    large("postgres", 5432),
    large("postgresql", 5432),
    small("prometheus", 9090),
    large("rabbitmq", 5672),
    small("redis", 6379),
    large("timescaledb", 5432),
    small("traefik", 80),
    small("valkey", 6379),
    small("wordpress", 80),
    large("zookeeper", 2181),
];

/// The ports of schemes that URLs need not name.
const SCHEMES: &[(&str, u16)] = &[
    ("amqp", 5672),
    ("http", 80),
    ("https", 443),
    ("mariadb", 3306),
    ("mongodb", 27017),
    ("mysql", 3306),
    ("mysql2", 3306),
    ("nats", 4222),
    ("postgres", 5432),
    ("postgresql", 5432),
    ("redis", 6379),
    ("ws", 80),
    ("wss", 443),
];

/// Variables whose readers take `address:port` where only a name stands, each with the port that the name alone means.
const ADDRESSES: &[(&str, u16)] = &[("WORDPRESS_DB_HOST", 3306)];

/// What is known of an image by its name.
pub(crate) fn image(image: &str) -> Option<Known> {
    let name = image.split('@').next()?.rsplit('/').next()?;
    let name = name.strip_prefix(tare_core::bundle::ENGINE_IMAGE).unwrap_or(name);
    let name = name.split(':').next()?;
    IMAGES.iter().find(|known| known.name == name).copied()
}

/// Whether a program is the server that listens at this port of a widely used image: `redis-server`, `mysqld`.
pub(crate) fn is_server(program: &str, port: u16) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    let names = ["", "d", "-server", "-foreground"].iter().filter_map(|suffix| name.strip_suffix(suffix));
    names.filter_map(|name| IMAGES.iter().find(|known| known.name == name)).any(|known| known.port == port)
}

/// The port that a scheme means. Of `postgresql+psycopg` the part in front counts.
pub(crate) fn port_of_scheme(scheme: &str) -> Option<u16> {
    let scheme = scheme.split('+').next()?.to_ascii_lowercase();
    SCHEMES.iter().find(|(name, _)| *name == scheme).map(|(_, port)| *port)
}

/// The port that a name alone means as the value of this variable, if an address with a port may stand in its place.
pub(crate) fn port_of_variable(variable: &str) -> Option<u16> {
    ADDRESSES.iter().find(|(name, _)| *name == variable).map(|(_, port)| *port)
}

/// The protocol at a port of an image, if the one or the other tells.
pub(crate) fn speaks(port: u16, image_name: &str) -> Option<Speaks> {
    let by_port = |port| match port {
        6379 => Some(Speaks::Redis),
        5432 => Some(Speaks::Postgres),
        3306 => Some(Speaks::MySql),
        11211 => Some(Speaks::Memcached),
        80 | 3000 | 5000 | 8000 | 8080 | 8081 | 8888 | 9090 | 9200 => Some(Speaks::Http),
        _ => None,
    };
    by_port(port).or_else(|| image(image_name).and_then(|known| by_port(known.port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_the_last_part_of_its_name() {
        let names = ["redis", "redis:7-alpine", "docker.io/library/redis:7", "redis@sha256:0", "docker-daemon:redis:7"];
        for name in names {
            assert_eq!(image(name).map(|known| known.port), Some(6379), "{name}");
        }
        assert_eq!(image("shop/web:1").map(|known| known.port), None);
        assert_eq!(speaks(7000, "valkey"), Some(Speaks::Redis));
        assert_eq!(speaks(7000, "shop"), None);
        for (program, port) in [("redis-server", 6379), ("/usr/sbin/mysqld", 3306), ("postgres", 5432)] {
            assert!(is_server(program, port), "{program}");
        }
        assert!(!is_server("redis-cli", 6379) && !is_server("sleep", 80) && !is_server("nginx", 6379));
        assert_eq!(port_of_scheme("postgresql+psycopg"), Some(5432));
    }
}
