package tare.auction.sql;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import tare.auction.live.Biddings;
import tare.auction.live.Prices;
import tare.auction.model.Bid;
import tare.auction.model.HighBid;
import tare.auction.model.States.BidState;
import tare.auction.model.States.BiddingState;

/**
 * The table {@code highbid}, and what is decided by it. Each change is one transaction that holds only if the row is
 * still the one that was read: two servers that both believe to own an auction cannot both change it.
 */
public final class HighBids implements Biddings, Prices.Source {
    private static final String COLUMNS = "id, auction_id, item_id, amount, bidcount, state, bidder_id, bid_uuid,"
            + " currentbidtime, version";

    private final Database database;

    /** Over {@code database}. */
    public HighBids(Database database) {
        this.database = database;
    }

    /** The bidding that goes on in an auction, if an item is on the block. */
    @Override
    public Optional<HighBid> open(long auction) throws SQLException {
        return database.first(HighBids::read,
                "SELECT " + COLUMNS + " FROM highbid WHERE auction_id = ? AND state <> 'SOLD'", auction);
    }

    @Override
    public Optional<HighBid> last(long auction) throws SQLException {
        return database.first(HighBids::read, "SELECT " + COLUMNS
                + " FROM highbid WHERE auction_id = ? AND NOT preloaded ORDER BY id DESC LIMIT 1", auction);
    }

    /** The latest bidding for an item. */
    @Override
    public Optional<HighBid> latest(long item) throws SQLException {
        return database.first(HighBids::read,
                "SELECT " + COLUMNS + " FROM highbid WHERE item_id = ? ORDER BY id DESC LIMIT 1", item);
    }

    /**
     * Puts the next item of an auction on the block: the first that waits. When none waits, all items that were
     * auctioned wait again, so that an auction never ends. Empty if the auction has no items at all.
     */
    @Override
    public Optional<HighBid> next(long auction, UUID opening, long nowMicros) throws SQLException {
        return database.transact(connection -> {
            Optional<long[]> item = waiting(connection, auction);
            if (item.isEmpty()) {
                Database.update(connection, "UPDATE item SET state = 'INAUCTION', version = version + 1"
                        + " WHERE auction_id = ? AND state = 'SOLD'", auction);
                item = waiting(connection, auction);
            }
            if (item.isEmpty()) {
                return Optional.empty();
            }
            LocalDateTime now = Clock.time(nowMicros);
            HighBid begun = Database.list(connection, HighBids::read,
                    "INSERT INTO highbid (id, amount, bidcount, state, bidder_id, item_id, auction_id, bid_uuid,"
                            + " biddingstarttime, currentbidtime, preloaded)"
                            + " VALUES (nextval('highbid_ids'), ?, 1, 'OPEN', ?, ?, ?, ?, ?, ?, false) RETURNING " + COLUMNS,
                    item.get()[1], HighBid.NOBODY, item.get()[0], auction, opening, now, now).get(0);
            Database.update(connection, "UPDATE item SET state = 'ACTIVE', highbid_id = ?, version = version + 1"
                    + " WHERE id = ?", begun.id(), begun.itemId());
            return Optional.of(begun);
        });
    }

    private static Optional<long[]> waiting(Connection connection, long auction) throws SQLException {
        return Database.list(connection, row -> new long[] {row.getLong(1), row.getLong(2)},
                "SELECT id, startingbid FROM item WHERE auction_id = ? AND state = 'INAUCTION' ORDER BY id LIMIT 1",
                auction).stream().findFirst();
    }

    /**
     * Decides a bid that is higher than {@code known}. Whoever read an older row than the one that is there tries
     * again with the newer, as often as it takes.
     */
    @Override
    public Decision decide(Bid bid, HighBid known) throws SQLException {
        HighBid current = known;
        while (true) {
            HighBid seen = current;
            Decision decision = database.transact(connection -> decide(connection, bid, seen));
            if (decision != null) {
                return decision;
            }
            current = database.first(HighBids::read, "SELECT " + COLUMNS + " FROM highbid WHERE id = ?", seen.id())
                    .orElseThrow(() -> new SQLException("the bidding " + seen.id() + " is gone"));
        }
    }

