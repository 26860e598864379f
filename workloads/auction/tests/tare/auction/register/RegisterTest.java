package tare.auction.register;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.time.Duration;
import java.util.List;
import org.junit.Test;

public class RegisterTest {
    private static final String HOST = "10.0.0.7";
    private static final Warmth WARMTH = new Warmth(200, 0, 3100);

    private long nanos;
    private final Register register = new Register(Duration.ofSeconds(10), () -> nanos);

    private static Word word(String id, int port, boolean listening, Warmth warmth) {
        return new Word(id, "app", port, 9080, 1_000_000_000_000L, listening, warmth);
    }

    private void pass(int seconds) {
        nanos += Duration.ofSeconds(seconds).toNanos();
    }

    private List<String> ids() {
        return register.all().stream().map(Register.Shown::id).toList();
    }

    @Test
    public void aServerGoesFromRegisteredToActive() {
        assertTrue(register.hear(HOST, word("a", 8080, false, null)));
        assertEquals(State.REGISTERED, register.answer("a").get().state());
        assertTrue(register.beginWarming("a"));
        assertFalse("it is warmed once", register.hear(HOST, word("a", 8080, false, null)));
        assertEquals(State.WARMING, register.answer("a").get().state());
        register.endWarming("a", WARMTH);
        assertEquals(new Word.Answer(State.WARM, WARMTH), register.answer("a").get());
        register.hear(HOST, word("a", 8080, true, WARMTH));
        assertEquals(List.of(new Register.Shown("a", "app", "10.0.0.7:8080", "2001-09-09T01:46:40Z", State.ACTIVE, WARMTH)),
                register.all());
    }

    @Test
    public void whoIsSilentForALeaseIsNoServerAnyMore() {
        register.hear(HOST, word("a", 8080, true, WARMTH));
        register.hear(HOST, word("b", 8081, false, null));
        pass(9);
        register.hear(HOST, word("a", 8080, true, WARMTH));
        assertEquals(List.of("a", "b"), ids());
        pass(9);
        assertEquals(List.of("a"), ids());
        assertFalse("who died is not warmed", register.waits("b"));
        assertFalse(register.beginWarming("b"));
        register.endWarming("b", WARMTH);
        assertEquals(List.of("a"), ids());
    }

    @Test
    public void whoListensAlreadyIsLearntAgainAndNotWarmed() {
        assertFalse(register.hear(HOST, word("a", 8080, true, WARMTH)));
        assertFalse(register.beginWarming("a"));
        assertEquals(WARMTH, register.all().get(0).warmth());
    }

    @Test
    public void whoGoesOnWithoutBeingToldIsNotWarmedAnyLonger() {
        register.hear(HOST, word("a", 8080, false, null));
        register.beginWarming("a");
        register.hear(HOST, word("a", 8080, true, null));
        assertFalse(register.waits("a"));
        register.endWarming("a", WARMTH);
        assertEquals(State.ACTIVE, register.all().get(0).state());
    }

    @Test
    public void anAddressIsOneServers() {
        register.hear(HOST, word("dead", 8080, true, WARMTH));
        register.hear("10.0.0.8", word("other", 8080, true, WARMTH));
        assertTrue(register.hear(HOST, word("new", 8080, false, null)));
        assertEquals(List.of("new", "other"), ids());
    }

    @Test
    public void whoSaysThatItGoesIsGoneAtOnce() {
        register.hear(HOST, word("a", 8080, true, WARMTH));
        assertTrue(register.leave("a"));
        assertFalse(register.leave("a"));
        assertEquals(List.of(), ids());
    }

    @Test
    public void addressesOfVersionSixHaveBrackets() {
        assertEquals("[::1]:80", Register.at("::1", 80));
    }
}
