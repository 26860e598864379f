package tare.auction.live;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.messages.BidSubscription;
import tare.auction.model.Bid;
import tare.auction.model.HighBid;
import tare.auction.model.States.BidState;
import tare.auction.model.States.BiddingState;

/**
 * Runs one auction, on the server that owns it. Everything happens on one serial executor: bids in the order of their
 * queue, last call, the end, the next item. What goes wrong is tried again until it works or the auction is somebody
 * else's: a bid is not let go before it is decided.
 */
final class Auctioneer implements BidSubscription.Handler {
    private static final Logger LOG = LoggerFactory.getLogger(Auctioneer.class);

    private final long auction;
    private final House house;
    private final SerialExecutor turns;
    private final Consumer<HighBid> tell;
    private volatile boolean closed;
    private BidSubscription bids;
    private ScheduledFuture<?> watch;
    private HighBid bidding;
    /** A step that the database has and the event store perhaps not. */
    private HighBid unannounced;
    private long quietSinceNanos;

    Auctioneer(long auction, House house) {
        this.auction = auction;
        this.house = house;
        this.turns = new SerialExecutor(house.threads());
        this.tell = house.tell();
    }

    /** Takes the auction over, as soon as whoever had it lets go. */
    void open() {
        turns.execute(this::tryToOpen);
    }

    private void tryToOpen() {
        if (closed) {
            return;
        }
        try {
            bids = house.queues().subscribe(auction, this);
            LOG.debug("auction {} is run here", auction);
        } catch (IOException held) {
            LOG.debug("auction {} is not free yet: {}", auction, held.toString());
            later(this::tryToOpen);
            return;
        }
        turns.execute(() -> {
            if (closed) {
                return;
            }
            tryToResume();
            watch = house.timer().scheduleWithFixedDelay(() -> turns.execute(this::look), house.lookMillis(),
                    house.lookMillis(), TimeUnit.MILLISECONDS);
        });
    }

    private void tryToResume() {
        try {
            resume();
        } catch (SQLException | IOException failure) {
            LOG.warn("auction {} does not begin: {}", auction, failure.toString());
        }
    }

    /** Reads how the bidding stands, or begins one. */
    private void resume() throws SQLException, IOException {
        Optional<HighBid> last = house.biddings().last(auction);
        if (last.isPresent()) {
            // Whoever did this may have been gone before it was noted and told.
            announce(last.get());
        }
        if (last.isPresent() && last.get().state() != BiddingState.SOLD) {
            bidding = last.get();
            quietSinceNanos = System.nanoTime();
        } else {
            begin();
        }
    }

    private void begin() throws SQLException, IOException {
        UUID event = UUID.randomUUID();
        Optional<HighBid> next = house.biddings().next(auction, event, house.clock().getAsLong());
        if (next.isPresent()) {
            bidding = next.get();
            quietSinceNanos = System.nanoTime();
            announce(bidding);
        }
    }

    @Override
    public void take(Bid bid, boolean again, Runnable decided) {
        turns.execute(() -> decide(bid, again, decided));
    }

    private void decide(Bid bid, boolean again, Runnable decided) {
        while (!closed) {
            try {
                catchUp();
                if (!again || !wasDecided(bid)) {
                    decideOnce(bid);
                }
                decided.run();
                return;
            } catch (SQLException | IOException failure) {
                LOG.warn("the bid {} waits: {}", bid.id(), failure.toString());
                again = true;
                pause();
            }
        }
    }

    private void decideOnce(Bid bid) throws SQLException, IOException {
        if (isBetweenItems()) {
            resume();
        }
        if (bidding == null || bidding.itemId() != bid.itemId()) {
            house.events().putBid(bid.decided(BidState.ALREADYSOLD, 0, 0));
            return;
        }
        // Most bids that lose do so here, without the database.
        if (bidding.bidderId() != HighBid.NOBODY && bid.cents() <= bidding.cents()) {
            house.events().putBid(bid.decided(BidState.LOW, 0, 0));
            return;
        }
        house.events().putBid(bid.decided(BidState.PROVISIONALLYHIGH, bidding.id(), 0));
        settle(bid, house.biddings().decide(bid, bidding));
    }

