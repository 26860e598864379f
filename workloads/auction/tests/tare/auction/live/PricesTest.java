package tare.auction.live;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.After;
import org.junit.Test;
import tare.auction.model.HighBid;
import tare.auction.model.States.BiddingState;

public class PricesTest {
    private final ScheduledExecutorService timer = Executors.newScheduledThreadPool(1);
    private final List<HighBid> ended = new ArrayList<>();
    private final AtomicReference<HighBid> last = new AtomicReference<>();
    private final AtomicInteger failures = new AtomicInteger();
    private final Prices prices = new Prices(new Prices.Source() {
        @Override
        public Optional<HighBid> open(long auction) {
            return Optional.empty();
        }

        @Override
        public Optional<HighBid> last(long auction) throws SQLException {
            if (failures.getAndDecrement() > 0) {
                throw new SQLException("the database is away, too");
            }
            return Optional.ofNullable(last.get());
        }

        @Override
        public Optional<HighBid> latest(long item) {
            return ended.stream().filter(bid -> bid.itemId() == item).findFirst();
        }
    }, timer);

    @After
    public void stop() {
        timer.shutdownNow();
    }

    private static HighBid price(long bidding, long item, int count, BiddingState state) {
        return new HighBid(bidding, 1, item, 100 * count, count, state, 50, UUID.randomUUID(), count, count);
    }

    private List<Optional<HighBid>> ask(long item, int count) throws Exception {
        List<Optional<HighBid>> answers = new ArrayList<>();
        prices.next(1, item, count, 60_000, answers::add);
        return answers;
    }

    @Test
    public void anAnswerComesWhenTheCountGrowsBeyondWhatWasSeen() throws Exception {
        prices.heard(price(1, 7, 2, BiddingState.OPEN));
        assertEquals("at once", 2, ask(7, 1).get(0).orElseThrow().bidCount());
        List<Optional<HighBid>> waiting = ask(7, 2);
        assertTrue(waiting.isEmpty());
        assertEquals(1, prices.waiting());
        prices.heard(price(1, 7, 3, BiddingState.OPEN));
        assertEquals(3, waiting.get(0).orElseThrow().bidCount());
        assertEquals(0, prices.waiting());
    }

    @Test
    public void anOlderPriceThatComesLateChangesNothing() throws Exception {
        prices.heard(price(2, 8, 5, BiddingState.OPEN));
        prices.heard(price(2, 8, 4, BiddingState.OPEN));
        prices.heard(price(1, 7, 9, BiddingState.SOLD));
        assertEquals(5, prices.latest(1).orElseThrow().bidCount());
        assertTrue(ask(8, 5).isEmpty());
    }

    @Test
    public void whoMissedTheEndHearsHowItEnded() throws Exception {
        ended.add(price(1, 7, 9, BiddingState.SOLD));
        prices.heard(price(2, 8, 1, BiddingState.OPEN));
        assertEquals(BiddingState.SOLD, ask(7, 3).get(0).orElseThrow().state());
    }

    @Test
    public void theCurrentItemIsTheOneThatIsNotSold() throws Exception {
        List<Optional<HighBid>> answers = new ArrayList<>();
        prices.heard(price(1, 7, 9, BiddingState.SOLD));
        prices.current(1, 60_000, answers::add);
        assertTrue(answers.isEmpty());
        prices.heard(price(2, 8, 1, BiddingState.OPEN));
        assertEquals(8, answers.get(0).orElseThrow().itemId());
    }

    @Test
    public void aWaitEndsWithoutAnAnswerAfterItsTime() throws Exception {
        CountDownLatch ended = new CountDownLatch(1);
        prices.heard(price(1, 7, 1, BiddingState.OPEN));
        prices.next(1, 7, 1, 20, answer -> {
            if (answer.isEmpty()) {
                ended.countDown();
            }
        });
        assertTrue(ended.await(10, TimeUnit.SECONDS));
        assertEquals(0, prices.waiting());
    }

    @Test
    public void whatWasToldWhileNobodyCouldHearIsReadAgain() throws Exception {
        prices.heard(price(1, 7, 2, BiddingState.OPEN));
        List<Optional<HighBid>> waiting = ask(7, 2);
        last.set(price(1, 7, 2, BiddingState.OPEN));
        prices.readAgain(Runnable::run);
        assertTrue("nothing happened meanwhile", waiting.isEmpty());
        last.set(price(1, 7, 4, BiddingState.LASTCALL));
        prices.readAgain(Runnable::run);
        assertEquals(4, waiting.get(0).orElseThrow().bidCount());
        assertEquals(4, prices.latest(1).orElseThrow().bidCount());
    }

    @Test
    public void pricesAreReadAgainUntilTheDatabaseAnswers() throws Exception {
        CountDownLatch answered = new CountDownLatch(1);
        prices.next(1, 7, 1, 60_000, answer -> answered.countDown());
        last.set(price(1, 7, 2, BiddingState.OPEN));
        failures.set(1);
        prices.readAgain(Runnable::run);
        assertEquals(1, answered.getCount());
        assertTrue(answered.await(10, TimeUnit.SECONDS));
    }

    @Test
    public void whoWaitsAtAServerThatGoesIsLetGo() throws Exception {
        prices.heard(price(1, 7, 2, BiddingState.OPEN));
        List<Optional<HighBid>> waiting = ask(7, 2);
        assertEquals(1, prices.release());
        assertEquals(Optional.empty(), waiting.get(0));
        assertEquals(0, prices.waiting());
    }

    @Test
    public void oneThingAfterTheOtherInOrder() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        SerialExecutor turns = new SerialExecutor(threads);
        List<Integer> done = new ArrayList<>();
        CountDownLatch all = new CountDownLatch(1000);
        for (int i = 0; i < 1000; i++) {
            int number = i;
            // A list that is not synchronised: a second thread in it would show.
            turns.execute(() -> {
                done.add(number);
                all.countDown();
            });
        }
        assertTrue(all.await(30, TimeUnit.SECONDS));
        threads.shutdown();
        for (int i = 0; i < 1000; i++) {
            assertEquals(i, (int) done.get(i));
        }
    }
}
