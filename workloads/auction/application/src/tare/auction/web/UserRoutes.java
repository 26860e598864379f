package tare.auction.web;

import java.security.SecureRandom;
import java.sql.SQLException;
import java.util.HexFormat;
import java.util.Optional;
import java.util.UUID;
import tare.auction.Settings;
import tare.auction.model.Account;
import tare.auction.model.Attendance;
import tare.auction.model.States.AttendanceState;
import tare.auction.sql.Clock;
import tare.auction.sql.Users;
import tare.auction.store.EventStore;

/** Coming, going and who one is. */
final class UserRoutes implements Routes.Tokens {
    private static final int TOKEN_BYTES = 16;
    private static final long CREDIT_OF_NEW_USERS = 1_000_000_00;

    private final Users users;
    private final EventStore events;
    private final Clock clock;
    private final Cache<String, Long> tokens;
    private final SecureRandom random = new SecureRandom();

    UserRoutes(Settings settings, Users users, EventStore events, Clock clock) {
        this.users = users;
        this.events = events;
        this.clock = clock;
        this.tokens = new Cache<>(settings.number("cache.tokens"));
    }

    void addTo(Routes routes) {
        routes.open("POST", "/login", this::login)
                .route("GET", "/logout", this::logout)
                .open("POST", "/user", this::register)
                .route("GET", "/user/*", this::show)
                .route("PUT", "/user/*", this::change)
                .route("GET", "/attendance/user/*", exchange -> {
                    var page = events.attendanceOf(own(exchange), exchange.page(), exchange.pageSize());
                    exchange.answer(new tare.auction.model.Page<>(page.totalRecords(), page.page(), page.pageSize(),
                            page.results().stream().map(Attendance::view).toList()));
                });
    }

    @Override
    public Optional<Long> user(String token) throws Exception {
        return tokens.get(token, () -> users.byToken(token));
    }

    /** Who a path is about, if that is who asks. */
    static long own(Exchange exchange) {
        long id = exchange.number(0);
        if (id != exchange.user()) {
            throw new ApiException(403, "that is somebody else's");
        }
        return id;
    }

    private record LoggedIn(long id, String authToken, String username) {}

    private void login(Exchange exchange) throws Exception {
        Account account = users.byName(String.valueOf(exchange.string("username")))
                .filter(found -> found.enabled())
                .orElseThrow(() -> new ApiException(401, "no such user, or another password"));
        // Compared as it is: a hash that is made to be slow would be most of what a login costs.
        if (!account.password().equals(exchange.string("password"))) {
            throw new ApiException(401, "no such user, or another password");
        }
        byte[] bytes = new byte[TOKEN_BYTES];
        random.nextBytes(bytes);
        String token = HexFormat.of().formatHex(bytes);
        users.login(account.id(), token);
        tokens.put(token, account.id());
        exchange.answer(201, new LoggedIn(account.id(), token, account.username()));
    }

    private void logout(Exchange exchange) throws Exception {
        tokens.remove(exchange.request().getHeader("API_TOKEN"));
        users.logout(exchange.user());
        // Auction 0: not one auction was left but all of them.
        events.addAttendance(new Attendance(UUID.randomUUID(), exchange.user(), clock.nowMicros(), 0, AttendanceState.LEFT));
        exchange.answer(java.util.Map.of("id", exchange.user()));
    }

    private void register(Exchange exchange) throws Exception {
        String name = exchange.string("username");
        String password = exchange.string("password");
        if (name == null || name.isBlank() || password == null || !password.equals(exchange.string("repeatPassword"))) {
            throw new ApiException(400, "a name is needed, and the same password twice");
        }
        Account added = users.register(name, password, orEmpty(exchange.string("firstname")),
                orEmpty(exchange.string("lastname")), CREDIT_OF_NEW_USERS)
                .orElseThrow(() -> new ApiException(409, "there is such a user"));
        exchange.answer(201, added.profile());
    }

    private void show(Exchange exchange) throws SQLException {
        exchange.answer(users.byId(own(exchange)).orElseThrow(() -> new ApiException(404, "no such user")).profile());
    }

    private void change(Exchange exchange) throws Exception {
        exchange.answer(users.change(own(exchange), exchange.string("firstname"), exchange.string("lastname"),
                exchange.string("password")).orElseThrow(() -> new ApiException(404, "no such user")).profile());
    }

    private static String orEmpty(String text) {
        return text == null ? "" : text;
    }
}
