package tare.auction.web;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.Json;
import tare.auction.Settings;
import tare.auction.live.Prices;
import tare.auction.model.Account;
import tare.auction.sql.Auctions;
import tare.auction.sql.Users;

/**
 * Uses a server as its users will, before they come, so that nothing that is measured begins with a cold JVM. It is one of
 * forty users whom nobody simulates, asks only what changes nothing, and leaves its own row as it was.
 */
final class Warmer {
    private static final Logger LOG = LoggerFactory.getLogger(Warmer.class);
    private static final int ANSWER_MILLIS = 15_000;
    /** Full images are large; a few are enough. */
    private static final int FULL_IMAGE_EVERY = 20;

    private final int iterations;
    private final Duration within;
    private final Needs needs;
    private final boolean bidsOnly;
    private String base;
    private String token;
    private int failed;

    /** What is needed beyond HTTP. */
    record Needs(Users users, Sessions sessions, Auctions auctions, Prices prices) {}

    Warmer(Settings settings, Needs needs, boolean bidsOnly) {
        this.iterations = settings.number("warm.iterations");
        this.within = settings.millis("warm.within");
        this.needs = needs;
        this.bidsOnly = bidsOnly;
    }

    /** Goes through everything as often as stated, at a port of this machine. A server that fails meanwhile stays cold. */
    void warm(int port) throws Exception {
        if (iterations == 0) {
            return;
        }
        base = "http://127.0.0.1:" + port + "/auction";
        Optional<Account> warmer = needs.users().takeWarmer();
        if (warmer.isEmpty()) {
            LOG.warn("the server stays cold: other servers have all users whose task it is to warm it up");
            return;
        }
        Account self = warmer.get();
        long began = System.nanoTime();
        int done = 0;
        try {
            for (; done < iterations && System.nanoTime() - began < within.toNanos(); done++) {
                once(self, done);
            }
        } finally {
            needs.users().restore(self.id());
            needs.sessions().forget(self.id());
        }
        LOG.info("warmed up {} times of {} in {} ms, {} of them in vain", done, iterations,
                (System.nanoTime() - began) / 1_000_000, failed);
    }

    private void once(Account self, int round) {
        try {
            if (bidsOnly) {
                token = needs.users().login(self.id(), needs.sessions().token(self.id()));
                var running = needs.auctions().runningIds();
                if (!running.isEmpty()) {
                    block(self, running.get(round % running.size()));
                }
            } else {
                tour(self, round);
            }
        } catch (Exception failure) {
            if (failed++ == 0) {
                LOG.warn("the server does not get warm: {}", failure.toString());
            }
        }
    }

    /** What a user of an application server does who only looks. */
    private void tour(Account self, int round) throws Exception {
        Map<String, String> login = Map.of("username", self.username(), "password", self.password());
        token = Json.tree(ask("POST", "/login", login, 201)).path("authToken").asText();
        get("/user/" + self.id());
        JsonNode running = get("/live/auction?page=0&pageSize=5").path("results");
        if (running.isEmpty()) {
            return;
        }
        long auction = running.get(round % running.size()).path("id").asLong();
        get("/auction/" + auction);
        JsonNode items = get("/item/auction/" + auction + "?page=0&pageSize=5").path("results");
        if (!items.isEmpty()) {
            JsonNode item = items.get(round % items.size());
            get("/item/" + item.path("id").asLong());
            JsonNode links = item.path("links");
            if (!links.isEmpty()) {
                String path = links.get(round % links.size()).path("href").asText().replaceFirst("^/auction", "");
                ask("GET", path + "?size=THUMBNAIL", null, 200);
                ask("GET", path + "?size=PREVIEW", null, 200);
                if (round % FULL_IMAGE_EVERY == 0) {
                    ask("GET", path + "?size=FULL", null, 200);
                }
            }
        }
        get("/bid/user/" + self.id() + "?page=0&pageSize=5");
        get("/attendance/user/" + self.id() + "?page=0&pageSize=5");
        get("/item/user/" + self.id() + "/purchased?page=0&pageSize=5");
        block(self, auction);
    }

    /** What is on the block, a long poll that is answered at once, and a bid that is refused for its amount. */
    private void block(Account self, long auction) throws Exception {
        if (needs.prices().latest(auction).isEmpty()) {
            // Nobody runs the auction yet; waiting for that would warm nothing.
            return;
        }
        long item = get("/item/current/auction/" + auction).path("id").asLong();
        get("/bid/auction/" + auction + "/item/" + item + "/count/0");
        ask("POST", "/bid", Map.of("userId", self.id(), "auctionId", auction, "itemId", item, "amount", 0), 400);
    }

    private JsonNode get(String path) throws IOException {
        return Json.tree(ask("GET", path, null, 200));
    }

    private byte[] ask(String method, String path, Object body, int meant) throws IOException {
        HttpURLConnection request = (HttpURLConnection) new URL(base + path).openConnection();
        request.setRequestMethod(method);
        request.setReadTimeout(ANSWER_MILLIS);
        if (token != null) {
            request.setRequestProperty(Routes.TOKEN, token);
        }
        if (body != null) {
            request.setDoOutput(true);
            try (OutputStream out = request.getOutputStream()) {
                out.write(Json.bytes(body));
            }
        }
        int status = request.getResponseCode();
        try (InputStream in = status < 400 ? request.getInputStream() : request.getErrorStream()) {
            byte[] answer = in.readAllBytes();
            if (status != meant) {
                throw new IOException(method + " " + path + " was answered with " + status);
            }
            return answer;
        }
    }
}
