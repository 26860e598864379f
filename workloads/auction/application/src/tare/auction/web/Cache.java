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
    private long removals;

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
        Optional<V> kept = kept(key);
        if (kept.isPresent()) {
            return kept;
        }
        long since = removals();
        Optional<V> found = source.find();
        found.ifPresent(value -> put(key, value, since));
        return found;
    }

    /** The value of {@code key}, if it is kept. */
    synchronized Optional<V> kept(K key) {
        return Optional.ofNullable(values.get(key));
    }

    /** How often something was removed: to be asked before a value is looked for, and given to {@link #put}. */
    synchronized long removals() {
        return removals;
    }

    /**
     * Keeps a value that was found, unless anything was removed since {@code removals}: it may have been read just before
     * what the removal was for.
     */
    synchronized void put(K key, V value, long since) {
        if (since == removals) {
            values.put(key, value);
        }
    }

    synchronized void remove(K key) {
        removals++;
        values.remove(key);
    }

    synchronized void clear() {
        removals++;
        values.clear();
    }
}