    private void settle(Bid bid, Biddings.Decision decision) throws IOException {
        bidding = decision.bidding();
        boolean high = decision.state() == BidState.HIGH;
        house.events().putBid(bid.decided(decision.state(), high ? bidding.id() : 0, high ? bidding.bidCount() : 0));
        if (high) {
            quietSinceNanos = System.nanoTime();
            tell.accept(bidding);
        }
    }

    /**
     * Whether a bid that comes a second time was decided the first time. If the database had accepted it and nothing
     * more was written, that is caught up.
     */
    private boolean wasDecided(Bid bid) throws SQLException, IOException {
        Optional<Bid> written = house.events().bid(bid);
        if (written.isPresent() && written.get().state() != BidState.ACCEPTED
                && written.get().state() != BidState.PROVISIONALLYHIGH) {
            return true;
        }
        Optional<HighBid> open = house.biddings().open(auction);
        if (open.isPresent() && bid.id().equals(open.get().bidId())) {
            settle(bid, new Biddings.Decision(BidState.HIGH, open.get()));
            return true;
        }
        if (open.isPresent()) {
            bidding = open.get();
        }
        return false;
    }

    /** Looks whether nobody has bid for so long that it is time for the last call, or for the end. */
    private void look() {
        if (closed) {
            return;
        }
        if (isBetweenItems()) {
            tryToResume();
            return;
        }
        if (System.nanoTime() - quietSinceNanos < house.idleNanos()) {
            return;
        }
        try {
            catchUp();
            UUID event = UUID.randomUUID();
            long now = house.clock().getAsLong();
            Optional<HighBid> changed = bidding.state() == BiddingState.OPEN
                    ? house.biddings().lastCall(bidding, event, now) : house.biddings().end(bidding, event, now);
            if (changed.isEmpty()) {
                tryToResume();
                return;
            }
            bidding = changed.get();
            quietSinceNanos = System.nanoTime();
            announce(bidding);
            if (isBetweenItems()) {
                begin();
            }
        } catch (SQLException | IOException failure) {
            LOG.warn("auction {} stands still: {}", auction, failure.toString());
        }
    }

    /** Whether the last item is sold, as far as is known here, and the next one not on the block. */
    private boolean isBetweenItems() {
        return bidding == null || bidding.state() == BiddingState.SOLD;
    }

    /** Notes and tells a step that is in the database already: at once, or before anything else is done. */
    private void announce(HighBid step) throws IOException {
        unannounced = step;
        catchUp();
    }

    private void catchUp() throws IOException {
        if (unannounced != null) {
            note(unannounced);
            tell.accept(unannounced);
            unannounced = null;
        }
    }

    /** Writes what the auctioneer did itself into the event store, so that no step of the bid count is without a line. */
    private void note(HighBid done) throws IOException {
        if (done.bidCount() > 1 && done.state() == BiddingState.OPEN) {
            return;
        }
        UUID event = done.bidId() != null ? done.bidId()
                : UUID.nameUUIDFromBytes((done.id() + "/" + done.bidCount()).getBytes(StandardCharsets.UTF_8));
        house.events().putBid(new Bid(event, HighBid.NOBODY, done.timeMicros(), done.auctionId(), done.itemId(),
                done.cents(), BidState.HIGH, done.id(), done.bidCount()));
    }

    private void later(Runnable task) {
        house.timer().schedule(() -> turns.execute(task), house.retryMillis(), TimeUnit.MILLISECONDS);
    }

    private void pause() {
        try {
            Thread.sleep(house.retryMillis());
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
            closed = true;
        }
    }

    /** Tells again how the bidding stands, for the last time it may have been told to nobody. */
    void tellAgain() {
        turns.execute(() -> {
            if (!closed && bidding != null) {
                tell.accept(bidding);
            }
        });
    }

    /**
     * Lets go of the auction. What is being decided is; what waits goes back to the queue. Completes when another server
     * can take it over.
     */
    CompletableFuture<Void> close() {
        closed = true;
        return CompletableFuture.runAsync(() -> {
            if (watch != null) {
                watch.cancel(false);
            }
            if (bids != null) {
                bids.close();
                bids = null;
            }
        }, turns);
    }
}
