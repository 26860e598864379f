package tare.auction.data;

import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Consumer;
import tare.auction.model.Attendance;
import tare.auction.model.Bid;
import tare.auction.model.HighBid;
import tare.auction.model.ImageInfo;
import tare.auction.model.States.AttendanceState;
import tare.auction.model.States.BidState;
import tare.auction.sql.Clock;

/**
 * Makes the data. Each row follows from the seed, what it is and its number alone, so that any part can be made by any
 * thread, and made again to see whether what is stored is what was meant. Rows of tables are lines of PostgreSQL's
 * COPY.
 */
final class Generator {
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss");
    private static final String[] FIRST = {"Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Ida", "Jon"};
    private static final String[] LAST = {"Adler", "Berg", "Costa", "Dahl", "Ernst", "Frost", "Gruber", "Holm"};
    private static final String[] THING = {"lamp", "clock", "chair", "violin", "camera", "vase", "map", "radio"};
    private static final String[] CATEGORY = {"Furniture", "Music", "Art", "Books", "Tools", "Toys"};
    private static final String[] CONDITION = {"New", "Like new", "Excellent", "Good", "Fair", "Poor"};
    private static final String[] WORDS = ("old new small large made by hand found in an attic with few marks of use"
            + " from a house at the sea sold as seen without its box signed dated rare common").split(" ");
    private static final String[] KEYWORD = ("antique bronze ceramic classic collectable design folk garden glass gold"
            + " jewellery kitchen marine modern paper porcelain silver textile travel wooden").split(" ");
    private static final int FULL_LEAST = 460_000;
    private static final int FULL_MOST = 900_000;
    private static final int FULL_SIDE = 896;
    private static final int PREVIEW_SIDE = 350;
    private static final int THUMBNAIL_SIDE = 100;

    private enum Kind { USER, AUCTION, ITEM, BIDS, ATTENDANCE, IMAGE, KEYWORD }

    private final Sizes sizes;
    private final int current;
    private final int historic;
    private final long currentItems;

    Generator(Sizes sizes) {
        this.sizes = sizes;
        current = sizes.currentAuctions();
        historic = sizes.historicAuctions();
        currentItems = sizes.currentItems();
    }

    private SplittableRandom random(Kind kind, long number) {
        // The generator's own mixing makes neighbours unlike each other.
        return new SplittableRandom(new SplittableRandom(sizes.seed() + kind.ordinal() * 0x9e3779b97f4a7c15L).nextLong()
                + number * 0xd1342543de82ef95L);
    }

    private static UUID uuid(SplittableRandom random) {
        return new UUID(random.nextLong() & ~0xf000L | 0x4000L, random.nextLong() & ~(3L << 62) | 2L << 62);
    }

    private static <T> T any(SplittableRandom random, T[] of) {
        return of[random.nextInt(of.length)];
    }

    private long anyUser(SplittableRandom random) {
        return Sizes.SPECIAL_USERS + 1 + random.nextInt(5 * sizes.maxUsers());
    }

    /** Users with the numbers {@code from} to {@code to}, both of them. */
    void users(int from, int to, Consumer<String> line) {
        for (int id = from; id <= to; id++) {
            SplittableRandom random = random(Kind.USER, id);
            String name = id > Sizes.SPECIAL_USERS ? "user" + (id - Sizes.SPECIAL_USERS)
                    : id == 1 ? "guest" : id == 2 ? "admin" : id == HighBid.NOBODY ? "unsold" : "warmer" + (id - 3);
            long credit = 100_000_00L + random.nextInt(900_000) * 100L;
            line.accept(String.join("\t", String.valueOf(id), name + "@auction.test", "password", any(random, FIRST),
                    any(random, LAST), "\\N", String.valueOf(credit), String.valueOf(credit),
                    id == HighBid.NOBODY ? "f" : "t", "f", id == 2 ? "administrator" : "watcher", "0"));
        }
    }

    private LocalDateTime start(int auction) {
        SplittableRandom random = random(Kind.AUCTION, auction);
        if (auction <= current) {
            return Clock.BEGINNING;
        }
        return auction <= current + historic ? Clock.BEGINNING.minusMinutes(1440 + random.nextInt(730 * 1440))
                : Clock.BEGINNING.plusMinutes(1440 + random.nextInt(181 * 1440));
    }

    /** Auctions with the numbers {@code from} to {@code to}. */
    void auctions(int from, int to, Consumer<String> line) {
        for (int id = from; id <= to; id++) {
            LocalDateTime start = start(id);
            boolean past = id > current && id <= current + historic;
            SplittableRandom random = random(Kind.AUCTION, -id);
            line.accept(String.join("\t", String.valueOf(id), "Auction " + id, any(random, CATEGORY), start.format(TIME),
                    past ? start.plusHours(4).format(TIME) : "\\N",
                    id <= current ? "RUNNING" : past ? "COMPLETE" : "FUTURE", id <= current ? "t" : "f",
                    id <= current || past ? "t" : "f", String.valueOf(anyUser(random)), "0"));
        }
    }

    /** Words with the numbers {@code from} to {@code to}. */
    void keywords(int from, int to, Consumer<String> line) {
        for (int id = from; id <= to; id++) {
            line.accept(id + "\t" + KEYWORD[id - 1]);
        }
    }

