package tare.auction.messages;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConfirmListener;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentSkipListMap;
import tare.auction.Json;
import tare.auction.model.Bid;

/** Sends bids on their way and tells when RabbitMQ has taken each over for good. */
public final class BidPublisher {
    private final Channel channel;
    private final ConcurrentSkipListMap<Long, Sent> unconfirmed = new ConcurrentSkipListMap<>();
    private final AMQP.BasicProperties.Builder persistent =
            new AMQP.BasicProperties.Builder().contentType("application/json").deliveryMode(2);

    private record Sent(String id, CompletableFuture<Void> done) {}

    BidPublisher(Channel channel) throws IOException {
        this.channel = channel;
        channel.confirmSelect();
        channel.addConfirmListener(new ConfirmListener() {
            @Override
            public void handleAck(long number, boolean allBefore) {
                settle(number, allBefore, null);
            }

            @Override
            public void handleNack(long number, boolean allBefore) {
                settle(number, allBefore, new IOException("RabbitMQ did not take the bid"));
            }
        });
        // What no queue wanted comes back before it is confirmed.
        channel.addReturnListener((code, text, exchange, key, properties, body) -> {
            String id = properties.getMessageId();
            unconfirmed.values().stream().filter(sent -> sent.id().equals(id))
                    .forEach(sent -> sent.done().completeExceptionally(new IOException("nobody runs this auction")));
        });
        channel.addShutdownListener(cause -> settle(Long.MAX_VALUE, true, new IOException("RabbitMQ is gone")));
    }

    /** Sends a bid. The future completes when the message server answers for it, and fails if it does not. */
    public CompletableFuture<Void> publish(Bid bid) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        byte[] body = Json.bytes(Messages.NewBid.of(bid));
        synchronized (channel) {
            long number = channel.getNextPublishSeqNo();
            unconfirmed.put(number, new Sent(bid.id().toString(), done));
            try {
                channel.basicPublish(Messages.EXCHANGE, Messages.newBids(bid.auctionId()), true,
                        persistent.messageId(bid.id().toString()).build(), body);
            } catch (IOException | ShutdownSignalException lost) {
                unconfirmed.remove(number);
                done.completeExceptionally(new IOException("RabbitMQ is gone", lost));
            }
        }
        return done;
    }

    private void settle(long number, boolean allBefore, IOException failure) {
        var settled = allBefore ? unconfirmed.headMap(number, true) : unconfirmed.subMap(number, true, number, true);
        while (!settled.isEmpty()) {
            var first = settled.pollFirstEntry();
            if (first == null) {
                return;
            }
            if (failure == null) {
                first.getValue().done().complete(null);
            } else {
                first.getValue().done().completeExceptionally(failure);
            }
        }
    }
}
