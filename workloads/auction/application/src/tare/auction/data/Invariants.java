package tare.auction.data;

import java.io.IOException;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import tare.auction.Settings;
import tare.auction.messages.Broker;
import tare.auction.model.Bid;
import tare.auction.model.HighBid;
import tare.auction.model.ImageInfo;
import tare.auction.model.States.BidState;
import tare.auction.sql.Auctions;
import tare.auction.sql.Database;
import tare.auction.store.EventStore;
import tare.auction.store.ImageStore;

/**
 * What must hold after any load, whatever was killed in between. To be asked when nobody bids any more; auctions may
 * go on, since each bidding is compared up to where the database had it.
 */
final class Invariants {
    private static final int BIDS_A_PAGE = 5000;
    private static final int TOLD_MOST = 100;
    /** Between a commit and the line of the event store that follows it. */
    private static final long SETTLE_MILLIS = 1000;

    private final Settings settings;
    private final Sizes sizes;
    private final Database database;
    private final EventStore events;
    private final ImageStore images;
    private final List<String> violated = new ArrayList<>();
    private final Map<String, Long> counts = new TreeMap<>();

    Invariants(Settings settings, Sizes sizes, Database database, EventStore events, ImageStore images) {
        this.settings = settings;
        this.sizes = sizes;
        this.database = database;
        this.events = events;
        this.images = images;
    }

    /** What was looked at, and what does not hold. */
    record Report(Map<String, Long> counts, List<String> violations) {}

    /** One bidding, as the database has it. */
    private record Bidding(long id, long auction, long item, long cents, int count, String state, long bidder) {}

    /** Looks at everything. */
    Report check() throws Exception {
        drained();
        List<Bidding> biddings = database.list(row -> new Bidding(row.getLong(1), row.getLong(2), row.getLong(3),
                row.getLong(4), row.getInt(5), row.getString(6), row.getLong(7)),
                "SELECT id, auction_id, item_id, amount, bidcount, state, bidder_id FROM highbid WHERE NOT preloaded");
        Thread.sleep(SETTLE_MILLIS);
        Map<Long, List<Bid>> counted = decided();
        for (Bidding bidding : biddings) {
            compare(bidding, counted.getOrDefault(bidding.id(), List.of()));
        }
        counts.put("biddings", (long) biddings.size());
        counts.put("items sold", biddings.stream()
                .filter(one -> one.state().equals("SOLD") && one.bidder() != HighBid.NOBODY).count());
        inDatabase();
        if (settings.text("data.images").equals("true")) {
            images();
        }
        return new Report(counts, violated);
    }

    private void violation(String what) {
        if (violated.size() < TOLD_MOST) {
            violated.add(what);
        } else if (violated.size() == TOLD_MOST) {
            violated.add("and more");
        }
    }

    /** Waits until no bid waits in RabbitMQ any more. */
    private void drained() throws IOException, SQLException, InterruptedException {
        long end = System.nanoTime() + settings.millis("invariants.drain").toNanos();
        List<Long> running = new Auctions(database).runningIds();
        try (Broker broker = new Broker(settings)) {
            while (true) {
                long waiting = 0;
                for (long auction : running) {
                    waiting += broker.waiting(auction);
                }
                if (waiting == 0) {
                    return;
                }
                if (System.nanoTime() > end) {
                    violation(waiting + " accepted bids still wait in the message server");
                    return;
                }
                Thread.sleep(200);
            }
        }
    }

    /** The bids of the event store that were counted in a bidding, by bidding. */
    private Map<Long, List<Bid>> decided() throws IOException {
        Map<Long, List<Bid>> counted = new HashMap<>();
        Set<UUID> seen = new HashSet<>();
        long live = 0;
        List<Bid> page = List.of();
        do {
            page = events.bidsAfter(page.isEmpty() ? null : page.get(page.size() - 1), BIDS_A_PAGE);
            for (Bid bid : page) {
                // Purchases of the past have the first numbers; what was decided otherwise has none.
                if (bid.highBidId() > 0 && bid.highBidId() <= sizes.purchases()) {
                    continue;
                }
                live++;
                if (!seen.add(bid.id())) {
                    violation("the event store has the bid " + bid.id() + " twice");
                }
                if (bid.state() == BidState.ACCEPTED || bid.state() == BidState.PROVISIONALLYHIGH) {
                    violation("the bid " + bid.id() + " for item " + bid.itemId() + " was accepted and never decided: "
                            + bid.state());
                } else if (bid.state() == BidState.HIGH) {
                    counted.computeIfAbsent(bid.highBidId(), id -> new ArrayList<>()).add(bid);
                }
                String kind = bid.bidderId() == HighBid.NOBODY ? "steps of auctioneers" : "bids " + bid.state();
                counts.merge(kind, 1L, Long::sum);
            }
        } while (page.size() == BIDS_A_PAGE);
        counts.put("bids accepted", live - counts.getOrDefault("steps of auctioneers", 0L));
        return counted;
    }

