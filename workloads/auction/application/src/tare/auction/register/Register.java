package tare.auction.register;

import java.time.Duration;
import java.time.Instant;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Which servers there are. Who has not been heard of for the time of a lease is none of them any more. */
final class Register {
    private static final Logger LOG = LoggerFactory.getLogger(Register.class);

    private final Map<String, Entry> entries = new LinkedHashMap<>();
    private final long leaseNanos;
    private final LongSupplier nanos;

    private static final class Entry {
        private final String host;
        private Word word;
        private State state;
        private Warmth warmth;
        private long heard;

        private Entry(String host, Word word, State state, Warmth warmth) {
            this.host = host;
            this.word = word;
            this.state = state;
            this.warmth = warmth;
        }

        private String address() {
            return at(host, word.port());
        }

        @Override
        public String toString() {
            return word.role() + " " + address();
        }
    }

    /** A server, as it is shown. */
    record Shown(String id, String role, String address, String since, State state, Warmth warmth) {}

    /** {@code nanos} is the clock of leases. */
    Register(Duration lease, LongSupplier nanos) {
        this.leaseNanos = lease.toNanos();
        this.nanos = nanos;
    }

    /** {@code host:port}, as a URL has it. */
    static String at(String host, int port) {
        return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
    }

    /** Notes what a server says, and from which host. Whether it is a new one, which is to be warmed. */
    synchronized boolean hear(String host, Word word) {
        dropSilent();
        Entry entry = entries.get(word.id());
        boolean unknown = entry == null;
        if (unknown) {
            // Whoever is at that address now, nobody else is there any more.
            String address = at(host, word.port());
            entries.values().removeIf(other -> other.address().equals(address));
            entry = new Entry(host, word, State.REGISTERED, word.warmth());
            entries.put(word.id(), entry);
            LOG.info("{} is registered{}", entry, word.listening() ? ", and lets users in already" : "");
        }
        entry.word = word;
        entry.heard = nanos.getAsLong();
        if (word.listening() && entry.state != State.ACTIVE) {
            entry.state = State.ACTIVE;
            // It went on without being told; how far it got, it knows itself.
            entry.warmth = word.warmth() == null ? entry.warmth : word.warmth();
        }
        return unknown && !word.listening();
    }

    /** What a server is told; empty if it is not known. */
    synchronized Optional<Word.Answer> answer(String id) {
        return Optional.ofNullable(entries.get(id)).map(entry -> new Word.Answer(entry.state, entry.warmth));
    }

    /** Notes that a server is being warmed now; false if it needs it no more. */
    synchronized boolean beginWarming(String id) {
        if (!waits(id)) {
            return false;
        }
        entries.get(id).state = State.WARMING;
        return true;
    }

    /** Whether a server is there and has not yet let users in. */
    synchronized boolean waits(String id) {
        dropSilent();
        Entry entry = entries.get(id);
        return entry != null && entry.state != State.ACTIVE;
    }

    /** Notes that a server is warm. Who lets users in already does not need to be told. */
    synchronized void endWarming(String id, Warmth warmth) {
        if (waits(id)) {
            Entry entry = entries.get(id);
            entry.state = State.WARM;
            entry.warmth = warmth;
            LOG.info("{} was warmed {} times in {} ms, {} of them in vain", entry, warmth.rounds(), warmth.millis(),
                    warmth.failed());
        }
    }

    /** Notes that a server goes; whether it was known. */
    synchronized boolean leave(String id) {
        Entry entry = entries.remove(id);
        if (entry != null) {
            LOG.info("{} has left", entry);
        }
        return entry != null;
    }

    /** All servers, by role and address. */
    synchronized List<Shown> all() {
        dropSilent();
        return entries.values().stream()
                .sorted(Comparator.comparing((Entry entry) -> entry.word.role()).thenComparing(Entry::address))
                .map(entry -> new Shown(entry.word.id(), entry.word.role(), entry.address(),
                        Instant.ofEpochMilli(entry.word.since()).toString(), entry.state, entry.warmth))
                .toList();
    }

    private void dropSilent() {
        long now = nanos.getAsLong();
        entries.values().removeIf(entry -> {
            boolean silent = now - entry.heard > leaseNanos;
            if (silent) {
                LOG.warn("{} was not heard of for {} ms and is dropped", entry, (now - entry.heard) / 1_000_000);
            }
            return silent;
        });
    }
}
