package tare.auction.web;

import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.live.Prices;
import tare.auction.model.Account;
import tare.auction.sql.Auctions;
import tare.auction.sql.Users;

/**
 * What who warms this server must know of it: as whom to ask, one of forty users whom nobody simulates, and what there is to
 * ask for. It is told only before users are let in; afterwards that user is as it was.
 */
final class Warming {
    private static final Logger LOG = LoggerFactory.getLogger(Warming.class);

    private final Needs needs;
    private Account self;
    private String token;

    /** What this is made of. */
    record Needs(Users users, Sessions sessions, Auctions auctions, Prices prices) {}

    /** What is told. */
    private record Guide(long user, String username, String password, String token, List<Long> auctions) {}

    Warming(Needs needs) {
        this.needs = needs;
    }

    void addTo(Routes routes) {
        routes.open("GET", "/warm", exchange -> exchange.answer(guide()))
                .open("GET", "/warm/auction/*", exchange -> {
                    if (token() == null) {
                        throw new ApiException(410, "the server is warm");
                    }
                    exchange.answer(Map.of("known", needs.prices().latest(exchange.number(0)).isPresent()));
                });
    }

    /** From here on it is told. */
    synchronized void begin() throws SQLException {
        self = needs.users().takeWarmer().orElse(null);
        if (self == null) {
            LOG.warn("the server stays cold: other servers have all users whose task it is to warm it up");
            return;
        }
        token = needs.users().login(self.id(), needs.sessions().token(self.id()));
    }

    private synchronized String token() {
        return token;
    }

    private Guide guide() throws SQLException {
        String given = token();
        if (given == null) {
            throw new ApiException(410, "nobody can warm the server, or it is warm");
        }
        return new Guide(self.id(), self.username(), self.password(), given, needs.auctions().runningIds());
    }

    /** Leaves no trace. Nothing must be under way any more. */
    synchronized void end() throws SQLException {
        if (self != null) {
            token = null;
            needs.users().restore(self.id());
            needs.sessions().forget(self.id());
        }
    }
}
