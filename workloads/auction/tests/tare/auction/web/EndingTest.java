package tare.auction.web;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.junit.Test;

public class EndingTest {
    @Test
    public void whatHangsOrFailsDoesNotKeepTheRest() {
        long began = System.nanoTime();
        Ending ending = new Ending(Duration.ofMillis(300));
        List<String> done = new ArrayList<>();
        assertFalse(ending.step("one that hangs", Duration.ofMillis(200), () -> new CountDownLatch(1).await()));
        assertTrue(ending.step("one that fails", Duration.ofSeconds(60), () -> {
            throw new IOException("gone");
        }));
        assertFalse("no more than is left of the whole", ending.step("another", Duration.ofSeconds(60), () ->
                new CountDownLatch(1).await()));
        assertTrue("the last one has its chance too", ending.step("the last", Duration.ofSeconds(60), () -> done.add("last")));
        assertEquals(List.of("last"), done);
        assertTrue(System.nanoTime() - began < 10_000_000_000L);
    }
}
