package tare.auction.register;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;
import tare.auction.Json;
import tare.auction.Settings;
import tare.auction.web.ApiException;
import tare.auction.web.Routes;
import tare.auction.web.Server;

/** The manager and a server's word with it, over HTTP; the server is one that only counts. */
public class SiteManagerTest {
    private static final int ROUNDS = 7;

    private final AtomicInteger bids = new AtomicInteger();
    private Server server;

    private static Settings settings(int listen, int warm, int manager) {
        return Settings.of("http.listen=127.0.0.1:" + listen, "warm.listen=127.0.0.1:" + warm,
                "manager.address=127.0.0.1:" + manager, "http.threads=2", "http.connections=100", "http.backlog=10",
                "http.keepalive=10000", "warm.iterations=" + ROUNDS, "warm.within=10000", "warm.answer=5000", "warm.servers=2",
                "manager.poll=10", "manager.beat=20", "manager.lease=2000", "manager.answer=300", "manager.away=400");
    }

    /** Whoever asks for a port of its own gets one that nobody has. */
    private static int free() throws Exception {
        try (ServerSocket any = new ServerSocket(0)) {
            return any.getLocalPort();
        }
    }

    @Before
    public void start() throws Exception {
        Routes routes = new Routes(token -> Optional.of(token).filter("token of 7"::equals).map(known -> 7L))
                .open("GET", "/warm", exchange -> exchange.answer(Map.of("user", 7, "username", "warmer1",
                        "password", "password", "token", "token of 7", "auctions", new long[] {3, 4})))
                // Nobody runs the second one.
                .open("GET", "/warm/auction/*", exchange -> exchange.answer(Map.of("known", exchange.number(0) == 3)))
                .route("GET", "/item/current/auction/*", exchange -> exchange.answer(Map.of("id", 50)))
                .route("GET", "/bid/auction/*/item/*/count/*", exchange -> exchange.answer(Map.of()))
                .route("POST", "/bid", exchange -> {
                    bids.incrementAndGet();
                    throw new ApiException(400, "too low");
                });
        server = new Server(settings(0, 0, 0), routes);
    }

    @After
    public void end() {
        server.close();
    }

    private static JsonNode shown(SiteManager manager) throws Exception {
        Asking asking = new Asking("127.0.0.1:" + manager.port(), Duration.ofSeconds(5), Duration.ofSeconds(5));
        return Json.tree(asking.ask("GET", "/manager/server", null, 200)).path("servers");
    }

    /** The one server of the register, once it is in this state. */
    private static JsonNode awaited(SiteManager manager, String state) throws Exception {
        for (int i = 0; i < 500; i++) {
            JsonNode one = shown(manager).path(0);
            if (one.path("state").asText().equals(state)) {
                return one;
            }
            Thread.sleep(10);
        }
        throw new AssertionError("no server came to be " + state + ": " + shown(manager));
    }

    @Test
    public void aServerIsWarmedThenActiveAndGoneWhenItSaysSo() throws Exception {
        try (SiteManager manager = new SiteManager(settings(0, 0, 0))) {
            Registration one = new Registration(settings(8080, server.port(), manager.port()), "bid");
            one.awaitWarm();
            assertEquals("every other auction has something on the block", (ROUNDS + 1) / 2, bids.get());
            JsonNode warm = shown(manager).path(0);
            assertEquals("WARM", warm.path("state").asText());
            assertEquals(ROUNDS, warm.path("warmth").path("rounds").asInt());
            assertEquals(0, warm.path("warmth").path("failed").asInt());
            one.listens();
            assertEquals("127.0.0.1:8080", awaited(manager, "ACTIVE").path("address").asText());
            one.close();
            assertEquals(0, shown(manager).size());
        }
    }

    @Test
    public void aManagerThatWasStartedAgainKnowsAsMuchAsBefore() throws Exception {
        int port = free();
        Registration one = new Registration(settings(8080, server.port(), port), "bid");
        JsonNode before;
        try (SiteManager manager = new SiteManager(settings(port, 0, 0))) {
            one.awaitWarm();
            one.listens();
            before = awaited(manager, "ACTIVE");
        }
        int asked = bids.get();
        try (SiteManager manager = new SiteManager(settings(port, 0, 0))) {
            assertEquals(before, awaited(manager, "ACTIVE"));
            assertEquals("who lets users in is not warmed", asked, bids.get());
        } finally {
            one.close();
        }
    }

    @Test
    public void whereNobodyAnswersAtThePrivatePortTheServerGoesOnCold() throws Exception {
        try (SiteManager manager = new SiteManager(settings(0, 0, 0))) {
            Registration one = new Registration(settings(8080, free(), manager.port()), "app");
            one.awaitWarm();
            JsonNode warmth = shown(manager).path(0).path("warmth");
            assertEquals(3, warmth.path("rounds").asInt());
            assertEquals("all of them in vain", 3, warmth.path("failed").asInt());
            one.close();
        }
    }

    @Test
    public void withoutAManagerAServerBeginsCold() throws Exception {
        long began = System.nanoTime();
        Registration one = new Registration(settings(8080, server.port(), free()), "bid");
        one.awaitWarm();
        one.close();
        long millis = (System.nanoTime() - began) / 1_000_000;
        assertTrue("waited " + millis + " ms", millis >= 400 && millis < 5_000);
        assertEquals(0, bids.get());
    }

    @Test
    public void aManagerThatHangsIsNoneEither() throws Exception {
        try (ServerSocket hanging = new ServerSocket(0)) {
            long began = System.nanoTime();
            Registration one = new Registration(settings(8080, server.port(), hanging.getLocalPort()), "bid");
            one.awaitWarm();
            long millis = (System.nanoTime() - began) / 1_000_000;
            assertTrue("waited " + millis + " ms", millis >= 400 && millis < 5_000);
        }
    }

    @Test
    public void whatIsNoWordOfAServerIsRefused() throws Exception {
        try (SiteManager manager = new SiteManager(settings(0, 0, 0))) {
            Asking asking = new Asking("127.0.0.1:" + manager.port(), Duration.ofSeconds(5), Duration.ofSeconds(5));
            asking.ask("POST", "/manager/server", Map.of("id", "a", "role", "app", "port", 0, "warmPort", 9080), 400);
            asking.ask("POST", "/manager/server", Map.of("role", "app", "port", 8080, "warmPort", 9080), 400);
            asking.ask("POST", "/manager/server", Map.of("port", "x"), 400);
            asking.ask("DELETE", "/manager/server/a", null, 404);
            assertEquals(0, shown(manager).size());
        }
    }
}
