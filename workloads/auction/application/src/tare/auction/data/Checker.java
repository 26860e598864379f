package tare.auction.data;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.postgresql.PGConnection;
import org.postgresql.copy.PGCopyInputStream;
import tare.auction.Settings;
import tare.auction.model.Bid;
import tare.auction.model.ImageInfo;
import tare.auction.sql.Database;
import tare.auction.store.EventStore;
import tare.auction.store.ImageStore;

/**
 * Compares what is stored with what the generator makes: every row of every table and every bid by count and sum,
 * attendance and images by count, and of the images one out of {@link #IMAGE_STEP} items byte by byte. Holds for what
 * was just loaded; bidding changes it.
 */
final class Checker {
    private static final int BIDS_A_PAGE = 5000;
    private static final int IMAGE_STEP = 16;

    private final Settings settings;
    private final Sizes sizes;
    private final Generator generator;
    private final Database database;
    private final EventStore events;
    private final ImageStore images;
    private final List<String> wrong = new ArrayList<>();

    Checker(Settings settings, Sizes sizes, Database database, EventStore events, ImageStore images) {
        this.settings = settings;
        this.sizes = sizes;
        this.generator = new Generator(sizes);
        this.database = database;
        this.events = events;
        this.images = images;
    }

    /** What is not as it should be; nothing if all is. */
    List<String> check() throws Exception {
        try (Work work = new Work(settings.number("load.threads"))) {
            for (Table table : Table.values()) {
                Checksum meant = new Checksum();
                work.stage("check of " + table.columns().split(" ")[0], table.units(sizes), 1000, (from, to) -> {
                    Checksum part = new Checksum();
                    table.lines(generator, sizes, from, to, part::add);
                    meant.add(part);
                });
                compare(table.columns().split(" ")[0], meant, stored(table));
            }
            Checksum meant = new Checksum();
            int current = sizes.currentAuctions();
            work.stage("check of bids", sizes.historicAuctions(), 100, (from, to) -> {
                Checksum part = new Checksum();
                for (int auction = current + from; auction <= current + to; auction++) {
                    generator.bidsOf(auction).forEach(bids -> bids.forEach(bid -> part.add(bid.toString())));
                }
                meant.add(part);
            });
            compare("bids", meant, storedBids());
            compare("records of attendance", sizes.attendance(), events.attendanceCount());
            if (settings.text("data.images").equals("true")) {
                compare("images", sizes.images(), images.count(null));
                compare("thumbnails", sizes.images(), images.count(ImageInfo.Size.THUMBNAIL));
                compare("previews", sizes.images(), images.count(ImageInfo.Size.PREVIEW));
                compare("full images", sizes.fullImages(), images.count(ImageInfo.Size.FULL));
                work.stage("check of images", Math.toIntExact(sizes.items() / IMAGE_STEP), 4, this::images);
            }
        }
        return wrong;
    }

    private synchronized void compare(String what, Object meant, Object stored) {
        if (!meant.toString().equals(stored.toString())) {
            wrong.add(what + ": " + stored + " are stored, " + meant + " were meant");
        }
    }

    private Checksum stored(Table table) throws SQLException {
        return database.with(connection -> {
            Checksum found = new Checksum();
            String sql = "COPY " + table.columns() + " TO STDOUT";
            try (BufferedReader rows = new BufferedReader(new InputStreamReader(
                    new PGCopyInputStream(connection.unwrap(PGConnection.class), sql), StandardCharsets.UTF_8))) {
                for (String row = rows.readLine(); row != null; row = rows.readLine()) {
                    found.add(row);
                }
            } catch (IOException failure) {
                throw new SQLException(failure);
            }
            return found;
        });
    }

    private Checksum storedBids() throws IOException {
        Checksum found = new Checksum();
        List<Bid> page = List.of();
        do {
            page = events.bidsAfter(page.isEmpty() ? null : page.get(page.size() - 1), BIDS_A_PAGE);
            page.forEach(bid -> found.add(bid.toString()));
        } while (page.size() == BIDS_A_PAGE);
        return found;
    }

    private void images(int from, int to) throws IOException {
        for (long item = (long) from * IMAGE_STEP; item <= (long) to * IMAGE_STEP; item += IMAGE_STEP) {
            ImageInfo image = generator.image(item, 0);
            for (ImageInfo.Size size : ImageInfo.Size.values()) {
                Optional<byte[]> stored = images.get(image.id(), size);
                if (!Arrays.equals(stored.orElse(null), generator.bytes(item, 0, size))) {
                    compare("the image of item " + item + " as " + size, "its own bytes", "others");
                }
            }
        }
    }
}
