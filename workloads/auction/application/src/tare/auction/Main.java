package tare.auction;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.data.DataManager;
import tare.auction.register.SiteManager;
import tare.auction.web.Application;

/**
 * The one program of the auction site. What it is, its first argument says; the second is the file of its settings;
 * the others, {@code name=value}, go over those.
 */
public final class Main {
    private static final Logger LOG = LoggerFactory.getLogger(Main.class);
    private static final String ROLES = "app, bid, data, manager, load, check, invariants";

    private Main() {}

    /** Exit code 0: done, or ended by a signal; 1: failed, or something was found; 2: started wrongly. */
    public static void main(String[] arguments) {
        if (arguments.length < 2) {
            System.err.println("usage: auction ROLE SETTINGS [NAME=VALUE ...], with a role of " + ROLES);
            System.exit(2);
        }
        try {
            Settings settings = Settings.read(Path.of(arguments[1]), List.of(arguments).subList(2, arguments.length));
            int code = run(arguments[0], settings);
            if (code >= 0) {
                System.exit(code);
            }
        } catch (IllegalArgumentException mistake) {
            System.err.println(mistake.getMessage());
            System.exit(2);
        } catch (Exception failure) {
            LOG.error("{} ends: {}", Arrays.toString(arguments), failure.toString(), failure);
            System.exit(1);
        }
    }

    /** The exit code; -1 for what goes on until a signal ends it. */
    private static int run(String role, Settings settings) throws Exception {
        switch (role) {
            case "app" -> stay(new Application(settings, false));
            case "bid" -> stay(new Application(settings, true));
            case "data" -> stay(DataManager.serve(settings));
            case "manager" -> stay(new SiteManager(settings));
            case "load" -> DataManager.load(settings);
            case "check" -> {
                return DataManager.check(settings) ? 0 : 1;
            }
            case "invariants" -> {
                return DataManager.invariants(settings) ? 0 : 1;
            }
            default -> throw new IllegalArgumentException("'" + role + "' is no role; known are " + ROLES);
        }
        return 0;
    }

    private static void stay(AutoCloseable service) throws InterruptedException {
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                service.close();
            } catch (Exception late) {
                LOG.warn("not everything ended well: {}", late.toString());
            }
            ended.countDown();
        }));
        System.out.println("ready");
        ended.await();
    }
}
