package tare.auction.live;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.After;
import org.junit.Test;
import tare.auction.model.Bid;
import tare.auction.model.HighBid;
import tare.auction.model.States.BidState;
import tare.auction.model.States.BiddingState;
import tare.auction.store.EventStore;
import tare.auction.store.MemoryStore;

public class AuctioneerTest {
    private static final int BIDDINGS = 3;

    private final ScheduledExecutorService timer = Executors.newScheduledThreadPool(1);
    private final ExecutorService threads = Executors.newFixedThreadPool(2);
    private final MemoryStore kept = new MemoryStore();
    /** Every other line that is written is lost, with an error. */
    private final AtomicInteger puts = new AtomicInteger();
    private final EventStore events = (EventStore) Proxy.newProxyInstance(EventStore.class.getClassLoader(),
            new Class<?>[] {EventStore.class}, (proxy, method, arguments) -> {
                if (method.getName().equals("putBid") && puts.incrementAndGet() % 2 == 1) {
                    throw new IOException("the event store is away");
                }
                return method.invoke(kept, arguments);
            });
    private final Rows rows = new Rows();

    /** The database: it does whatever it is told, so that what is told twice shows. */
    private static final class Rows implements Biddings {
        private HighBid row;
        private final List<Long> ended = new ArrayList<>();
        private final CountDownLatch enough = new CountDownLatch(BIDDINGS);

        private synchronized Optional<HighBid> step(BiddingState state, UUID event) {
            row = new HighBid(row.id(), 1, 7, 100, row.bidCount() + 1, state, HighBid.NOBODY, event, row.bidCount() + 1, 0);
            return Optional.of(row);
        }

        @Override
        public synchronized Optional<HighBid> open(long auction) {
            return Optional.ofNullable(row).filter(bidding -> bidding.state() != BiddingState.SOLD);
        }

        @Override
        public synchronized Optional<HighBid> last(long auction) {
            return Optional.ofNullable(row);
        }

        @Override
        public synchronized Optional<HighBid> next(long auction, UUID opening, long nowMicros) {
            row = new HighBid(row == null ? 1 : row.id() + 1, 1, 7, 100, 1, BiddingState.OPEN, HighBid.NOBODY, opening, 1, 0);
            return Optional.of(row);
        }

        @Override
        public Decision decide(Bid bid, HighBid known) {
            return new Decision(BidState.LOW, known);
        }

        @Override
        public Optional<HighBid> lastCall(HighBid known, UUID event, long nowMicros) {
            return step(BiddingState.LASTCALL, event);
        }

        @Override
        public Optional<HighBid> end(HighBid known, UUID event, long nowMicros) {
            ended.add(known.id());
            enough.countDown();
            return step(BiddingState.SOLD, event);
        }
    }

    @After
    public void stop() {
        timer.shutdownNow();
        threads.shutdownNow();
    }

    @Test
    public void aStepThatCouldNotBeNotedIsNotedBeforeTheNextAndNotDoneAgain() throws Exception {
        List<String> told = new ArrayList<>();
        House house = new House(rows, events, (auction, handler) -> null, () -> 0, threads, timer,
                price -> told.add(price.id() + "/" + price.bidCount()), 1, 2, 2);
        Auctioneer auctioneer = new Auctioneer(1, house);
        auctioneer.open();
        assertTrue(rows.enough.await(30, TimeUnit.SECONDS));
        auctioneer.close().get(30, TimeUnit.SECONDS);
        assertEquals("each is ended once", List.of(1L, 2L, 3L), rows.ended.subList(0, BIDDINGS));
        TreeMap<String, BidState> lines = new TreeMap<>();
        kept.bidsAfter(null, 1000).forEach(bid -> lines.put(bid.highBidId() + "/" + bid.sequence(), bid.state()));
        for (int bidding = 1; bidding < BIDDINGS; bidding++) {
            for (int count = 1; count <= 3; count++) {
                String step = bidding + "/" + count;
                assertEquals(step, BidState.HIGH, lines.get(step));
                assertTrue(step, told.contains(step));
            }
        }
    }
}
