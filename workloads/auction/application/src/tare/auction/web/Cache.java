package tare.auction.web;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Keeps as many values as were stated; the one that was not asked for the longest makes room.
 *
 * @param <K> what is asked for
 * @param <V> what was found
 */
final class Cache<K, V> {
    private final Map<K, V> values;

    Cache(int most) {
        values = new LinkedHashMap<>(16, 0.75f, true) {
            private static final long serialVersionUID = 1;

            @Override
            protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
                return size() > most;
            }
        };
    }

    /** How a value that is not kept is found. */
    interface Source<V> {
        Optional<V> find() throws Exception;
    }

    /** The value of {@code key}, kept or found; that there is none is not kept. */
    Optional<V> get(K key, Source<V> source) throws Exception {
        V kept;
        synchronized (this) {
            kept = values.get(key);
        }
        if (kept != null) {
            return Optional.of(kept);
        }
        Optional<V> found = source.find();
        found.ifPresent(value -> put(key, value));
        return found;
    }

    synchronized void put(K key, V value) {
        values.put(key, value);
    }

    synchronized void remove(K key) {
        values.remove(key);
    }
}