    /** Holds one bidding against its events: each step has one, prices grow, the highest bid has it. */
    private void compare(Bidding bidding, List<Bid> own) {
        String name = "bidding " + bidding.id() + " for item " + bidding.item();
        Bid[] steps = new Bid[bidding.count() + 1];
        for (Bid bid : own) {
            if (bid.sequence() > bidding.count()) {
                continue;
            }
            if (bid.sequence() < 1 || steps[bid.sequence()] != null) {
                violation(name + " has more than one bid with the count " + bid.sequence());
                continue;
            }
            steps[bid.sequence()] = bid;
        }
        Bid highest = null;
        for (int step = 1; step <= bidding.count(); step++) {
            Bid bid = steps[step];
            if (bid == null) {
                violation(name + " counts " + bidding.count() + " steps, and the event store lacks the one with count " + step);
            } else if (bid.bidderId() != HighBid.NOBODY) {
                if (highest != null && bid.cents() <= highest.cents()) {
                    violation(name + ": the bid " + bid.id() + " won and was not higher than the one before");
                }
                highest = bid;
            }
        }
        if (highest != null && highest.cents() != bidding.cents()) {
            violation(name + " stands at " + bidding.cents() + " cents, its highest bid at " + highest.cents());
        }
        boolean nobody = bidding.bidder() == HighBid.NOBODY;
        // Somebody whose credit ran out loses what they had won; then nobody has it.
        if (highest == null ? !nobody : bidding.bidder() != highest.bidderId() && !(nobody && bidding.state().equals("SOLD"))) {
            violation(name + " belongs to user " + bidding.bidder() + ", its highest bid "
                    + (highest == null ? "does not exist" : "is of user " + highest.bidderId()));
        }
    }

    /** What the database can say by itself. */
    private void inDatabase() throws SQLException {
        each("user %s has less credit than nothing", "SELECT id FROM userdata WHERE creditlimit < 0");
        each("what user %s has left is not what was granted less what was bought",
                "SELECT u.id FROM userdata u LEFT JOIN (SELECT bidder_id, sum(amount) AS paid FROM highbid"
                        + " WHERE NOT preloaded AND state = 'SOLD' GROUP BY bidder_id) h ON h.bidder_id = u.id AND u.id <> "
                        + HighBid.NOBODY + " WHERE u.creditgranted - coalesce(h.paid, 0) <> u.creditlimit");
        each("auction %s has more than one item on the block",
                "SELECT auction_id FROM item WHERE state = 'ACTIVE' GROUP BY auction_id HAVING count(*) > 1");
        each("item %s is on the block without a bidding that is open", "SELECT i.id FROM item i LEFT JOIN highbid h"
                + " ON h.id = i.highbid_id AND h.state <> 'SOLD' WHERE i.state = 'ACTIVE' AND h.id IS NULL");
        each("item %s is sold and has no winner", "SELECT i.id FROM item i LEFT JOIN highbid h ON h.id = i.highbid_id"
                + " AND h.state = 'SOLD' AND h.bidder_id <> " + HighBid.NOBODY
                + " WHERE i.state = 'SOLD' AND h.id IS NULL");
    }

    private void each(String message, String sql) throws SQLException {
        for (String id : database.list(row -> row.getString(1), sql + " LIMIT " + TOLD_MOST)) {
            violation(String.format(message, id));
        }
    }

    /** Each image that is listed is there in its sizes, and no other. */
    private void images() throws IOException {
        long infos = images.count(null);
        long added = infos - sizes.images();
        counts.put("images added", added);
        if (added < 0) {
            violation("images are missing: " + infos + " of " + sizes.images() + " that were loaded");
        }
        for (ImageInfo.Size size : ImageInfo.Size.values()) {
            long meant = size == ImageInfo.Size.FULL ? sizes.fullImages() + added : infos;
            long found = images.count(size);
            if (found != meant) {
                violation("there are " + found + " images of size " + size + ", " + meant + " are listed");
            }
        }
    }
}
