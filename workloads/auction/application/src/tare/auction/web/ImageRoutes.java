package tare.auction.web;

import jakarta.servlet.http.Part;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import tare.auction.model.ImageInfo;
import tare.auction.sql.Items;
import tare.auction.store.ImageStore;

/** Images of items, out and in. */
final class ImageRoutes {
    private final ImageStore store;
    private final ImageWriter writer;
    private final Items items;
    private final Cache<String, byte[]> thumbnails;

    ImageRoutes(int thumbnailsKept, ImageStore store, ImageWriter writer, Items items) {
        this.store = store;
        this.writer = writer;
        this.items = items;
        this.thumbnails = new Cache<>(thumbnailsKept);
    }

    void addTo(Routes routes) {
        // Anybody may look: an image has no token, so that proxies can keep it.
        routes.open("GET", "/item/*/image/*", this::get)
                .open("GET", "/item/*/image/*/cacheable", this::get)
                .route("POST", "/item/*/image", this::post);
    }

    private void get(Exchange exchange) throws Exception {
        ImageInfo.Size size;
        UUID id;
        try {
            size = ImageInfo.Size.valueOf(exchange.parameter("size", "FULL"));
            id = UUID.fromString(exchange.text(1));
        } catch (IllegalArgumentException mistake) {
            throw new ApiException(404, "no such image");
        }
        Optional<byte[]> found = size == ImageInfo.Size.THUMBNAIL
                ? thumbnails.get(exchange.text(1), () -> store.get(id, size)) : store.get(id, size);
        exchange.image(found.orElseThrow(() -> new ApiException(404, "no such image")));
    }

    private void post(Exchange exchange) throws Exception {
        long item = exchange.number(0);
        if (items.byId(item).isEmpty()) {
            throw new ApiException(404, "no such item");
        }
        Part image = exchange.request().getParts().stream()
                .filter(part -> String.valueOf(part.getContentType()).startsWith("image/")).findFirst()
                .orElseThrow(() -> new ApiException(415, "no part of the request is an image"));
        byte[] bytes = image.getInputStream().readAllBytes();
        if (!ImageWriter.isImage(bytes)) {
            throw new ApiException(415, "these bytes are no image that is known here");
        }
        String name = image.getSubmittedFileName() == null ? "image" : image.getSubmittedFileName();
        ImageInfo info = new ImageInfo(UUID.randomUUID(), item, name, "jpeg", false);
        if (!writer.offer(info, bytes)) {
            throw new ApiException(503, "too many images wait to be written");
        }
        exchange.answer(201, Map.of("id", info.id().toString(), "href", info.path()));
    }
}
