package tare.auction.live;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.Executor;

/** Does one thing after the other, in the order in which they came, on the threads of another executor. */
public final class SerialExecutor implements Executor {
    private final Queue<Runnable> waiting = new ArrayDeque<>();
    private final Executor threads;
    private boolean busy;

    /** Borrows threads of {@code threads}, one at a time. */
    public SerialExecutor(Executor threads) {
        this.threads = threads;
    }

    @Override
    public synchronized void execute(Runnable task) {
        waiting.add(task);
        if (!busy) {
            busy = true;
            threads.execute(this::next);
        }
    }

    /** One task a turn, so that a busy auction does not keep a thread from the others. */
    private void next() {
        Runnable task;
        synchronized (this) {
            task = waiting.poll();
        }
        try {
            task.run();
        } finally {
            synchronized (this) {
                if (waiting.isEmpty()) {
                    busy = false;
                } else {
                    threads.execute(this::next);
                }
            }
        }
    }
}
