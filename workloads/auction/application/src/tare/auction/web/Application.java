package tare.auction.web;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.Settings;
import tare.auction.cluster.Cluster;
import tare.auction.live.Auctioneers;
import tare.auction.live.Prices;
import tare.auction.messages.Broker;
import tare.auction.sql.Auctions;
import tare.auction.sql.Clock;
import tare.auction.sql.Database;
import tare.auction.sql.HighBids;
import tare.auction.sql.Items;
import tare.auction.sql.Users;
import tare.auction.store.EventStore;
import tare.auction.store.ImageStore;
import tare.auction.store.Stores;

/** An application server, or only the part of it that bids need: everything is put together here. */
public final class Application implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Application.class);

    private final Database database;
    private final EventStore events;
    private final ImageStore images;
    private final Broker broker;
    private final ExecutorService threads;
    private final ScheduledExecutorService timer;
    private final Prices prices;
    private Auctioneers auctioneers;
    private Cluster cluster;
    private ImageWriter writer;
    private final Server server;

    /** Connects to everything and listens. With {@code bidsOnly} it runs no auctions and answers what bids need. */
    public Application(Settings settings, boolean bidsOnly) throws Exception {
        database = new Database(settings);
        events = Stores.events(settings);
        images = Stores.images(settings);
        broker = retried(settings, () -> new Broker(settings));
        threads = Executors.newFixedThreadPool(settings.number("answer.threads"));
        timer = Executors.newScheduledThreadPool(settings.number("timer.threads"));
        HighBids biddings = new HighBids(database);
        Auctions auctions = new Auctions(database);
        Items items = new Items(database);
        Clock clock = Clock.shared(database);
        prices = new Prices(biddings, timer);
        broker.listen(prices::heard);
        UserRoutes users = new UserRoutes(settings, new Users(database), events, clock);
        Routes routes = new Routes(users);
        BidRoutes bids = new BidRoutes(settings, new BidRoutes.Needs(broker.publisher(), events, images, prices,
                auctions, items, clock, threads));
        bids.addTo(routes);
        routes.open("GET", "/healthCheck", exchange -> exchange.answer(Map.of("status", "alive")));
        if (!bidsOnly) {
            bids.addHistoryTo(routes);
            users.addTo(routes);
            new AuctionRoutes(settings, auctions, events, clock).addTo(routes);
            new ItemRoutes(items, images).addTo(routes);
            writer = new ImageWriter(settings, images);
            new ImageRoutes(settings, images, writer, items).addTo(routes);
            auctioneers = new Auctioneers(settings, biddings, events, broker, clock, timer);
            cluster = new Cluster(settings, () -> {
                auctions.startDue(clock.nowMicros());
                return auctions.runningIds();
            }, auctioneers::own);
            routes.open("GET", "/live/auction/isMaster", exchange -> exchange.answer(Map.of("isMaster", cluster.isLeader())))
                    .open("GET", "/live/auction/status", exchange -> exchange.answer(status()))
                    .open("POST", "/live/auction/release", exchange -> {
                        cluster.close();
                        auctioneers.own(java.util.Set.of());
                        exchange.answer(Map.of("released", true));
                    });
        }
        server = new Server(settings, routes);
        LOG.info("{} answers at {}", bidsOnly ? "the bid service" : "the application server " + cluster.name(),
                settings.text("http.listen"));
    }

    /** What operators want to know of this server. */
    private record Status(String node, boolean leader, java.util.Set<String> members, java.util.Set<Long> auctions,
            int waiting) {}

    private Status status() {
        return new Status(cluster.name(), cluster.isLeader(), cluster.members(), auctioneers.owned(), prices.waiting());
    }

    private interface Attempt<T> {
        T make() throws IOException;
    }

    /** A server that is still starting is asked again. */
    private static <T> T retried(Settings settings, Attempt<T> attempt) throws IOException, InterruptedException {
        long end = System.nanoTime() + settings.millis("start.within").toNanos();
        while (true) {
            try {
                return attempt.make();
            } catch (IOException failure) {
                if (System.nanoTime() > end) {
                    throw failure;
                }
                Thread.sleep(500);
            }
        }
    }

    @Override
    public void close() {
        server.close();
        if (cluster != null) {
            // Auctions first: the others must not find them held by who has left.
            auctioneers.close();
            cluster.close();
            writer.close();
        }
        timer.shutdownNow();
        threads.shutdownNow();
        broker.close();
        events.close();
        images.close();
        database.close();
    }
}
