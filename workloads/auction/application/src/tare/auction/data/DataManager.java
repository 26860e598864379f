package tare.auction.data;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.Settings;
import tare.auction.sql.Database;
import tare.auction.store.EventStore;
import tare.auction.store.ImageStore;
import tare.auction.store.Stores;
import tare.auction.web.Routes;
import tare.auction.web.Server;

/** Loads the data, checks them, and looks after a run whether what must hold does. */
public final class DataManager {
    private static final Logger LOG = LoggerFactory.getLogger(DataManager.class);

    private DataManager() {}

    /** What is done with all stores open. */
    private interface Task<T> {
        T with(Sizes sizes, Database database, EventStore events, ImageStore images) throws Exception;
    }

    private static <T> T open(Settings settings, Task<T> task) throws Exception {
        try (Database database = new Database(settings);
                EventStore events = Stores.events(settings);
                ImageStore images = Stores.images(settings)) {
            return task.with(Sizes.of(settings), database, events, images);
        }
    }

    /** What was loaded, as it is written down when all of it is there. */
    private record Loaded(Sizes sizes, boolean images) {}

    /** Loads everything, unless it is there: then it must be what is wanted now, and is made as good as just loaded. */
    public static void load(Settings settings) throws Exception {
        open(settings, (sizes, database, events, images) -> {
            Loaded wanted = new Loaded(sizes, settings.text("data.images").equals("true"));
            Optional<Loaded> there = loaded(database);
            if (there.isPresent()) {
                if (!there.get().equals(wanted)) {
                    throw new IllegalArgumentException("there are data for " + there.get() + ", not for " + wanted);
                }
                Preparer preparer = new Preparer(settings, sizes, database, events, images);
                if (preparer.used()) {
                    LOG.info("the data are there, and in use");
                } else {
                    preparer.prepare();
                    LOG.info("the data are there");
                }
                return null;
            }
            new Loader(settings, sizes, database, events, images).load();
            List<String> wrong = new Checker(settings, sizes, database, events, images).check();
            if (!wrong.isEmpty()) {
                throw new IllegalStateException("what was loaded is not what was meant: " + wrong);
            }
            // From here on it counts as loaded.
            database.update("INSERT INTO dbbenchmarkinfo (maxusers, history, seed, imagestoretype, images)"
                    + " VALUES (?, ?, ?, ?, ?)", sizes.maxUsers(), sizes.history(), sizes.seed(),
                    settings.text("images.store"), wanted.images());
            database.update("ANALYZE");
            database.update("CHECKPOINT");
            return null;
        });
    }

    private static Optional<Loaded> loaded(Database database) throws Exception {
        if (database.count("SELECT count(*) FROM pg_tables WHERE tablename = 'dbbenchmarkinfo'") == 0) {
            return Optional.empty();
        }
        return database.first(row -> new Loaded(new Sizes(row.getInt(1), row.getDouble(2), row.getLong(3)), row.getBoolean(4)),
                "SELECT maxusers, history, seed, images FROM dbbenchmarkinfo");
    }

    /** Whether the data are what the generator makes; what is not, is told on standard error. */
    public static boolean check(Settings settings) throws Exception {
        List<String> wrong = open(settings, (sizes, database, events, images) ->
                new Checker(settings, sizes, database, events, images).check());
        wrong.forEach(System.err::println);
        return wrong.isEmpty();
    }

    /** Whether all invariants hold; those that do not are told on standard output, one a line. */
    public static boolean invariants(Settings settings) throws Exception {
        Invariants.Report report = look(settings);
        report.counts().forEach((what, count) -> System.err.println(what + ": " + count));
        report.violations().forEach(violation -> System.out.println("violated: " + violation));
        return report.violations().isEmpty();
    }

    private static Invariants.Report look(Settings settings) throws Exception {
        return open(settings, (sizes, database, events, images) ->
                new Invariants(settings, sizes, database, events, images).check());
    }

    /** Loads, and then answers for the data: whether they are there, and on demand whether the invariants hold. */
    public static Server serve(Settings settings) throws Exception {
        load(settings);
        Routes routes = new Routes(token -> Optional.empty())
                .open("GET", "/healthCheck", exchange -> exchange.answer(Map.of("status", "alive")))
                .open("GET", "/data/invariants", exchange -> {
                    Invariants.Report report = look(settings);
                    exchange.answer(report.violations().isEmpty() ? 200 : 409, report);
                });
        return new Server(settings, routes);
    }
}
