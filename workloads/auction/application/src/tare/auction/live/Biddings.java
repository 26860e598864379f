package tare.auction.live;

import java.sql.SQLException;
import java.util.Optional;
import java.util.UUID;
import tare.auction.model.Bid;
import tare.auction.model.HighBid;
import tare.auction.model.States.BidState;

/** How biddings stand and what is decided by it, for who runs auctions. Each change is one transaction or none. */
public interface Biddings {
    /** What was decided about a bid: its state, and the bidding as it stands since. */
    record Decision(BidState state, HighBid bidding) {}

    /** The bidding that goes on in an auction, if an item is on the block. */
    Optional<HighBid> open(long auction) throws SQLException;

    /** The latest bidding of an auction since its data were loaded, open or over. */
    Optional<HighBid> last(long auction) throws SQLException;

    /** Puts the next item of an auction on the block; empty if it has none. */
    Optional<HighBid> next(long auction, UUID opening, long nowMicros) throws SQLException;

    /** Decides a bid that is higher than {@code known}. */
    Decision decide(Bid bid, HighBid known) throws SQLException;

    /** Calls for the last time; empty if the bidding has changed since {@code known}. */
    Optional<HighBid> lastCall(HighBid known, UUID event, long nowMicros) throws SQLException;

    /** Ends the bidding, and the winner pays; empty if it has changed since {@code known}. */
    Optional<HighBid> end(HighBid known, UUID event, long nowMicros) throws SQLException;
}
