package tare.auction.register;

import java.io.IOException;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.Json;
import tare.auction.Settings;

/** This server with the manager: it says again and again that it is there, and before it lets users in, waits to be warm. */
public final class Registration implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Registration.class);

    private final String id = UUID.randomUUID().toString();
    private final long since = System.currentTimeMillis();
    private final String role;
    private final int port;
    private final int warmPort;
    private final Asking manager;
    private final Duration poll;
    private final Duration beat;
    private final Duration away;
    private final Duration most;
    private final ScheduledExecutorService beats = Executors.newSingleThreadScheduledExecutor();
    private Warmth warmth;
    private boolean missed;

    /** Tells nothing yet. */
    public Registration(Settings settings, String role) {
        this.role = role;
        port = settings.address("http.listen").port();
        warmPort = settings.address("warm.listen").port();
        Duration answer = settings.millis("manager.answer");
        manager = new Asking(settings.address("manager.address").toString(), answer, answer);
        poll = settings.millis("manager.poll");
        beat = settings.millis("manager.beat");
        away = settings.millis("manager.away");
        most = settings.millis("warm.within").plus(away);
    }

    /**
     * Returns when the manager says that this server is warm. If it cannot be reached for the stated time, or does not
     * come to an end in its own, the server goes on without: a cold server is better than none.
     */
    public void awaitWarm() throws InterruptedException {
        long began = System.nanoTime();
        long heard = began;
        while (true) {
            try {
                Word.Answer answer = say(false);
                heard = System.nanoTime();
                if (answer.state() == State.WARM) {
                    warmth = answer.warmth();
                    LOG.info("warmed {} times in {} ms, {} of them in vain", warmth.rounds(), warmth.millis(),
                            warmth.failed());
                    return;
                }
            } catch (IOException failure) {
                if (System.nanoTime() - heard > away.toNanos()) {
                    LOG.warn("begins without being warm: the manager did not answer for {} ms: {}", away.toMillis(),
                            failure.toString());
                    return;
                }
            }
            if (System.nanoTime() - began > most.toNanos()) {
                LOG.warn("begins without being warm: the manager did not come to an end within {} ms", most.toMillis());
                return;
            }
            Thread.sleep(poll.toMillis());
        }
    }

    /** Says from now on that users are let in. */
    public void listens() {
        beats.scheduleWithFixedDelay(this::beat, 0, beat.toMillis(), TimeUnit.MILLISECONDS);
    }

    private void beat() {
        try {
            say(true);
            if (missed) {
                LOG.info("the manager answers again");
            }
            missed = false;
        } catch (IOException | RuntimeException failure) {
            if (!missed) {
                LOG.warn("the manager does not answer; this server goes on without: {}", failure.toString());
            }
            missed = true;
        }
    }

    private Word.Answer say(boolean listening) throws IOException {
        Word word = new Word(id, role, port, warmPort, since, listening, warmth);
        return Json.read(manager.ask("POST", "/manager/server", word, 200), Word.Answer.class);
    }

    /** Says that this server goes. A manager that does not answer finds out by itself. */
    @Override
    public void close() {
        beats.shutdownNow();
        try {
            beats.awaitTermination(beat.toMillis(), TimeUnit.MILLISECONDS);
            manager.ask("DELETE", "/manager/server/" + id, null, 200);
        } catch (IOException gone) {
            LOG.info("the manager did not hear that this server goes: {}", gone.toString());
        } catch (InterruptedException late) {
            Thread.currentThread().interrupt();
        }
    }
}
