package tare.auction.model;

/** The words by which rows and answers say where something stands. */
public final class States {
    private States() {}

    /** An auction. */
    public enum AuctionState { FUTURE, PENDING, RUNNING, COMPLETE, INVALID }

    /** An item. */
    public enum ItemState { NOTLISTED, INAUCTION, ACTIVE, SOLD, PAID, SHIPPED }

    /** The bidding for an item: open, called for the last time, over. */
    public enum BiddingState { OPEN, LASTCALL, SOLD }

    /**
     * A bid. {@code ACCEPTED} is what its bidder is told at once. The owner of the auction decides: a bid that is not
     * higher ends as {@code LOW}; one that is, is written as {@code PROVISIONALLYHIGH} before the database is asked,
     * and then as {@code HIGH} or as the reason why not.
     */
    public enum BidState { ACCEPTED, PROVISIONALLYHIGH, HIGH, LOW, ALREADYSOLD, INSUFFICIENTFUNDS, NOSUCHUSER, NOSUCHITEM }

    /** Somebody's presence at an auction. */
    public enum AttendanceState { ATTENDING, LEFT }
}
