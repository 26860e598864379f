package tare.auction.cluster;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.stream.LongStream;
import org.junit.Test;

public class AssignmentTest {
    private static List<Long> auctions(int count) {
        return LongStream.rangeClosed(1, count).boxed().toList();
    }

    /** Every auction has one owner, no owner two more than another. */
    private static void holds(SortedMap<String, Set<Long>> shared, List<Long> auctions) {
        Set<Long> all = new TreeSet<>();
        shared.values().forEach(own -> own.forEach(id -> assertTrue("twice: " + id, all.add(id))));
        assertEquals(new TreeSet<>(auctions), all);
        var sizes = shared.values().stream().mapToInt(Set::size).summaryStatistics();
        assertTrue(shared.toString(), sizes.getMax() - sizes.getMin() <= 1);
    }

    @Test
    public void auctionsAreSharedEvenly() {
        holds(Assignment.share(List.of("a", "b", "c"), auctions(20), Map.of()), auctions(20));
        assertTrue(Assignment.share(List.of(), auctions(3), Map.of()).isEmpty());
    }

    @Test
    public void whatADeadServerHadMovesAndTheRestStays() {
        var before = Assignment.share(List.of("a", "b"), auctions(10), Map.of());
        var after = Assignment.share(List.of("b"), auctions(10), before);
        holds(after, auctions(10));
        assertTrue(after.get("b").containsAll(before.get("b")));
    }

    @Test
    public void aNewServerGetsItsShareAndNoMoreMoves() {
        SplittableRandom random = new SplittableRandom(7);
        for (int round = 0; round < 200; round++) {
            int count = 1 + random.nextInt(60);
            var before = Assignment.share(List.of("a", "b", "c"), auctions(count), Map.of());
            var after = Assignment.share(List.of("a", "b", "c", "d"), auctions(count), before);
            holds(after, auctions(count));
            long moved = after.entrySet().stream()
                    .mapToLong(own -> own.getValue().stream().filter(id -> !before.getOrDefault(own.getKey(), Set.of())
                            .contains(id)).count()).sum();
            assertEquals("only what the new one runs moves", after.get("d").size(), moved);
        }
    }

    @Test
    public void aSecondLookChangesNothing() {
        var before = Assignment.share(List.of("a", "b", "c"), auctions(17), Map.of());
        assertEquals(before, Assignment.share(List.of("a", "b", "c"), auctions(17), before));
    }
}
