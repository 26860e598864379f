package tare.auction.cluster;

import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;

/** Who runs which auction. A pure function, so that what a leader does is tested without one. */
final class Assignment {
    private Assignment() {}

    /**
     * Shares {@code auctions} among {@code nodes} so that no two nodes differ by more than one. Of {@code before} as
     * much stays as that allows: an auction that moves stands still for a moment.
     */
    static SortedMap<String, Set<Long>> share(Collection<String> nodes, Collection<Long> auctions,
            Map<String, Set<Long>> before) {
        SortedMap<String, Set<Long>> shared = new TreeMap<>();
        if (nodes.isEmpty()) {
            return shared;
        }
        Set<Long> without = new TreeSet<>(auctions);
        for (String node : nodes) {
            Set<Long> kept = new TreeSet<>(before.getOrDefault(node, Set.of()));
            kept.retainAll(without);
            without.removeAll(kept);
            shared.put(node, kept);
        }
        Deque<Long> waiting = new ArrayDeque<>(without);
        int least = auctions.size() / nodes.size();
        // Who has too many gives the last ones away; as many nodes may have one more as the division leaves over.
        int more = new HashSet<>(auctions).size() % nodes.size();
        for (Set<Long> kept : byLoad(shared).descendingSet().stream().map(Map.Entry::getValue).toList()) {
            int most = more > 0 && kept.size() > least ? least + 1 : least;
            more -= most > least ? 1 : 0;
            while (kept.size() > most) {
                Long last = ((TreeSet<Long>) kept).last();
                kept.remove(last);
                waiting.add(last);
            }
        }
        while (!waiting.isEmpty()) {
            byLoad(shared).first().getValue().add(waiting.poll());
        }
        return shared;
    }

    private static TreeSet<Map.Entry<String, Set<Long>>> byLoad(SortedMap<String, Set<Long>> shared) {
        Comparator<Map.Entry<String, Set<Long>>> order = Comparator.comparingInt(entry -> entry.getValue().size());
        TreeSet<Map.Entry<String, Set<Long>>> sorted = new TreeSet<>(order.thenComparing(Map.Entry::getKey));
        sorted.addAll(shared.entrySet());
        return sorted;
    }
}