    private static Decision decide(Connection connection, Bid bid, HighBid current) throws SQLException {
        if (bid.itemId() != current.itemId()) {
            return new Decision(BidState.NOSUCHITEM, current);
        }
        if (current.state() == BiddingState.SOLD) {
            return new Decision(BidState.ALREADYSOLD, current);
        }
        if (bid.cents() <= current.cents() && current.bidderId() != HighBid.NOBODY
                || bid.cents() < current.cents()) {
            return new Decision(BidState.LOW, current);
        }
        List<Long> credit = Database.list(connection, row -> row.getLong(1),
                "SELECT creditlimit FROM userdata WHERE id = ? AND enabled", bid.bidderId());
        if (credit.isEmpty()) {
            return new Decision(BidState.NOSUCHUSER, current);
        }
        if (credit.get(0) < bid.cents()) {
            return new Decision(BidState.INSUFFICIENTFUNDS, current);
        }
        List<HighBid> higher = Database.list(connection, HighBids::read,
                "UPDATE highbid SET amount = ?, bidcount = bidcount + 1, state = 'OPEN', bidder_id = ?, bid_uuid = ?,"
                        + " currentbidtime = ?, version = version + 1 WHERE id = ? AND version = ? RETURNING " + COLUMNS,
                bid.cents(), bid.bidderId(), bid.id(), Clock.time(bid.timeMicros()), current.id(), current.version());
        return higher.isEmpty() ? null : new Decision(BidState.HIGH, higher.get(0));
    }

    /** Calls for the last time; empty if the bidding has changed since {@code known}. */
    @Override
    public Optional<HighBid> lastCall(HighBid known, UUID event, long nowMicros) throws SQLException {
        return database.first(HighBids::read, "UPDATE highbid SET state = 'LASTCALL', bidcount = bidcount + 1,"
                + " bid_uuid = ?, currentbidtime = ?, version = version + 1"
                + " WHERE id = ? AND version = ? AND state = 'OPEN' RETURNING " + COLUMNS, event, Clock.time(nowMicros), known.id(), known.version());
    }

    /**
     * Ends the bidding; empty if it has changed since {@code known}. The winner pays. One whose credit went into
     * other items meanwhile does not get this one: it waits to be put up again, as does what nobody bid for.
     */
    @Override
    public Optional<HighBid> end(HighBid known, UUID event, long nowMicros) throws SQLException {
        return database.transact(connection -> {
            boolean paid = known.bidderId() != HighBid.NOBODY && Database.update(connection,
                    "UPDATE userdata SET creditlimit = creditlimit - ?, version = version + 1"
                            + " WHERE id = ? AND creditlimit >= ?", known.cents(), known.bidderId(), known.cents()) == 1;
            LocalDateTime now = Clock.time(nowMicros);
            List<HighBid> ended = Database.list(connection, HighBids::read,
                    "UPDATE highbid SET state = 'SOLD', bidcount = bidcount + 1, bidder_id = ?, bid_uuid = ?,"
                            + " biddingendtime = ?, version = version + 1"
                            + " WHERE id = ? AND version = ? AND state = 'LASTCALL' RETURNING " + COLUMNS,
                    paid ? known.bidderId() : HighBid.NOBODY, event, now, known.id(), known.version());
            if (ended.isEmpty()) {
                // Somebody bid, or another server ended it: nothing is paid.
                connection.rollback();
                return Optional.empty();
            }
            Database.update(connection, "UPDATE item SET state = ?, version = version + 1 WHERE id = ?",
                    paid ? "SOLD" : "INAUCTION", known.itemId());
            return Optional.of(ended.get(0));
        });
    }

    /** Reads a row whose columns are those of this table, in the order of {@link HighBid}. */
    private static HighBid read(ResultSet row) throws SQLException {
        return new HighBid(row.getLong(1), row.getLong(2), row.getLong(3), row.getLong(4), row.getInt(5),
                BiddingState.valueOf(row.getString(6)), row.getLong(7), row.getObject(8, UUID.class),
                Clock.micros(row.getObject(9, LocalDateTime.class)), row.getInt(10));
    }
}
