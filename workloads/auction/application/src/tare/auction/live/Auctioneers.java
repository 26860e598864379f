package tare.auction.live;

import java.io.IOException;
import java.time.Duration;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import tare.auction.Settings;
import tare.auction.messages.Broker;
import tare.auction.sql.Clock;
import tare.auction.sql.HighBids;
import tare.auction.store.EventStore;

/** The auctions that this server runs. Which these are, the cluster decides. */
public final class Auctioneers implements AutoCloseable {
    private final Map<Long, Auctioneer> own = new ConcurrentHashMap<>();
    private final ExecutorService threads;
    private final Set<CompletableFuture<Void>> leaving = ConcurrentHashMap.newKeySet();
    private final House house;

    /** Runs auctions on as many threads as were stated. */
    public Auctioneers(Settings settings, HighBids biddings, EventStore events, Broker broker, Clock clock,
            ScheduledExecutorService timer) throws IOException {
        threads = Executors.newFixedThreadPool(settings.number("auctioneer.threads"));
        house = new House(biddings, events, broker::subscribe, clock::nowMicros, threads, timer, broker.prices(),
                settings.millis("auctioneer.idle").toNanos(), settings.longNumber("auctioneer.look"),
                settings.longNumber("auctioneer.retry"));
        broker.whenBack(() -> own.values().forEach(Auctioneer::tellAgain));
    }

    /** Takes over what is new in {@code auctions}, and lets go of what is not there any more. */
    public synchronized void own(Set<Long> auctions) {
        for (Long gone : new HashSet<>(own.keySet())) {
            if (!auctions.contains(gone)) {
                CompletableFuture<Void> end = own.remove(gone).close();
                leaving.add(end);
                end.whenComplete((done, failure) -> leaving.remove(end));
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

    /**
     * Lets go of all auctions, and waits until others can take them over: what is being decided is decided before. Fails
     * when that takes longer than {@code within}, because what it needs does not answer.
     */
    public void letGo(Duration within) throws IOException, InterruptedException {
        own(Set.of());
        try {
            CompletableFuture.allOf(leaving.toArray(CompletableFuture[]::new))
                    .get(within.toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException | TimeoutException late) {
            throw new IOException(leaving.size() + " auctions are still being decided here", late);
        }
    }

    @Override
    public void close() {
        threads.shutdownNow();
    }
}
