package tare.auction.live;

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.model.HighBid;
import tare.auction.model.States.BiddingState;

/**
 * How the biddings of all auctions stand, as this process heard, and who waits for a change. Every server hears every
 * price, so whichever server a bidder asks can answer; what was not heard yet is read from the database.
 */
public final class Prices {
    /** Where prices are read that were not heard. */
    public interface Source {
        /** The bidding that goes on in an auction, if an item is on the block. */
        Optional<HighBid> open(long auction) throws SQLException;

        /** The latest bidding of an auction since its data were loaded, open or over. */
        Optional<HighBid> last(long auction) throws SQLException;

        /** The latest bidding for an item. */
        Optional<HighBid> latest(long item) throws SQLException;
    }

    /** What this process knows of one auction. Guarded by itself. */
    private static final class Block {
        private HighBid latest;
        private final List<Waiting> waiting = new ArrayList<>();
    }

    /** Somebody who waits for the bid count of an item to grow beyond {@code count}; or, for item 0, for any item. */
    private static final class Waiting {
        private final long item;
        private final int count;
        private final Consumer<Optional<HighBid>> answer;
        private ScheduledFuture<?> end;

        private Waiting(long item, int count, Consumer<Optional<HighBid>> answer) {
            this.item = item;
            this.count = count;
            this.answer = answer;
        }

        private boolean isAnsweredBy(HighBid price) {
            return item == 0 ? price.state() != BiddingState.SOLD : price.itemId() != item || price.bidCount() > count;
        }
    }

    private static final Logger LOG = LoggerFactory.getLogger(Prices.class);
    private static final long READ_AGAIN_MILLIS = 500;

    private final ConcurrentHashMap<Long, Block> blocks = new ConcurrentHashMap<>();
    private final Source biddings;
    private final ScheduledExecutorService timer;

    /** Asks {@code biddings} for what it did not hear; ends waits by {@code timer}. */
    public Prices(Source biddings, ScheduledExecutorService timer) {
        this.biddings = biddings;
        this.timer = timer;
    }

    /** Takes note of a price, and answers everybody who waited for it. */
    public void heard(HighBid price) {
        Block block = blocks.computeIfAbsent(price.auctionId(), auction -> new Block());
        List<Waiting> answered = new ArrayList<>();
        synchronized (block) {
            if (block.latest != null && isOlder(price, block.latest)) {
                return;
            }
            block.latest = price;
            for (Iterator<Waiting> all = block.waiting.iterator(); all.hasNext();) {
                Waiting one = all.next();
                if (one.isAnsweredBy(price)) {
                    all.remove();
                    answered.add(one);
                }
            }
        }
        // Outside of the lock: an answer may take its time.
        for (Waiting one : answered) {
            one.end.cancel(false);
            one.answer.accept(Optional.of(price));
        }
    }

    private static boolean isOlder(HighBid price, HighBid than) {
        return price.id() < than.id() || price.id() == than.id() && price.bidCount() < than.bidCount();
    }

    /**
     * Reads how all biddings stand that are known or waited for here, as if it were heard. For when prices may have
     * been told that this process could not hear: to be called after it hears again, so that none falls in between.
     * Where the database does not answer, that is tried again until it does; {@code threads} wait for it.
     */
    public void readAgain(Executor threads) {
        Set<Long> all = Set.copyOf(blocks.keySet());
        threads.execute(() -> readAgain(all, threads));
    }

    private void readAgain(Set<Long> auctions, Executor threads) {
        Set<Long> left = new HashSet<>(auctions);
        try {
            for (long auction : auctions) {
                biddings.last(auction).ifPresent(this::heard);
                left.remove(auction);
            }
        } catch (SQLException failure) {
            LOG.warn("prices of {} auctions may be old: {}", left.size(), failure.toString());
            timer.schedule(() -> threads.execute(() -> readAgain(left, threads)), READ_AGAIN_MILLIS,
                    TimeUnit.MILLISECONDS);
        }
    }

    /** Answers everybody who waits, with nothing, and tells how many: the server goes, and others will know. */
    public int release() {
        int all = 0;
        for (Block block : blocks.values()) {
            List<Waiting> released;
            synchronized (block) {
                released = List.copyOf(block.waiting);
                block.waiting.clear();
            }
            for (Waiting one : released) {
                one.end.cancel(false);
                one.answer.accept(Optional.empty());
            }
            all += released.size();
        }
        return all;
    }

    /** How the bidding of an auction stands; empty if there never was one. */
    public Optional<HighBid> latest(long auction) throws SQLException {
        Block block = blocks.get(auction);
        if (block != null) {
            synchronized (block) {
                if (block.latest != null) {
                    return Optional.of(block.latest);
                }
            }
        }
        Optional<HighBid> read = biddings.open(auction);
        read.ifPresent(this::heard);
        return read;
    }

    /**
     * Answers when the bid count of an item grows beyond {@code count}, at once if it has, with how the bidding for it
     * stands, or with how it ended if another item is on the block since; or, after {@code millis}, with nothing.
     */
    public void next(long auction, long item, int count, long millis, Consumer<Optional<HighBid>> answer)
            throws SQLException {
        latest(auction);
        await(auction, new Waiting(item, count, found -> {
            if (found.isPresent() && found.get().itemId() != item) {
                answer.accept(ended(item).or(() -> found));
            } else {
                answer.accept(found);
            }
        }), millis);
    }

    private Optional<HighBid> ended(long item) {
        try {
            return biddings.latest(item);
        } catch (SQLException unknown) {
            return Optional.empty();
        }
    }

    /** Answers with the bidding that is open, as soon as there is one; or, after {@code millis}, with nothing. */
    public void current(long auction, long millis, Consumer<Optional<HighBid>> answer) throws SQLException {
        latest(auction);
        await(auction, new Waiting(0, 0, answer), millis);
    }

    private void await(long auction, Waiting waiting, long millis) {
        Block block = blocks.computeIfAbsent(auction, id -> new Block());
        HighBid known;
        synchronized (block) {
            known = block.latest != null && waiting.isAnsweredBy(block.latest) ? block.latest : null;
            if (known == null) {
                waiting.end = timer.schedule(() -> expire(block, waiting), millis, TimeUnit.MILLISECONDS);
                block.waiting.add(waiting);
            }
        }
        if (known != null) {
            waiting.answer.accept(Optional.of(known));
        }
    }

    private static void expire(Block block, Waiting waiting) {
        boolean mine;
        synchronized (block) {
            mine = block.waiting.remove(waiting);
        }
        if (mine) {
            waiting.answer.accept(Optional.empty());
        }
    }

    /** How many wait, over all auctions. */
    public int waiting() {
        int all = 0;
        for (Block block : blocks.values()) {
            synchronized (block) {
                all += block.waiting.size();
            }
        }
        return all;
    }
}
