package tare.auction.store;

import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import tare.auction.model.ImageInfo;

/** Where images are kept: a record of each, and its bytes in up to three sizes. */
public interface ImageStore extends AutoCloseable {
    /** Writes the record of an image. */
    void addInfo(ImageInfo info) throws IOException;

    /** Writes the bytes of an image in one size. */
    void put(UUID image, ImageInfo.Size size, byte[] bytes) throws IOException;

    /** The bytes of an image in one size. */
    Optional<byte[]> get(UUID image, ImageInfo.Size size) throws IOException;

    /** The images of an item. */
    List<ImageInfo> of(long item) throws IOException;

    /** How many images there are in a size; with null for a size, how many records. */
    long count(ImageInfo.Size size) throws IOException;

    @Override
    void close();
}
