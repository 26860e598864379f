package tare.auction.cluster;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.BoundedExponentialBackoffRetry;
import org.apache.zookeeper.KeeperException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.Settings;

/**
 * This server among the others, by ZooKeeper: it has a number and is a member of the group as long as its session
 * lives; one of all members leads, and the leader writes down who runs which auction. Every member does what is
 * written of it.
 */
public final class Cluster implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Cluster.class);
    private static final String ROOT = "/auction";
    private static final String ASSIGNMENTS = ROOT + "/liveAuctionAssignmentMap";
    private static final String GROUP = ROOT + "/liveAuctionMgmtGroup";
    private static final long LOOK_MILLIS_MOST = 1000;
    private static final int LOOKS_BETWEEN_AUCTIONS = 10;

    private final CuratorFramework zookeeper;
    private final GroupMember group;
    private final LeaderLatch leader;
    private final String name;
    private final ScheduledExecutorService loop = Executors.newSingleThreadScheduledExecutor();
    private final Auctions auctions;
    private final Consumer<Set<Long>> own;
    private Collection<Long> running = List.of();
    private Set<Long> told;
    private int looks;
    private boolean left;
    private volatile boolean connected = true;

    /** Asks which auctions there are to run. */
    public interface Auctions {
        Collection<Long> running() throws Exception;
    }

    /** Joins. {@code own} is told which auctions this server runs, whenever that changes. */
    public Cluster(Settings settings, Auctions auctions, Consumer<Set<Long>> own) throws Exception {
        this.auctions = auctions;
        this.own = own;
        zookeeper = CuratorFrameworkFactory.newClient(
                settings.addresses("cluster.addresses").stream().map(Object::toString).collect(Collectors.joining(",")),
                settings.number("cluster.session"), settings.number("cluster.session"),
                new BoundedExponentialBackoffRetry(100, 2000, 10));
        zookeeper.start();
        if (!zookeeper.blockUntilConnected(settings.number("start.within"), TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("ZooKeeper does not answer");
        }
        // Whose session is lost is no member any more, and what it ran is being given to others.
        zookeeper.getConnectionStateListenable().addListener((client, state) -> {
            connected = state.isConnected();
            if (state == ConnectionState.LOST) {
                LOG.warn("the session with ZooKeeper is lost; all auctions are let go");
            }
        });
        var number = new DistributedAtomicLong(zookeeper, ROOT + "/nodeNumber", new BoundedExponentialBackoffRetry(50, 1000, 20))
                .increment();
        if (!number.succeeded()) {
            throw new IllegalStateException("ZooKeeper gave this server no number");
        }
        name = "node-" + number.postValue();
        zookeeper.createContainers(ASSIGNMENTS);
        group = new GroupMember(zookeeper, GROUP, name, new byte[0]);
        group.start();
        leader = new LeaderLatch(zookeeper, ROOT + "/leader", name);
        leader.start();
        long every = settings.longNumber("cluster.look");
        loop.scheduleWithFixedDelay(this::look, 0, every, TimeUnit.MILLISECONDS);
    }

    /** What this server is called in the cluster. */
    public String name() {
        return name;
    }

    /** Whether this server leads. */
    public boolean isLeader() {
        return connected && leader.getState() == LeaderLatch.State.STARTED && leader.hasLeadership();
    }

    /** The members of the group. */
    public Set<String> members() {
        return new TreeSet<>(group.getCurrentMembers().keySet());
    }

    private void look() {
        try {
            if (!connected) {
                tell(Set.of());
                return;
            }
            if (leader.hasLeadership()) {
                lead();
            }
            tell(read(ASSIGNMENTS + "/" + name));
        } catch (Exception failure) {
            LOG.warn("{} has no word of the cluster: {}", name, failure.toString());
        }
    }

    private void lead() throws Exception {
        if (looks++ % LOOKS_BETWEEN_AUCTIONS == 0) {
            running = auctions.running();
        }
        Set<String> members = members();
        if (!members.contains(name)) {
            return;
        }
        Map<String, Set<Long>> before = new HashMap<>();
        for (String node : zookeeper.getChildren().forPath(ASSIGNMENTS)) {
            before.put(node, read(ASSIGNMENTS + "/" + node));
        }
        Map<String, Set<Long>> after = Assignment.share(members, running, before);
        for (String gone : before.keySet()) {
            if (!after.containsKey(gone)) {
                LOG.info("{} is gone; its {} auctions move", gone, before.get(gone).size());
                zookeeper.delete().quietly().forPath(ASSIGNMENTS + "/" + gone);
            }
        }
        for (Map.Entry<String, Set<Long>> entry : after.entrySet()) {
            if (!entry.getValue().equals(before.get(entry.getKey()))) {
                LOG.info("{} runs {} auctions", entry.getKey(), entry.getValue().size());
                String text = entry.getValue().stream().map(String::valueOf).collect(Collectors.joining(","));
                zookeeper.create().orSetData()
                        .forPath(ASSIGNMENTS + "/" + entry.getKey(), text.getBytes(StandardCharsets.US_ASCII));
            }
        }
    }

    private Set<Long> read(String path) throws Exception {
        try {
            String text = new String(zookeeper.getData().forPath(path), StandardCharsets.US_ASCII);
            return text.isEmpty() ? new TreeSet<>()
                    : Arrays.stream(text.split(",")).map(Long::valueOf).collect(Collectors.toCollection(TreeSet::new));
        } catch (KeeperException.NoNodeException nothing) {
            return new TreeSet<>();
        }
    }

    private void tell(Set<Long> assigned) {
        if (!assigned.equals(told)) {
            told = assigned;
            own.accept(assigned);
        }
    }

    /**
     * Leaves the others: this server is no member and does not lead any more, and nothing more is told to it. Its auctions
     * stay written down as its own until the leader gives them to others, for which they must be let go of.
     */
    public synchronized void leave() {
        if (left) {
            return;
        }
        left = true;
        loop.shutdownNow();
        try {
            // What is being told to this server would come after it let go of everything.
            loop.awaitTermination(LOOK_MILLIS_MOST, TimeUnit.MILLISECONDS);
            leader.close();
        } catch (java.io.IOException | InterruptedException ignored) {
            // The session ends with the connection, and so does leadership.
        }
        group.close();
    }

    /** Waits until this server's auctions are another's; false if they are not after {@code within}. */
    public boolean awaitTaken(Duration within) throws Exception {
        long end = System.nanoTime() + within.toNanos();
        while (zookeeper.checkExists().forPath(ASSIGNMENTS + "/" + name) != null) {
            if (zookeeper.getChildren().forPath(GROUP).isEmpty()) {
                // Nobody is left to take them; who comes next finds them without an owner.
                zookeeper.delete().quietly().forPath(ASSIGNMENTS + "/" + name);
                return true;
            }
            if (System.nanoTime() > end) {
                return false;
            }
            Thread.sleep(20);
        }
        return true;
    }

    @Override
    public void close() {
        leave();
        zookeeper.close();
    }
}
