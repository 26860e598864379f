package tare.auction.model;

import java.math.BigDecimal;
import java.util.UUID;
import tare.auction.Money;

/**
 * A bid as the event store keeps it.
 *
 * @param timeMicros when it was accepted, by the simulated clock; with bidder and id it is the key
 * @param highBidId the bidding that it was counted in, 0 before that is decided
 * @param sequence the bidding's {@code bidCount} that it made, 0 if it made none
 */
public record Bid(UUID id, long bidderId, long timeMicros, long auctionId, long itemId, long cents,
        States.BidState state, long highBidId, int sequence) {

    /** The same bid after a decision. */
    public Bid decided(States.BidState decision, long bidding, int count) {
        return new Bid(id, bidderId, timeMicros, auctionId, itemId, cents, decision, bidding, count);
    }

    /** What clients see of it. */
    public View view() {
        return new View(id.toString(), auctionId, itemId, bidderId, Money.shown(cents), state.name(), timeMicros / 1000);
    }

    /** The answer to a bid, and a line of a history. */
    public record View(String id, long auctionId, long itemId, long userId, BigDecimal amount, String state,
            long bidTime) {}
}
