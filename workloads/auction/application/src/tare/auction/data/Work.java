package tare.auction.data;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;

/** Does a stage of work in parts, on as many threads as were stated, and tells how far it is. */
final class Work implements AutoCloseable {
    private static final long TELL_NANOS = 5_000_000_000L;

    private final ExecutorService threads;
    private final long began = System.nanoTime();

    Work(int count) {
        threads = Executors.newFixedThreadPool(count);
    }

    /** Does one part: the units {@code from} to {@code to}, both of them. */
    interface Part {
        void run(int from, int to) throws Exception;
    }

    /** Does the units 1 to {@code units}, {@code size} a part. The first part that fails ends it. */
    void stage(String name, int units, int size, Part part) throws Exception {
        AtomicLong done = new AtomicLong();
        AtomicLong told = new AtomicLong(System.nanoTime());
        List<Future<?>> parts = new ArrayList<>();
        for (int from = 1; from <= units; from += size) {
            int first = from;
            int last = Math.min(units, from + size - 1);
            parts.add(threads.submit(() -> {
                part.run(first, last);
                long now = done.addAndGet(last - first + 1);
                long before = told.get();
                if (System.nanoTime() - before > TELL_NANOS && told.compareAndSet(before, System.nanoTime())) {
                    tell(name, now, units);
                }
                return null;
            }));
        }
        try {
            for (Future<?> one : parts) {
                one.get();
            }
        } catch (ExecutionException failure) {
            parts.forEach(one -> one.cancel(true));
            throw failure.getCause() instanceof Exception cause ? cause : failure;
        }
        tell(name, units, units);
    }

    private void tell(String name, long done, long of) {
        System.err.printf("%6.1f s  %s %d of %d%n", (System.nanoTime() - began) / 1e9, name, done, of);
    }

    @Override
    public void close() {
        threads.shutdownNow();
    }
}
