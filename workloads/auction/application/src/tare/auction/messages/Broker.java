package tare.auction.messages;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.Json;
import tare.auction.Settings;
import tare.auction.model.HighBid;

/**
 * The connection to RabbitMQ. Bids of an auction wait in a durable queue of that auction's own, so that they outlive
 * the server that owns it; who owns the auction is the one consumer. Prices go to everybody.
 */
public final class Broker implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Broker.class);

    private final Connection connection;
    private final ExecutorService consumers;
    private final int prefetch;

    /** Connects. What is read of the connection is handled by as many threads as were stated. */
    public Broker(Settings settings) throws IOException {
        ConnectionFactory factory = new ConnectionFactory();
        Settings.Address address = settings.address("messages.address");
        factory.setHost(address.host());
        factory.setPort(address.port());
        factory.setVirtualHost(settings.text("messages.vhost"));
        factory.setUsername(settings.text("messages.user"));
        factory.setPassword(settings.text("messages.password"));
        factory.setRequestedHeartbeat(settings.number("messages.heartbeat"));
        factory.setAutomaticRecoveryEnabled(true);
        factory.setTopologyRecoveryEnabled(true);
        factory.setNetworkRecoveryInterval(settings.number("messages.recovery"));
        prefetch = settings.number("messages.prefetch");
        consumers = Executors.newFixedThreadPool(settings.number("messages.threads"));
        try {
            connection = factory.newConnection(consumers);
            // The channel stays: after RabbitMQ was gone, the client declares everything again on the channel it was
            // declared on.
            connection.createChannel().exchangeDeclare(Messages.EXCHANGE, BuiltinExchangeType.TOPIC, true);
            whenBack(() -> LOG.warn("RabbitMQ was gone and is back"));
        } catch (IOException | TimeoutException failure) {
            consumers.shutdownNow();
            throw new IOException("RabbitMQ at " + address + ": " + failure, failure);
        }
    }

    /** The way out for bids. */
    public BidPublisher publisher() throws IOException {
        return new BidPublisher(connection.createChannel());
    }

    /** A channel for one thread's own purposes. */
    Channel channel() throws IOException {
        return connection.createChannel();
    }

    /**
     * The way out for prices; may be shared. One that is lost because RabbitMQ goes is not sent again: who tells has to
     * do that {@link #whenBack}.
     */
    public Consumer<HighBid> prices() throws IOException {
        Sender sender = new Sender();
        return price -> sender.send(Messages.prices(price.auctionId()), Messages.Price.of(price));
    }

    /** The way out for changes; may be shared. What is lost is made good when RabbitMQ is back: see {@link Listener}. */
    public Consumer<Messages.Change> changes() throws IOException {
        Sender sender = new Sender();
        whenBack(() -> {
            for (Messages.Kind kind : Messages.Kind.values()) {
                sender.send(Messages.CHANGES, new Messages.Change(kind, Messages.Change.ALL));
            }
        });
        return change -> sender.send(Messages.CHANGES, change);
    }

    /** Sends what need not outlive RabbitMQ, over a channel of its own. */
    private final class Sender {
        private final Channel channel = connection.createChannel();
        private final AMQP.BasicProperties plain =
                new AMQP.BasicProperties.Builder().contentType("application/json").build();

        private Sender() throws IOException {}

        private synchronized void send(String key, Object message) {
            try {
                channel.basicPublish(Messages.EXCHANGE, key, plain, Json.bytes(message));
            } catch (IOException | ShutdownSignalException lost) {
                LOG.warn("{} was not told: {}", key, lost.toString());
            }
        }
    }

    /** Does something each time that RabbitMQ is back and all that was declared is declared again. */
    public void whenBack(Runnable task) {
        ((Recoverable) connection).addRecoveryListener(new RecoveryListener() {
            @Override
            public void handleRecovery(Recoverable back) {
                task.run();
            }

            @Override
            public void handleRecoveryStarted(Recoverable lost) {
                // Nothing to do before it is back.
            }
        });
    }

    /** Who hears what any server tells to all. */
    public interface Listener {
        /** How a bidding stands now. */
        void price(HighBid price);

        /** What changed: one thing, or any of a kind. */
        void change(Messages.Change change);

        /** RabbitMQ was gone and is back: something may have been told that was not heard. */
        void missed();
    }

    /** Hands everything that any server tells to {@code listener}, by a queue that ends with this process. */
    public void listen(Listener listener) throws IOException {
        Channel channel = connection.createChannel();
        String queue = channel.queueDeclare("", false, true, true, null).getQueue();
        channel.queueBind(queue, Messages.EXCHANGE, Messages.prices(0).replace("0", "#"));
        channel.queueBind(queue, Messages.EXCHANGE, Messages.CHANGES);
        channel.basicConsume(queue, true, new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
                    throws IOException {
                if (envelope.getRoutingKey().equals(Messages.CHANGES)) {
                    listener.change(Json.read(body, Messages.Change.class));
                } else {
                    listener.price(Json.read(body, Messages.Price.class).highBid());
                }
            }
        });
        whenBack(listener::missed);
    }

    /**
     * Takes the bids of an auction, until the subscription is closed. Fails while somebody else still takes them.
     * Makes the queue if nobody has.
     */
    public BidSubscription subscribe(long auction, BidSubscription.Handler handler) throws IOException {
        return new BidSubscription(connection.createChannel(), auction, prefetch, handler);
    }

    /** Makes the queue of an auction's bids, where it is not there yet. */
    static void declare(Channel channel, long auction) throws IOException {
        String queue = Messages.newBids(auction);
        channel.queueDeclare(queue, true, false, false, Map.of());
        channel.queueBind(queue, Messages.EXCHANGE, queue);
    }

    /** How many bids wait for a decision, in the queue of an auction; none if it has no queue. */
    public long waiting(long auction) throws IOException {
        Channel channel = connection.createChannel();
        try {
            return channel.queueDeclarePassive(Messages.newBids(auction)).getMessageCount();
        } catch (IOException absent) {
            if (absent.getCause() instanceof ShutdownSignalException) {
                return 0;
            }
            throw absent;
        } finally {
            if (channel.isOpen()) {
                channel.abort();
            }
        }
    }

    @Override
    public void close() {
        connection.abort(2000);
        consumers.shutdownNow();
    }
}
