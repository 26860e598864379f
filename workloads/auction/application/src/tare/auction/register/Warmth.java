package tare.auction.register;

/** How a server was warmed: how often all of it was gone through, how often in vain, and how long it took. */
public record Warmth(int rounds, int failed, long millis) {
    /** Not at all. */
    public static final Warmth NONE = new Warmth(0, 0, 0);
}
