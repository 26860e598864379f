package tare.auction.model;

import java.math.BigDecimal;
import java.util.UUID;
import tare.auction.Money;

/**
 * One bidding for one item: the row of the database, and what is told to everybody when it changes. An item that was
 * not sold is put up again, and that is another bidding with another id.
 *
 * @param bidCount grows by one with all that bidders are told: the opening, each higher bid, last call, the end
 * @param bidderId who has the highest bid; {@link #NOBODY} as long as nobody has
 * @param bidId the event that made {@code bidCount} what it is
 * @param timeMicros when that was, by the simulated clock
 */
public record HighBid(long id, long auctionId, long itemId, long cents, int bidCount, States.BiddingState state,
        long bidderId, UUID bidId, long timeMicros, int version) {

    /** The user that stands for "nobody bid". */
    public static final long NOBODY = 3;

    /** What clients see of it. */
    public View view() {
        return new View(String.valueOf(bidId), auctionId, itemId, bidderId == NOBODY ? null : bidderId,
                Money.shown(cents), bidCount, state.name());
    }

    /** The answer to a question for a bid. */
    public record View(String id, long auctionId, long itemId, Long userId, BigDecimal amount, int lastBidCount,
            String biddingState) {}
}
