package tare.auction.live;

import java.io.IOException;
import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import tare.auction.messages.BidSubscription;
import tare.auction.model.HighBid;
import tare.auction.store.EventStore;

/**
 * What all auctioneers of a server share.
 *
 * @param clock microseconds since 1970 by the simulated clock
 * @param idleNanos how long nobody bids before last call, and again before the end
 * @param lookMillis how often an auctioneer looks whether that long has passed
 * @param retryMillis how long what failed waits
 */
record House(Biddings biddings, EventStore events, Queues queues, LongSupplier clock, Executor threads,
        ScheduledExecutorService timer, Consumer<HighBid> tell, long idleNanos, long lookMillis, long retryMillis) {

    /** Where bids wait. */
    interface Queues {
        /** Takes the bids of an auction; fails while somebody else does. */
        BidSubscription subscribe(long auction, BidSubscription.Handler handler) throws IOException;
    }
}
