package tare.auction.register;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.function.BooleanSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.Json;
import tare.auction.Settings;

/**
 * Uses servers as their users will, before they come, so that nothing that is measured begins with a cold JVM. It asks as
 * the user that the server names, whom nobody simulates, and only what changes nothing but that user's token.
 */
final class Warmer {
    private static final Logger LOG = LoggerFactory.getLogger(Warmer.class);
    /** Full images are large; a few are enough. */
    private static final int FULL_IMAGE_EVERY = 20;
    /** A server that has not said after so many rounds as whom it is to be asked, never will. */
    private static final int SILENT_MOST = 3;

    private final int iterations;
    private final Duration within;
    private final Duration connect;
    private final Duration answer;

    Warmer(Settings settings) {
        iterations = settings.number("warm.iterations");
        within = settings.millis("warm.within");
        connect = settings.millis("manager.answer");
        answer = settings.millis("warm.answer");
    }

    /** What a server that waits says: as whom it is asked, and which auctions run. */
    record Guide(long user, String username, String password, String token, long[] auctions) {}

    /**
     * Goes through everything that a server of {@code role} is asked, as often as stated, at {@code address}, its private
     * port; for as long as {@code wanted} and no longer than stated. A server that fails meanwhile stays as cold as it is.
     */
    Warmth warm(String role, String address, BooleanSupplier wanted) {
        Asking server = new Asking(address, connect, answer);
        long began = System.nanoTime();
        Guide guide = null;
        int done = 0;
        int failed = 0;
        while (done < iterations && System.nanoTime() - began < within.toNanos() && wanted.getAsBoolean()) {
            try {
                if (guide == null || guide.auctions().length == 0) {
                    guide = Json.read(server.ask("GET", "/warm", null, 200), Guide.class);
                }
                new Round(server, guide, done).go(role);
            } catch (IOException failure) {
                if (failed++ == 0) {
                    LOG.warn("the {} server at {} does not get warm: {}", role, address, failure.toString());
                }
            }
            done++;
            if (guide == null && done == SILENT_MOST) {
                break;
            }
        }
        return new Warmth(done, failed, (System.nanoTime() - began) / 1_000_000);
    }

    private record Round(Asking server, Guide guide, int number) {
        void go(String role) throws IOException {
            server.as(guide.token());
            if (!role.equals("bid")) {
                tour();
            } else if (guide.auctions().length > 0) {
                block(guide.auctions()[number % guide.auctions().length]);
            }
        }

        /** What a user of an application server does who only looks. */
        private void tour() throws IOException {
            Map<String, String> login = Map.of("username", guide.username(), "password", guide.password());
            server.as(Json.tree(server.ask("POST", "/login", login, 201)).path("authToken").asText());
            get("/user/" + guide.user());
            JsonNode running = get("/live/auction?page=0&pageSize=5").path("results");
            if (running.isEmpty()) {
                return;
            }
            long auction = running.get(number % running.size()).path("id").asLong();
            get("/auction/" + auction);
            JsonNode items = get("/item/auction/" + auction + "?page=0&pageSize=5").path("results");
            if (!items.isEmpty()) {
                look(items.get(number % items.size()));
            }
            get("/bid/user/" + guide.user() + "?page=0&pageSize=5");
            get("/attendance/user/" + guide.user() + "?page=0&pageSize=5");
            get("/item/user/" + guide.user() + "/purchased?page=0&pageSize=5");
            block(auction);
        }

        private void look(JsonNode item) throws IOException {
            get("/item/" + item.path("id").asLong());
            JsonNode links = item.path("links");
            if (!links.isEmpty()) {
                String path = links.get(number % links.size()).path("href").asText().replaceFirst("^/auction", "");
                server.ask("GET", path + "?size=THUMBNAIL", null, 200);
                server.ask("GET", path + "?size=PREVIEW", null, 200);
                if (number % FULL_IMAGE_EVERY == 0) {
                    server.ask("GET", path + "?size=FULL", null, 200);
                }
            }
        }

        /** What is on the block, a long poll that is answered at once, and a bid that is refused for its amount. */
        private void block(long auction) throws IOException {
            if (!get("/warm/auction/" + auction).path("known").asBoolean()) {
                // Nobody runs the auction yet; waiting for that would warm nothing.
                return;
            }
            long item = get("/item/current/auction/" + auction).path("id").asLong();
            get("/bid/auction/" + auction + "/item/" + item + "/count/0");
            server.ask("POST", "/bid",
                    Map.of("userId", guide.user(), "auctionId", auction, "itemId", item, "amount", 0), 400);
        }

        private JsonNode get(String path) throws IOException {
            return Json.tree(server.ask("GET", path, null, 200));
        }
    }
}
