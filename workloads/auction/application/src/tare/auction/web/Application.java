package tare.auction.web;

import java.io.IOException;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.Settings;
import tare.auction.cluster.Cluster;
import tare.auction.data.Sizes;
import tare.auction.live.Auctioneers;
import tare.auction.live.Prices;
import tare.auction.messages.Broker;
import tare.auction.messages.Messages;
import tare.auction.model.HighBid;
import tare.auction.register.Registration;
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

    private final Settings settings;
    private final Database database;
    private final EventStore events;
    private final ImageStore images;
    private final Broker broker;
    private final ExecutorService threads;
    private final ScheduledExecutorService timer;
    private final Prices prices;
    private final Sessions sessions;
    private final Catalogue catalogue;
    private final Routes routes;
    private Auctioneers auctioneers;
    private Cluster cluster;
    private ImageWriter writer;
    private final Registration registration;
    private final Server server;

    /** Connects to everything and listens. With {@code bidsOnly} it runs no auctions and answers what bids need. */
    public Application(Settings settings, boolean bidsOnly) throws Exception {
        this.settings = settings;
        database = new Database(settings);
        events = Stores.events(settings);
        images = Stores.images(settings);
        broker = retried(settings, () -> new Broker(settings));
        threads = Executors.newFixedThreadPool(settings.number("answer.threads"));
        timer = Executors.newScheduledThreadPool(settings.number("timer.threads"));
        HighBids biddings = new HighBids(database);
        Auctions auctions = new Auctions(database);
        Items items = new Items(database);
        Users users = new Users(database);
        Clock clock = Clock.shared(database);
        prices = new Prices(biddings, timer);
        sessions = new Sessions(perUser("tokens"), users::byToken);
        catalogue = new Catalogue(new Catalogue.Sizes(perAuction("items"), perAuction("itemlists"), perAuction("images")),
                items, images);
        broker.listen(new Heard());
        routes = new Routes(sessions);
        BidRoutes bids = new BidRoutes(settings, new BidRoutes.Needs(broker.publisher(), events, prices, auctions,
                catalogue, clock, threads));
        bids.addTo(routes);
        routes.open("GET", "/healthCheck", exchange -> exchange.answer(Map.of("status", "alive")));
        if (!bidsOnly) {
            bids.addHistoryTo(routes);
            Consumer<Messages.Change> changes = broker.changes();
            LongConsumer itemChanged = item -> changes.accept(new Messages.Change(Messages.Kind.ITEM, item));
            new UserRoutes(users, events, clock, sessions,
                    user -> changes.accept(new Messages.Change(Messages.Kind.USER, user))).addTo(routes);
            new AuctionRoutes(perAuction("auctions"), auctions, events, clock).addTo(routes);
            new ItemRoutes(items, catalogue, itemChanged).addTo(routes);
            writer = new ImageWriter(settings, images, item -> {
                catalogue.forget(item);
                itemChanged.accept(item);
            });
            new ImageRoutes(perAuction("thumbnails"), images, writer, items).addTo(routes);
            auctioneers = new Auctioneers(settings, biddings, events, broker, clock, timer);
            cluster = new Cluster(settings, () -> {
                auctions.startDue(clock.nowMicros());
                return auctions.runningIds();
            }, auctioneers::own);
            routes.open("GET", "/live/auction/isMaster", exchange -> exchange.answer(Map.of("isMaster", cluster.isLeader())))
                    .open("GET", "/live/auction/status", exchange -> exchange.answer(status()))
                    .open("GET", "/live/auction/prepareForShutdown", this::prepareForShutdown)
                    .open("GET", "/live/auction/release", exchange ->
                            exchange.answer(Map.of("released", prices.release())));
        }
        registration = new Registration(settings, bidsOnly ? "bid" : "app");
        server = listening(new Warming(new Warming.Needs(users, sessions, auctions, prices)));
        registration.listens();
        LOG.info("{} answers at {}", bidsOnly ? "the bid service" : "the application server " + cluster.name(),
                settings.text("http.listen"));
    }

    /** Lets users in when the manager says that this server is warm. */
    private Server listening(Warming warming) throws Exception {
        warming.addTo(routes);
        return new Server(settings, routes, new Server.WarmUp() {
            @Override
            public void answering() throws Exception {
                warming.begin();
                registration.awaitWarm();
            }

            @Override
            public void silent() throws SQLException {
                warming.end();
            }
        });
    }

    /** The size of a cache that is stated as a multiple of the users that the site is made for. */
    private int perUser(String cache) {
        return settings.number("cache." + cache + ".per.user") * settings.number("data.users");
    }

    /** The size of a cache that is stated as a multiple of the auctions that run. */
    private int perAuction(String cache) {
        return settings.number("cache." + cache + ".per.auction") * Sizes.of(settings).currentAuctions();
    }

    /** What this server does with what all are told. */
    private final class Heard implements Broker.Listener {
        @Override
        public void price(HighBid price) {
            prices.heard(price);
        }

        @Override
        public void change(Messages.Change change) {
            boolean all = change.id() == Messages.Change.ALL;
            switch (change.kind()) {
                case USER -> {
                    if (all) {
                        sessions.forgetAll();
                    } else {
                        sessions.forget(change.id());
                    }
                }
                case ITEM -> {
                    if (all) {
                        catalogue.forgetAll();
                    } else {
                        catalogue.forget(change.id());
                    }
                }
            }
        }

        @Override
        public void missed() {
            sessions.forgetAll();
            catalogue.forgetAll();
            prices.readAgain(threads);
        }
    }

    /** What operators want to know of this server. */
    private record Status(String node, boolean leader, Set<String> members, Set<Long> auctions, int waiting) {}

    private Status status() {
        return new Status(cluster.name(), cluster.isLeader(), cluster.members(), auctioneers.owned(), prices.waiting());
    }

    /** Gives this server's auctions back and answers when others have them. It goes on answering what it is asked. */
    private void prepareForShutdown(Exchange exchange) throws Exception {
        Duration within = settings.millis("stop.prepare");
        cluster.leave();
        auctioneers.letGo(within);
        if (!cluster.awaitTaken(within)) {
            throw new ApiException(503, "nobody has taken this server's auctions over");
        }
        prices.release();
        exchange.answer(Map.of("node", cluster.name(), "status", "prepared"));
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

    /**
     * Ends within {@code stop.within}, also when nothing of what this server uses is there any more. Auctions go first:
     * the others must not find them held by who has left.
     */
    @Override
    public void close() {
        Ending ending = new Ending(settings.millis("stop.within"));
        if (cluster != null) {
            ending.step("membership", Duration.ofMillis(1500), cluster::leave);
            Duration decided = Duration.ofMillis(2000);
            ending.step("the auctions", decided, () -> auctioneers.letGo(decided));
            auctioneers.close();
            ending.step("the session", Duration.ofMillis(500), cluster::close);
        }
        prices.release();
        ending.step("the registration", Duration.ofMillis(500), registration::close);
        ending.step("the listening", Duration.ofMillis(2000), server::close);
        if (writer != null) {
            ending.step("the writing of images", Duration.ofMillis(2000), writer::close);
        }
        timer.shutdownNow();
        threads.shutdownNow();
        ending.step("the connections", Duration.ofMillis(1000), () -> {
            broker.close();
            events.close();
            images.close();
            database.close();
        });
    }
}
