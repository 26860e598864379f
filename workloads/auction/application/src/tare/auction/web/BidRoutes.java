package tare.auction.web;

import java.math.BigDecimal;
import java.sql.SQLException;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import tare.auction.Money;
import tare.auction.Settings;
import tare.auction.live.Prices;
import tare.auction.messages.BidPublisher;
import tare.auction.model.Bid;
import tare.auction.model.HighBid;
import tare.auction.model.Page;
import tare.auction.model.States.AuctionState;
import tare.auction.model.States.BidState;
import tare.auction.sql.Auctions;
import tare.auction.sql.Clock;
import tare.auction.store.EventStore;

/** Bids, what is on the block, and waiting for the next price: what a bid service answers, and an application server. */
final class BidRoutes {
    private final BidPublisher publisher;
    private final EventStore events;
    private final Prices prices;
    private final Auctions auctions;
    private final Catalogue catalogue;
    private final Clock clock;
    private final Executor threads;
    private final long nextBidMillis;
    private final long currentItemMillis;

    /** What bids need. {@code threads} do what follows after a message server or an auctioneer answered. */
    record Needs(BidPublisher publisher, EventStore events, Prices prices, Auctions auctions, Catalogue catalogue,
            Clock clock, Executor threads) {}

    BidRoutes(Settings settings, Needs needs) {
        publisher = needs.publisher();
        events = needs.events();
        prices = needs.prices();
        auctions = needs.auctions();
        catalogue = needs.catalogue();
        clock = needs.clock();
        threads = needs.threads();
        nextBidMillis = settings.longNumber("wait.nextbid");
        currentItemMillis = settings.longNumber("wait.currentitem");
    }

    void addTo(Routes routes) {
        routes.route("POST", "/bid", this::bid)
                .route("GET", "/bid/auction/*/item/*/count/*", this::nextBid)
                .route("GET", "/item/current/auction/*", this::currentItem);
    }

    /** The histories, which are an application server's only. */
    void addHistoryTo(Routes routes) {
        routes.route("GET", "/bid/user/*", exchange -> {
            Page<Bid> page = events.bidsOf(UserRoutes.own(exchange), exchange.page(), exchange.pageSize());
            List<Bid.View> views = page.results().stream().map(Bid::view).toList();
            exchange.answer(new Page<>(page.totalRecords(), page.page(), page.pageSize(), views));
        });
    }

    /**
     * Accepts a bid. It is answered for when RabbitMQ has it on disk and the event store has a line of it: after that
     * it is decided, whatever server goes down.
     */
    private void bid(Exchange exchange) throws Exception {
        if (exchange.needNumber("userId") != exchange.user()) {
            throw new ApiException(403, "that is somebody else");
        }
        BigDecimal amount = exchange.amount("amount");
        if (amount == null || amount.signum() <= 0 || amount.compareTo(BigDecimal.valueOf(1_000_000_000)) > 0) {
            throw new ApiException(400, "amount is missing, or is no amount");
        }
        Bid bid = new Bid(UUID.randomUUID(), exchange.user(), clock.nowMicros(), exchange.needNumber("auctionId"),
                exchange.needNumber("itemId"), Money.cents(amount), BidState.ACCEPTED, 0, 0);
        exchange.later();
        publisher.publish(bid).whenCompleteAsync((nothing, failure) -> Exchange.orRefuse(exchange, accepted -> {
            if (failure != null) {
                Throwable cause = failure instanceof CompletionException ? failure.getCause() : failure;
                throw new ApiException(503, cause.getMessage());
            }
            events.addBid(bid);
            accepted.answer(201, bid.view());
        }), threads);
    }

    private void nextBid(Exchange exchange) throws Exception {
        long auction = exchange.number(0);
        int count = (int) Math.min(exchange.number(2), Integer.MAX_VALUE);
        refuseIfOver(auction);
        exchange.later();
        prices.next(auction, exchange.number(1), count, nextBidMillis, answered(exchange, found -> found.view()));
    }

    private void currentItem(Exchange exchange) throws Exception {
        long auction = exchange.number(0);
        refuseIfOver(auction);
        exchange.later();
        prices.current(auction, currentItemMillis, answered(exchange, found ->
                catalogue.item(found.itemId()).orElseThrow(() -> new ApiException(410, "the item is gone"))));
    }

    /** An auction of which prices are known runs; of others the database is asked. */
    private void refuseIfOver(long auction) throws SQLException {
        if (prices.latest(auction).isPresent()) {
            return;
        }
        AuctionState state = auctions.byId(auction).orElseThrow(() -> new ApiException(404, "no such auction")).state();
        if (state != AuctionState.RUNNING) {
            throw new ApiException(410, "the auction does not run");
        }
    }

    /** What is answered for a price. */
    private interface Answer {
        Object of(HighBid found) throws Exception;
    }

    private java.util.function.Consumer<Optional<HighBid>> answered(Exchange exchange, Answer answer) {
        return found -> threads.execute(() -> Exchange.orRefuse(exchange, waiting -> waiting.answer(
                answer.of(found.orElseThrow(() -> new ApiException(408, "nothing happened"))))));
    }
}
