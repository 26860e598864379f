package tare.auction.store;

import java.io.EOFException;
import java.io.IOException;
import java.net.SocketException;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import tare.auction.Settings;

/** As many connections to one Tarantool as were stated, lent for one call each and made when they are first needed. */
final class TarantoolPool implements AutoCloseable {
    /** A place of the pool, with a connection or without. */
    private static final class Place {
        private TarantoolConnection connection;
    }

    private final BlockingQueue<Place> free;
    private final Settings.Address address;
    private final String user;
    private final String password;
    private final int timeoutMillis;
    private volatile boolean closed;

    /** {@code name} is what the settings of this store begin with. */
    TarantoolPool(Settings settings, String name) {
        int size = settings.number(name + ".connections");
        address = settings.address(name + ".address");
        user = settings.text(name + ".user");
        password = settings.text(name + ".password");
        timeoutMillis = settings.number(name + ".answer");
        free = new ArrayBlockingQueue<>(size);
        for (int i = 0; i < size; i++) {
            free.add(new Place());
        }
    }

    /** Calls a stored function. After a connection broke, the next call makes a new one. */
    List<?> call(String function, Object... arguments) throws IOException {
        return call(false, function, arguments);
    }

    /** The same, with all texts of what it returned as bytes. */
    List<?> callRaw(String function, Object... arguments) throws IOException {
        return call(true, function, arguments);
    }

    private List<?> call(boolean raw, String function, Object... arguments) throws IOException {
        Place place = lend();
        try {
            if (place.connection != null) {
                try {
                    return place.connection.call(function, Arrays.asList(arguments), raw);
                } catch (EOFException | SocketException gone) {
                    // The store was started again since. All that is called may be called a second time: what is
                    // written has its key.
                    drop(place);
                }
            }
            place.connection = new TarantoolConnection(address, user, password, timeoutMillis);
            return place.connection.call(function, Arrays.asList(arguments), raw);
        } catch (TarantoolConnection.Refused refused) {
            throw refused;
        } catch (IOException | RuntimeException broken) {
            drop(place);
            throw broken;
        } finally {
            if (closed) {
                drop(place);
            }
            free.add(place);
        }
    }

    private Place lend() throws IOException {
        try {
            Place place = free.poll(timeoutMillis, TimeUnit.MILLISECONDS);
            if (place == null) {
                throw new IOException("all connections to " + address + " are in use");
            }
            return place;
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while waiting for a connection to " + address, interrupted);
        }
    }

    private static void drop(Place place) {
        if (place.connection != null) {
            place.connection.close();
            place.connection = null;
        }
    }

    @Override
    public void close() {
        closed = true;
        free.forEach(TarantoolPool::drop);
    }
}
