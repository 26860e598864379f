package tare.auction.web;

import java.util.UUID;
import tare.auction.model.Attendance;
import tare.auction.model.Auction;
import tare.auction.model.Page;
import tare.auction.model.States.AttendanceState;
import tare.auction.model.States.AuctionState;
import tare.auction.sql.Auctions;
import tare.auction.sql.Clock;
import tare.auction.store.EventStore;

/** Auctions, and who is there. */
final class AuctionRoutes {
    private final Auctions auctions;
    private final EventStore events;
    private final Clock clock;
    private final Cache<Long, Auction> cache;

    AuctionRoutes(int kept, Auctions auctions, EventStore events, Clock clock) {
        this.auctions = auctions;
        this.events = events;
        this.clock = clock;
        this.cache = new Cache<>(kept);
    }

    void addTo(Routes routes) {
        routes.route("GET", "/live/auction", exchange ->
                        exchange.answer(views(auctions.running(exchange.page(), exchange.pageSize()))))
                .route("POST", "/live/auction", this::join)
                .route("DELETE", "/live/auction/*", this::leave)
                .route("GET", "/auction", exchange ->
                        exchange.answer(views(auctions.page(exchange.page(), exchange.pageSize()))))
                .route("GET", "/auction/*", exchange -> exchange.answer(auction(exchange.number(0)).view()));
    }

    private static Page<Auction.View> views(Page<Auction> page) {
        return new Page<>(page.totalRecords(), page.page(), page.pageSize(),
                page.results().stream().map(Auction::view).toList());
    }

    private Auction auction(long id) throws Exception {
        // What runs goes on running; anything else is about to change and is read each time.
        Auction found = cache.get(id, () -> auctions.byId(id)).orElseThrow(() -> new ApiException(404, "no such auction"));
        if (found.state() != AuctionState.RUNNING) {
            cache.remove(id);
        }
        return found;
    }

    private void join(Exchange exchange) throws Exception {
        long user = exchange.needNumber("userId");
        if (user != exchange.user()) {
            throw new ApiException(403, "that is somebody else");
        }
        Auction auction = auction(exchange.needNumber("auctionId"));
        if (auction.state() == AuctionState.COMPLETE) {
            throw new ApiException(410, "the auction is over");
        } else if (auction.state() != AuctionState.RUNNING) {
            throw new ApiException(409, "the auction does not run");
        }
        record(exchange, auction.id(), AttendanceState.ATTENDING);
    }

    private void leave(Exchange exchange) throws Exception {
        record(exchange, auction(exchange.number(0)).id(), AttendanceState.LEFT);
    }

    private void record(Exchange exchange, long auction, AttendanceState state) throws Exception {
        Attendance attendance = new Attendance(UUID.randomUUID(), exchange.user(), clock.nowMicros(), auction, state);
        events.addAttendance(attendance);
        exchange.answer(attendance.view());
    }
}
