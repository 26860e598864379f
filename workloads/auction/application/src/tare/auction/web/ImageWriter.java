package tare.auction.web;

import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;
import javax.imageio.ImageIO;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.Settings;
import tare.auction.model.ImageInfo;
import tare.auction.store.ImageStore;

/** Makes and stores the sizes of uploaded images, behind the back of who uploaded them. */
final class ImageWriter implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ImageWriter.class);
    private static final int PREVIEW = 350;
    private static final int THUMBNAIL = 100;

    private final ImageStore store;
    private final LongConsumer listed;
    private final ThreadPoolExecutor writers;

    /** {@code listed} is told of each item that has a new image. */
    ImageWriter(Settings settings, ImageStore store, LongConsumer listed) {
        this.store = store;
        this.listed = listed;
        ImageIO.setUseCache(false);
        int threads = settings.number("images.writers");
        writers = new ThreadPoolExecutor(threads, threads, 0, TimeUnit.SECONDS,
                new ArrayBlockingQueue<>(settings.number("images.queue")));
    }

    /** Takes an image over; false if too many wait already. */
    boolean offer(ImageInfo info, byte[] full) {
        try {
            writers.execute(() -> write(info, full));
            return true;
        } catch (RejectedExecutionException tooMany) {
            return false;
        }
    }

    private void write(ImageInfo info, byte[] full) {
        try {
            BufferedImage image = ImageIO.read(new ByteArrayInputStream(full));
            store.put(info.id(), ImageInfo.Size.FULL, full);
            store.put(info.id(), ImageInfo.Size.PREVIEW, scaled(image, PREVIEW));
            store.put(info.id(), ImageInfo.Size.THUMBNAIL, scaled(image, THUMBNAIL));
            // Last, so that an image that is listed can be had in all sizes.
            store.addInfo(info);
            listed.accept(info.itemId());
        } catch (IOException | RuntimeException failure) {
            LOG.warn("the image {} of item {} is lost: {}", info.id(), info.itemId(), failure.toString());
        }
    }

    /** Whether the bytes begin an image that can be read. */
    static boolean isImage(byte[] bytes) throws IOException {
        try (var stream = ImageIO.createImageInputStream(new ByteArrayInputStream(bytes))) {
            return ImageIO.getImageReaders(stream).hasNext();
        }
    }

    private static byte[] scaled(BufferedImage image, int side) throws IOException {
        BufferedImage small = new BufferedImage(side, side, BufferedImage.TYPE_INT_RGB);
        Graphics2D canvas = small.createGraphics();
        canvas.setRenderingHint(RenderingHints.KEY_INTERPOLATION, RenderingHints.VALUE_INTERPOLATION_BILINEAR);
        canvas.drawImage(image, 0, 0, side, side, null);
        canvas.dispose();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ImageIO.write(small, "jpeg", out);
        return out.toByteArray();
    }

    @Override
    public void close() {
        writers.shutdown();
        try {
            writers.awaitTermination(5, TimeUnit.SECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
