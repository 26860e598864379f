package tare.auction.messages;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
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

    /** The way out for prices; may be shared. */
    public Consumer<HighBid> prices() throws IOException {
        Channel channel = connection.createChannel();
        AMQP.BasicProperties plain = new AMQP.BasicProperties.Builder().contentType("application/json").build();
        return price -> {
            byte[] body = Json.bytes(Messages.Price.of(price));
            synchronized (channel) {
                try {
                    channel.basicPublish(Messages.EXCHANGE, Messages.prices(price.auctionId()), plain, body);
                } catch (IOException | ShutdownSignalException lost) {
                    // Nobody waits for it in vain: long polls end by themselves and ask the database.
                    LOG.warn("the price of auction {} was not told: {}", price.auctionId(), lost.toString());
                }
            }
        };
    }

    /** Hands every price that any server tells to {@code listener}, by a queue that ends with this process. */
    public void listen(Consumer<HighBid> listener) throws IOException {
        Channel channel = connection.createChannel();
        String queue = channel.queueDeclare("", false, true, true, null).getQueue();
        channel.queueBind(queue, Messages.EXCHANGE, Messages.prices(0).replace("0", "#"));
        channel.basicConsume(queue, true, new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
                    throws IOException {
                listener.accept(Json.read(body, Messages.Price.class).highBid());
            }
        });
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
