package tare.auction.web;

import java.time.Duration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Ends one thing after the other within a time that is stated, whatever hangs: what does not end in its part of it is left
 * where it is, and the process ends without it.
 */
final class Ending {
    private static final Logger LOG = LoggerFactory.getLogger(Ending.class);
    /** What even the last step gets, when those before it took everything. */
    private static final long LEAST_MILLIS = 100;

    private final long end;

    Ending(Duration within) {
        end = System.nanoTime() + within.toNanos();
    }

    /** What ends something. */
    interface Step {
        void run() throws Exception;
    }

    /** Does one step; whether it ended by itself within {@code most} and within what is left of the whole time. */
    boolean step(String what, Duration most, Step step) {
        Thread thread = new Thread(() -> {
            try {
                step.run();
            } catch (Exception failure) {
                LOG.warn("{} did not end well: {}", what, failure.toString());
            }
        }, "end of " + what);
        thread.setDaemon(true);
        thread.start();
        long left = Math.min(most.toMillis(), (end - System.nanoTime()) / 1_000_000);
        try {
            thread.join(Math.max(LEAST_MILLIS, left));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        if (thread.isAlive()) {
            LOG.warn("{} did not end in time; the process ends without", what);
            thread.interrupt();
            return false;
        }
        return true;
    }
}
