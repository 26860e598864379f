package tare.auction.store;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import tare.auction.Settings;
import tare.auction.model.ImageInfo;

/** Images in Tarantool. */
final class TarantoolImages implements ImageStore {
    private final TarantoolPool pool;

    TarantoolImages(Settings settings) {
        pool = new TarantoolPool(settings, "images");
    }

    @Override
    public void addInfo(ImageInfo info) throws IOException {
        pool.call("image_info_put",
                Arrays.asList(info.itemId(), info.id().toString(), info.name(), info.format(), info.preloaded()));
    }

    @Override
    public void put(UUID image, ImageInfo.Size size, byte[] bytes) throws IOException {
        pool.call("image_put", image.toString(), size.name(), bytes);
    }

    @Override
    public Optional<byte[]> get(UUID image, ImageInfo.Size size) throws IOException {
        List<?> found = pool.callRaw("image_get", image.toString(), size.name());
        return found.isEmpty() ? Optional.empty() : Optional.ofNullable((byte[]) found.get(0));
    }

    @Override
    public List<ImageInfo> of(long item) throws IOException {
        return ((List<?>) pool.call("image_info_of", item).get(0)).stream()
                .map(row -> info((List<?>) row)).toList();
    }

    @Override
    public long count(ImageInfo.Size size) throws IOException {
        List<?> found = size == null ? pool.call("image_info_count") : pool.call("image_count", size.name());
        return (long) found.get(0);
    }

    @Override
    public void close() {
        pool.close();
    }

    private static ImageInfo info(List<?> row) {
        return new ImageInfo(UUID.fromString((String) row.get(1)), (long) row.get(0), (String) row.get(2),
                (String) row.get(3), (boolean) row.get(4));
    }
}
