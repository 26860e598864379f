package tare.auction.messages;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import java.io.IOException;
import tare.auction.Json;
import tare.auction.model.Bid;

/**
 * The bids of one auction, for who owns it. A bid leaves the queue when it is decided; those that are not, when the
 * subscription or the process ends, go back to their places in the queue and to the next owner.
 */
public final class BidSubscription implements AutoCloseable {
    private final Channel channel;

    /** Takes a bid over. {@code again} says that it may have been handled before, by whoever is gone now. */
    public interface Handler {
        void take(Bid bid, boolean again, Runnable decided);
    }

    BidSubscription(Channel channel, long auction, int prefetch, Handler handler) throws IOException {
        this.channel = channel;
        try {
            channel.basicQos(prefetch);
            Broker.declare(channel, auction);
            // Exclusive: whoever owned the auction before must have let go of it, or this fails.
            channel.basicConsume(Messages.newBids(auction), false, "", false, true, null, new DefaultConsumer(channel) {
                @Override
                public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
                        throws IOException {
                    long delivery = envelope.getDeliveryTag();
                    Bid bid = Json.read(body, Messages.NewBid.class).bid();
                    handler.take(bid, envelope.isRedeliver(), () -> decided(delivery));
                }
            });
        } catch (IOException failure) {
            if (channel.isOpen()) {
                channel.abort();
            }
            throw failure;
        }
    }

    private void decided(long delivery) {
        synchronized (channel) {
            try {
                channel.basicAck(delivery, false);
            } catch (IOException | AlreadyClosedException lost) {
                // It comes again, to this server or to another, which finds that it was decided.
                return;
            }
        }
    }

    @Override
    public void close() {
        try {
            channel.abort();
        } catch (IOException ignored) {
            // It is gone either way.
        }
    }
}
