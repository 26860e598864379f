package tare.auction.model;

import java.util.UUID;

/** An image of an item. Its bytes are kept apart from it, in three sizes. */
public record ImageInfo(UUID id, long itemId, String name, String format, boolean preloaded) {

    /** The sizes in which an image is kept. */
    public enum Size { THUMBNAIL, PREVIEW, FULL }

    /** Where clients get it. */
    public String path() {
        return "/auction/item/" + itemId + "/image/" + id;
    }
}
