package tare.auction.live;

import java.io.IOException;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import tare.auction.Settings;
import tare.auction.messages.Broker;
import tare.auction.sql.Clock;
import tare.auction.sql.HighBids;
import tare.auction.store.EventStore;

/** The auctions that this server runs. Which these are, the cluster decides. */
public final class Auctioneers implements AutoCloseable {
    private final Map<Long, Auctioneer> own = new ConcurrentHashMap<>();
    private final ExecutorService threads;
    private final House house;

    /** Runs auctions on as many threads as were stated. */
    public Auctioneers(Settings settings, HighBids biddings, EventStore events, Broker broker, Clock clock,
            ScheduledExecutorService timer) throws IOException {
        threads = Executors.newFixedThreadPool(settings.number("auctioneer.threads"));
        house = new House(biddings, events, broker, clock, threads, timer, broker.prices(),
                settings.millis("auctioneer.idle").toNanos(), settings.longNumber("auctioneer.look"),
                settings.longNumber("auctioneer.retry"));
    }

    /** Takes over what is new in {@code auctions}, and lets go of what is not there any more. */
    public synchronized void own(Set<Long> auctions) {
        for (Long gone : new HashSet<>(own.keySet())) {
            if (!auctions.contains(gone)) {
                own.remove(gone).close();
            }
        }
        for (Long auction : auctions) {
            own.computeIfAbsent(auction, id -> {
                Auctioneer auctioneer = new Auctioneer(id, house);
                auctioneer.open();
                return auctioneer;
            });
        }
    }

    /** The auctions that are run here. */
    public Set<Long> owned() {
        return new HashSet<>(own.keySet());
    }

    @Override
    public void close() {
        own(Set.of());
        threads.shutdown();
        try {
            // What was accepted is decided before the connections go.
            if (!threads.awaitTermination(5, TimeUnit.SECONDS)) {
                threads.shutdownNow();
            }
        } catch (InterruptedException interrupted) {
            threads.shutdownNow();
            Thread.currentThread().interrupt();
        }
    }
}
