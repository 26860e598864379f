package tare.auction.live;

import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.Consumer;
import tare.auction.messages.Broker;
import tare.auction.model.HighBid;
import tare.auction.sql.Clock;
import tare.auction.sql.HighBids;
import tare.auction.store.EventStore;

/**
 * What all auctioneers of a server share.
 *
 * @param idleNanos how long nobody bids before last call, and again before the end
 * @param lookMillis how often an auctioneer looks whether that long has passed
 * @param retryMillis how long what failed waits
 */
record House(HighBids biddings, EventStore events, Broker broker, Clock clock, Executor threads,
        ScheduledExecutorService timer, Consumer<HighBid> tell, long idleNanos, long lookMillis, long retryMillis) {}
