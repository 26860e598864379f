package tare.auction.register;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.Settings;
import tare.auction.web.ApiException;
import tare.auction.web.Exchange;
import tare.auction.web.Routes;
import tare.auction.web.Server;

/** Knows which servers the site has, and warms each one before that lets users in. It needs nothing but them. */
public final class SiteManager implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(SiteManager.class);

    private final Register register;
    private final Warmer warmer;
    private final ExecutorService threads;
    private final Server server;

    /** Listens as stated. */
    public SiteManager(Settings settings) throws Exception {
        register = new Register(settings.millis("manager.lease"), System::nanoTime);
        warmer = new Warmer(settings);
        threads = Executors.newFixedThreadPool(settings.number("warm.servers"));
        server = new Server(settings, new Routes(token -> Optional.empty())
                .open("GET", "/healthCheck", exchange -> exchange.answer(Map.of("status", "alive")))
                .open("GET", "/manager/server", exchange -> exchange.answer(Map.of("servers", register.all())))
                .open("POST", "/manager/server", this::hear)
                .open("DELETE", "/manager/server/*", exchange -> {
                    if (!register.leave(exchange.text(0))) {
                        throw new ApiException(404, "there is no server " + exchange.text(0));
                    }
                    exchange.answer(Map.of("id", exchange.text(0)));
                }));
        LOG.info("the manager answers at {}", settings.text("http.listen"));
    }

    /** Where it listens. */
    int port() {
        return server.port();
    }

    private void hear(Exchange exchange) throws Exception {
        Word word = exchange.record(Word.class);
        if (word.mistake() != null) {
            throw new ApiException(400, word.mistake());
        }
        // Where it can be reached, a server need not know: it is where it asks from.
        String host = exchange.host();
        if (register.hear(host, word)) {
            threads.execute(() -> warm(word, Register.at(host, word.warmPort())));
        }
        exchange.answer(register.answer(word.id()).orElseThrow(() -> new ApiException(503, "the register is in motion")));
    }

    private void warm(Word word, String address) {
        if (!register.beginWarming(word.id())) {
            return;
        }
        Warmth warmth = Warmth.NONE;
        try {
            warmth = warmer.warm(word.role(), address, () -> register.waits(word.id()));
        } catch (RuntimeException failure) {
            LOG.warn("{} stays as it is", address, failure);
        } finally {
            register.endWarming(word.id(), warmth);
        }
    }

    @Override
    public void close() {
        threads.shutdownNow();
        server.close();
    }
}
