package tare.auction.web;

import static org.junit.Assert.assertEquals;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.junit.Test;

public class SessionsTest {
    /** The database, which both servers ask. */
    private final Map<String, Long> good = new HashMap<>();
    private int asked;
    private final Sessions one = new Sessions(10, this::find);
    private final Sessions other = new Sessions(10, this::find);

    private Optional<Long> find(String token) {
        asked++;
        return Optional.ofNullable(good.get(token));
    }

    private String login(long user) {
        String token = one.token(user);
        good.put(token, user);
        return token;
    }

    @Test
    public void aTokenIsAskedForOnceAndThenKnown() throws Exception {
        String token = login(17);
        for (int i = 0; i < 3; i++) {
            assertEquals(Optional.of(17L), other.user(token));
        }
        assertEquals(1, asked);
    }

    @Test
    public void aTokenThatIsVoidIsVoidEverywhereOnceThatIsTold() throws Exception {
        String token = login(17);
        String still = login(18);
        one.user(token);
        other.user(token);
        other.user(still);
        good.remove(token);
        one.forget(17);
        other.forget(17);
        assertEquals(Optional.empty(), one.user(token));
        assertEquals(Optional.empty(), other.user(token));
        asked = 0;
        assertEquals(Optional.of(18L), other.user(still));
        assertEquals("others are not asked for again", 0, asked);
    }

    @Test
    public void aNewTokenOfTheSameUserIsKnownBesideOneThatIsKept() throws Exception {
        String before = login(17);
        other.user(before);
        good.remove(before);
        String after = login(17);
        assertEquals("the word that it changed is still on its way", Optional.of(17L), other.user(after));
        assertEquals("only one is kept of a user", Optional.empty(), other.user(before));
    }

    @Test
    public void whatWasReadJustBeforeTheUserWentIsNotKept() throws Exception {
        String token = login(17);
        Sessions[] slow = new Sessions[1];
        slow[0] = new Sessions(10, asking -> {
            Optional<Long> found = find(asking);
            // While the answer is on its way the user logs out, and this server hears of it.
            good.remove(asking);
            slow[0].forget(17);
            return found;
        });
        slow[0].user(token);
        assertEquals(Optional.empty(), slow[0].user(token));
    }

    @Test
    public void whatIsNoTokenOfOursIsNobodys() throws Exception {
        for (String text : new String[] {"", "-", "xyz", "fffffffffffffffffffff-1", "zz-1", "11", "-11"}) {
            assertEquals(text, Optional.empty(), one.user(text));
        }
        assertEquals("nor is the database asked", 0, asked);
        String token = login(17);
        good.put("12" + token.substring(2), 17L);
        assertEquals("another's number", Optional.empty(), one.user("12" + token.substring(2)));
    }
}
