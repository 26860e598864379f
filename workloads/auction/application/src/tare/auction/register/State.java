package tare.auction.register;

/** How far a server is. */
public enum State {
    /** Known, and waiting to be warmed. */
    REGISTERED,
    /** Being warmed. */
    WARMING,
    /** Warm, or as warm as it gets: it may let users in. */
    WARM,
    /** Lets users in. */
    ACTIVE
}
