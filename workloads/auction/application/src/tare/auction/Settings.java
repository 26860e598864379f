package tare.auction;

import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/**
 * What the process was told. No setting has a default here and none follows from the machine: the same file gives the
 * same threads, pools and caches wherever the process runs, and a setting that nobody stated is a mistake that is
 * told at the start.
 */
public final class Settings {
    private final Properties values = new Properties();

    /** Reads a file of properties; each of {@code overrides} is {@code name=value} and goes over it. */
    public static Settings read(Path file, List<String> overrides) throws IOException {
        Settings settings = new Settings();
        try (Reader reader = Files.newBufferedReader(file, StandardCharsets.UTF_8)) {
            settings.values.load(reader);
        }
        for (String override : overrides) {
            int at = override.indexOf('=');
            if (at < 1) {
                throw new IllegalArgumentException("'" + override + "' is no setting; write name=value");
            }
            settings.values.setProperty(override.substring(0, at), override.substring(at + 1));
        }
        return settings;
    }

    /** Settings out of {@code name=value} alone, as tests want them. */
    public static Settings of(String... pairs) {
        Settings settings = new Settings();
        for (String pair : pairs) {
            int at = pair.indexOf('=');
            settings.values.setProperty(pair.substring(0, at), pair.substring(at + 1));
        }
        return settings;
    }

    /** The value of {@code name}; stated or the start fails. */
    public String text(String name) {
        String value = values.getProperty(name);
        if (value == null) {
            throw new IllegalArgumentException("the setting '" + name + "' is not stated");
        }
        return value.strip();
    }

    /** A whole number. */
    public int number(String name) {
        return Math.toIntExact(longNumber(name));
    }

    /** A whole number that may be large. */
    public long longNumber(String name) {
        try {
            return Long.parseLong(text(name));
        } catch (NumberFormatException mistake) {
            throw new IllegalArgumentException("the setting '" + name + "' is no whole number: " + text(name));
        }
    }

    /** A number that may have a fraction. */
    public double fraction(String name) {
        try {
            return Double.parseDouble(text(name));
        } catch (NumberFormatException mistake) {
            throw new IllegalArgumentException("the setting '" + name + "' is no number: " + text(name));
        }
    }

    /** A time, stated in milliseconds. */
    public Duration millis(String name) {
        return Duration.ofMillis(longNumber(name));
    }

    /** Addresses {@code host:port}, with blanks or commas between them. */
    public List<Address> addresses(String name) {
        List<Address> found = new ArrayList<>();
        for (String part : text(name).split("[ ,]+")) {
            int at = part.lastIndexOf(':');
            if (at < 1) {
                throw new IllegalArgumentException("'" + part + "' of the setting '" + name + "' is no host:port");
            }
            found.add(new Address(part.substring(0, at), Integer.parseInt(part.substring(at + 1))));
        }
        return found;
    }

    /** The first of {@link #addresses}. */
    public Address address(String name) {
        return addresses(name).get(0);
    }

    /** Where a service listens. */
    public record Address(String host, int port) {
        @Override
        public String toString() {
            return host + ":" + port;
        }
    }
}
