package tare.auction.model;

import java.math.BigDecimal;
import tare.auction.Money;

/** A user, as the database has it. */
public record Account(long id, String username, String firstName, String lastName, String password, long creditCents,
        boolean enabled, boolean loggedIn, String authorities) {

    /** What the user sees of it. */
    public Profile profile() {
        return new Profile(id, username, Money.shown(creditCents), firstName, lastName, enabled,
                loggedIn ? "LOGGEDIN" : "LOGGEDOUT", authorities);
    }

    /** The answer to a question for a user. */
    public record Profile(long id, String username, BigDecimal creditLimit, String firstname, String lastname,
            boolean enabled, String state, String authorities) {}
}
