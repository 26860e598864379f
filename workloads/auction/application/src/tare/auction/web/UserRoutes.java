package tare.auction.web;

import java.sql.SQLException;
import java.util.UUID;
import java.util.function.LongConsumer;
import tare.auction.model.Account;
import tare.auction.model.Attendance;
import tare.auction.model.States.AttendanceState;
import tare.auction.sql.Clock;
import tare.auction.sql.Users;
import tare.auction.store.EventStore;

/** Coming, going and who one is. */
final class UserRoutes {
    private static final long CREDIT_OF_NEW_USERS = 1_000_000_00;

    private final Users users;
    private final EventStore events;
    private final Clock clock;
    private final Sessions sessions;
    private final LongConsumer tellChanged;

    /** {@code tellChanged} tells all servers of a user whose token is void. */
    UserRoutes(Users users, EventStore events, Clock clock, Sessions sessions, LongConsumer tellChanged) {
        this.users = users;
        this.events = events;
        this.clock = clock;
        this.sessions = sessions;
        this.tellChanged = tellChanged;
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
        String token = users.login(account.id(), sessions.token(account.id()));
        exchange.answer(201, new LoggedIn(account.id(), token, account.username()));
    }

    private void logout(Exchange exchange) throws Exception {
        users.logout(exchange.user());
        sessions.forget(exchange.user());
        tellChanged.accept(exchange.user());
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