    /** The words of auctions with the numbers {@code from} to {@code to}: three of all, drawn without putting back. */
    void auctionKeywords(int from, int to, Consumer<String> line) {
        for (int auction = from; auction <= to; auction++) {
            SplittableRandom random = random(Kind.KEYWORD, auction);
            Set<Integer> drawn = new TreeSet<>();
            while (drawn.size() < Sizes.KEYWORDS_OF_AUCTION) {
                drawn.add(1 + random.nextInt(Sizes.KEYWORDS));
            }
            for (int keyword : drawn) {
                line.accept(auction + "\t" + keyword);
            }
        }
    }

    /** The items of auctions with the numbers {@code from} to {@code to}. */
    void items(int from, int to, Consumer<String> line) {
        for (int auction = from; auction <= to; auction++) {
            boolean past = auction > current && auction <= current + historic;
            long first = sizes.firstItem(auction);
            for (long id = first; id < first + sizes.itemsOf(auction); id++) {
                SplittableRandom random = random(Kind.ITEM, id);
                StringBuilder text = new StringBuilder();
                for (int words = 20 + random.nextInt(40); words > 0; words--) {
                    text.append(any(random, WORDS)).append(words > 1 ? " " : "");
                }
                line.accept(String.join("\t", String.valueOf(id), any(random, WORDS) + " " + any(random, THING), text,
                        any(random, LAST) + " and sons", String.valueOf(1_00 + random.nextInt(20_00)),
                        past ? "SOLD" : "INAUCTION", any(random, CONDITION),
                        Clock.BEGINNING.minusDays(random.nextInt(36_500)).toLocalDate().toString(),
                        String.valueOf(auction), String.valueOf(anyUser(random)),
                        past ? String.valueOf(id - currentItems) : "\\N", "t", "0"));
            }
        }
    }

    /** What was bought in the historic auctions {@code from} to {@code to}. */
    void purchases(int from, int to, Consumer<String> line) {
        for (int auction = from; auction <= to; auction++) {
            for (List<Bid> bids : bidsOf(auction)) {
                Bid last = bids.get(bids.size() - 1);
                line.accept(String.join("\t", String.valueOf(last.highBidId()), String.valueOf(last.cents()),
                        String.valueOf(bids.size()), "SOLD", String.valueOf(last.bidderId()),
                        String.valueOf(last.itemId()), String.valueOf(auction), last.id().toString(),
                        Clock.time(bids.get(0).timeMicros()).format(TIME), Clock.time(last.timeMicros()).format(TIME),
                        Clock.time(last.timeMicros()).plusMinutes(1).format(TIME), "t", "0"));
            }
        }
    }

    /** The bids of a historic auction, by item. */
    List<List<Bid>> bidsOf(int auction) {
        List<List<Bid>> all = new ArrayList<>();
        long first = sizes.firstItem(auction);
        long start = Clock.micros(start(auction));
        for (int index = 0; index < Sizes.ITEMS_OF_OTHERS; index++) {
            SplittableRandom random = random(Kind.BIDS, first + index);
            List<Bid> bids = new ArrayList<>();
            long cents = 1_00 + random.nextInt(20_00);
            for (int number = 1; number <= Sizes.BIDS_OF_ITEM; number++) {
                cents += 1 + cents * (5 + random.nextInt(56)) / 1000;
                long time = start + (index * 1200L + number * 50L) * 1_000_000;
                bids.add(new Bid(uuid(random), anyUser(random), time, auction, first + index, cents, BidState.HIGH,
                        first + index - currentItems, number));
            }
            all.add(bids);
        }
        return all;
    }

    /** Who came to an auction that runs or is over. */
    List<Attendance> attendanceOf(int auction) {
        SplittableRandom random = random(Kind.ATTENDANCE, auction);
        boolean now = auction <= current;
        // Those of a current auction came, and left, an hour before it began.
        long start = Clock.micros(now ? Clock.BEGINNING.minusHours(1) : start(auction));
        List<Attendance> all = new ArrayList<>();
        for (int i = now ? Sizes.ATTENDEES_OF_CURRENT : Sizes.ATTENDEES_OF_HISTORIC; i > 0; i--) {
            all.add(new Attendance(uuid(random), anyUser(random), start + random.nextInt(3_000_000) * 1000L, auction,
                    AttendanceState.LEFT));
        }
        return all;
    }

    /** How many images an item has. */
    int imagesOf(long item) {
        return item <= currentItems ? Sizes.IMAGES_OF_CURRENT : 1;
    }

    /** One image of an item. */
    ImageInfo image(long item, int index) {
        SplittableRandom random = random(Kind.IMAGE, item * Sizes.IMAGES_OF_CURRENT + index);
        return new ImageInfo(uuid(random), item, "image " + index, "jpeg", true);
    }

    /** Its bytes in a size; null if it has none in that size. */
    byte[] bytes(long item, int index, ImageInfo.Size size) {
        SplittableRandom random = random(Kind.IMAGE, -(item * Sizes.IMAGES_OF_CURRENT + index) * 4 - size.ordinal() - 1);
        return switch (size) {
            case FULL -> item > currentItems ? null
                    : NoiseJpeg.make(random, FULL_SIDE, random.nextInt(FULL_LEAST, FULL_MOST));
            case PREVIEW -> NoiseJpeg.make(random, PREVIEW_SIDE, random.nextInt(30_000, 60_000));
            case THUMBNAIL -> NoiseJpeg.make(random, THUMBNAIL_SIDE, random.nextInt(4_000, 8_000));
        };
    }
}
