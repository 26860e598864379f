package tare.auction.data;

import java.util.SplittableRandom;
import tare.auction.Settings;

/**
 * How much of everything there is, as a function of the number of users U that the site is made for.
 *
 * @param maxUsers U: how many users may be active at once
 * @param history which part of the full history and future is made; what is current is always whole
 * @param seed all data follow from it
 */
public record Sizes(int maxUsers, double history, long seed) {
    /** Users that nobody simulates: guest, administrator, "nobody bid", and forty that warm servers up. */
    public static final int SPECIAL_USERS = 43;
    /** Items of an auction that runs, on average. */
    public static final int ITEMS_OF_CURRENT = 15;
    /** Items of an auction that is over, or not begun. */
    public static final int ITEMS_OF_OTHERS = 10;
    /** Bids for an item that was sold in the past. */
    public static final int BIDS_OF_ITEM = 20;
    /** Who came to an auction that is over. */
    public static final int ATTENDEES_OF_HISTORIC = 40;
    /** Who is at an auction when it is loaded. */
    public static final int ATTENDEES_OF_CURRENT = 100;
    /** Images of an item that is up now; other items have one, which is not kept in full size. */
    public static final int IMAGES_OF_CURRENT = 4;
    /** Words by which auctions are found. */
    public static final int KEYWORDS = 20;
    /** Words of each auction, all different. */
    public static final int KEYWORDS_OF_AUCTION = 3;
    private static final int ITEMS_SHIFT = 5;

    /** The sizes that were stated. */
    public static Sizes of(Settings settings) {
        return new Sizes(settings.number("data.users"), settings.fraction("data.history"), settings.longNumber("data.seed"));
    }

    /** All users; the simulated ones are the last {@code 5 U}. */
    public int users() {
        return SPECIAL_USERS + 5 * maxUsers;
    }

    /** Auctions that run: one for each fifteen users, an even number, four at least. Their numbers begin with 1. */
    public int currentAuctions() {
        int wanted = Math.max(4, (maxUsers + 14) / 15);
        return wanted + wanted % 2;
    }

    /** Auctions of the last 730 days. Their numbers follow those of the current ones. */
    public int historicAuctions() {
        return (int) Math.round(2.5 * maxUsers * history);
    }

    /** Auctions of the next 182 days. Their numbers follow those of the historic ones. */
    public int futureAuctions() {
        return (int) Math.round(0.62 * maxUsers * history);
    }

    /** All auctions. */
    public int auctions() {
        return currentAuctions() + historicAuctions() + futureAuctions();
    }

    /** How many items an auction has: ten to twenty if it is current, fifteen on average. */
    public int itemsOf(int auction) {
        return Math.toIntExact(firstItem(auction + 1) - firstItem(auction));
    }

    /** The number of an auction's first item; for the auction behind the last, one more than there are items. */
    public long firstItem(int auction) {
        int current = currentAuctions();
        if (auction > current) {
            return 1 + (long) ITEMS_OF_CURRENT * current + (long) ITEMS_OF_OTHERS * (auction - current - 1);
        }
        return 1 + (long) ITEMS_OF_CURRENT * (auction - 1) + shift(auction);
    }

    /**
     * How far a current auction's first item is behind where it would be if all had as many: 0 to 5. Where auctions
     * begin is drawn, not how long they are, so that no number depends on all auctions before it.
     */
    private int shift(int auction) {
        return auction == 1 ? 0 : new SplittableRandom(seed ^ 0x17e5L * auction).nextInt(ITEMS_SHIFT + 1);
    }

    /** Items of current auctions. */
    public long currentItems() {
        return firstItem(currentAuctions() + 1) - 1;
    }

    /** All items. */
    public long items() {
        return firstItem(auctions() + 1) - 1;
    }

    /** Items that were bought in the past; the number of a purchase is that of the item less the current ones. */
    public long purchases() {
        return (long) ITEMS_OF_OTHERS * historicAuctions();
    }

    /** Bids in the event store. */
    public long bids() {
        return purchases() * BIDS_OF_ITEM;
    }

    /** Records of attendance in the event store. */
    public long attendance() {
        return (long) ATTENDEES_OF_HISTORIC * historicAuctions() + (long) ATTENDEES_OF_CURRENT * currentAuctions();
    }

    /** Pairs of an auction and a word. */
    public long auctionKeywords() {
        return (long) KEYWORDS_OF_AUCTION * auctions();
    }

    /** Images, in thumbnail and preview. */
    public long images() {
        return currentItems() * IMAGES_OF_CURRENT + items() - currentItems();
    }

    /** Images in full size. */
    public long fullImages() {
        return currentItems() * IMAGES_OF_CURRENT;
    }
}
