package tare.auction.messages;

import java.util.UUID;
import tare.auction.model.Bid;
import tare.auction.model.HighBid;
import tare.auction.model.States.BidState;
import tare.auction.model.States.BiddingState;

/** What goes through the message server, as JSON. */
public final class Messages {
    /** The exchange through which everything goes. */
    public static final String EXCHANGE = "liveAuctionMgmtExchange";

    private Messages() {}

    /** A bid that was accepted and waits to be decided: sent with the key {@code newBid.<auction>}. */
    public record NewBid(UUID id, long auctionId, long itemId, long userId, long cents, long timeMicros) {
        /** As the event store keeps it. */
        public Bid bid() {
            return new Bid(id, userId, timeMicros, auctionId, itemId, cents, BidState.ACCEPTED, 0, 0);
        }

        /** The message for a bid. */
        public static NewBid of(Bid bid) {
            return new NewBid(bid.id(), bid.auctionId(), bid.itemId(), bid.bidderId(), bid.cents(), bid.timeMicros());
        }
    }

    /** How a bidding stands since something happened to it: sent with the key {@code highBid.<auction>}. */
    public record Price(long highBidId, long auctionId, long itemId, long cents, int bidCount, String state,
            long bidderId, UUID bidId, long timeMicros, int version) {
        /** As the program knows it. */
        public HighBid highBid() {
            return new HighBid(highBidId, auctionId, itemId, cents, bidCount, BiddingState.valueOf(state), bidderId,
                    bidId, timeMicros, version);
        }

        /** The message for a bidding. */
        public static Price of(HighBid bid) {
            return new Price(bid.id(), bid.auctionId(), bid.itemId(), bid.cents(), bid.bidCount(), bid.state().name(),
                    bid.bidderId(), bid.bidId(), bid.timeMicros(), bid.version());
        }
    }

    /** Of what servers keep copies that somebody else may change. */
    public enum Kind { USER, ITEM }

    /** That somebody changed something: what is kept of it is not to be used any more. Sent with the key {@code changed}. */
    public record Change(Kind kind, long id) {
        /** In place of a number: everything of a kind. */
        public static final long ALL = 0;
    }

    /** The key under which changes are told. */
    public static final String CHANGES = "changed";

    /** The key, and the queue, of an auction's bids. */
    public static String newBids(long auction) {
        return "newBid." + auction;
    }

    /** The key under which an auction's prices are told. */
    public static String prices(long auction) {
        return "highBid." + auction;
    }
}
