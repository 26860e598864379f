package tare.auction.store;

import tare.auction.Settings;

/** Which store is behind each of the two interfaces: a setting decides, and nothing else of the program knows. */
public final class Stores {
    private Stores() {}

    /** The event store of the setting {@code events.store}. */
    public static EventStore events(Settings settings) {
        return switch (settings.text("events.store")) {
            case "tarantool" -> new TarantoolEvents(settings);
            case "memory" -> new MemoryStore();
            default -> throw unknown(settings, "events.store");
        };
    }

    /** The image store of the setting {@code images.store}. */
    public static ImageStore images(Settings settings) {
        return switch (settings.text("images.store")) {
            case "tarantool" -> new TarantoolImages(settings);
            case "memory" -> new MemoryStore();
            default -> throw unknown(settings, "images.store");
        };
    }

    private static IllegalArgumentException unknown(Settings settings, String name) {
        return new IllegalArgumentException(
                "the setting '" + name + "' is '" + settings.text(name) + "'; known are tarantool and memory");
    }
}
