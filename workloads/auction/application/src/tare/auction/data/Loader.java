package tare.auction.data;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import tare.auction.Settings;
import tare.auction.model.Attendance;
import tare.auction.model.Bid;
import tare.auction.model.ImageInfo;
import tare.auction.sql.Database;
import tare.auction.store.EventStore;
import tare.auction.store.ImageStore;

/** Writes all data, in parallel, with its progress on standard error. Any failure ends it: half a load is none. */
final class Loader {
    private static final int ROWS_A_PART = 5000;
    private static final int AUCTIONS_A_PART = 50;
    private static final int ITEMS_A_PART = 8;

    private final Settings settings;
    private final Sizes sizes;
    private final Generator generator;
    private final Database database;
    private final EventStore events;
    private final ImageStore images;

    Loader(Settings settings, Sizes sizes, Database database, EventStore events, ImageStore images) {
        this.settings = settings;
        this.sizes = sizes;
        this.generator = new Generator(sizes);
        this.database = database;
        this.events = events;
        this.images = images;
    }

    /** Makes the tables and fills everything. */
    void load() throws Exception {
        script("/schema.sql");
        try (Work work = new Work(settings.number("load.threads"))) {
            for (Table table : Table.values()) {
                int size = table == Table.USERDATA ? ROWS_A_PART : AUCTIONS_A_PART * 4;
                work.stage(table.name().toLowerCase(java.util.Locale.ROOT), table.units(sizes), size,
                        (from, to) -> copy(table, from, to));
            }
            int current = sizes.currentAuctions();
            work.stage("auctions' bids", sizes.historicAuctions(), AUCTIONS_A_PART / 10, (from, to) -> {
                List<Bid> bids = new ArrayList<>();
                for (int auction = current + from; auction <= current + to; auction++) {
                    generator.bidsOf(auction).forEach(bids::addAll);
                }
                events.loadBids(bids);
            });
            work.stage("auctions' attendance", current + sizes.historicAuctions(), AUCTIONS_A_PART / 5, (from, to) -> {
                List<Attendance> attendance = new ArrayList<>();
                for (int auction = from; auction <= to; auction++) {
                    attendance.addAll(generator.attendanceOf(auction));
                }
                events.loadAttendance(attendance);
            });
            if (settings.text("data.images").equals("true")) {
                work.stage("items' images", Math.toIntExact(sizes.items()), ITEMS_A_PART, this::images);
            }
            script("/indices.sql");
            restart("userdata_ids", sizes.users());
            restart("item_ids", sizes.items());
            restart("highbid_ids", sizes.purchases());
        }
    }

    /** What is added later gets the numbers behind those that are there. */
    private void restart(String sequence, long last) throws SQLException {
        database.update("ALTER SEQUENCE " + sequence + " RESTART WITH " + (last + 1));
    }

    private void images(int from, int to) throws IOException {
        for (long item = from; item <= to; item++) {
            for (int index = 0; index < generator.imagesOf(item); index++) {
                ImageInfo image = generator.image(item, index);
                for (ImageInfo.Size size : ImageInfo.Size.values()) {
                    byte[] bytes = generator.bytes(item, index, size);
                    if (bytes != null) {
                        images.put(image.id(), size, bytes);
                    }
                }
                images.addInfo(image);
            }
        }
    }

    private void copy(Table table, int from, int to) throws SQLException {
        StringBuilder lines = new StringBuilder();
        table.lines(generator, sizes, from, to, line -> lines.append(line).append('\n'));
        database.with(connection -> {
            CopyManager copies = connection.unwrap(PGConnection.class).getCopyAPI();
            try {
                return copies.copyIn("COPY " + table.columns() + " FROM STDIN",
                        new java.io.ByteArrayInputStream(lines.toString().getBytes(StandardCharsets.UTF_8)));
            } catch (IOException failure) {
                throw new SQLException(failure);
            }
        });
    }

    /** Carries out a file of statements of this program. */
    private void script(String name) throws IOException, SQLException {
        String text;
        try (InputStream in = Loader.class.getResourceAsStream(name)) {
            text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
        String plain = text.lines().filter(line -> !line.strip().startsWith("--"))
                .collect(java.util.stream.Collectors.joining("\n"));
        database.with(connection -> {
            try (var statement = connection.createStatement()) {
                for (String sql : plain.split(";")) {
                    if (!sql.isBlank()) {
                        statement.execute(sql);
                    }
                }
            }
            return null;
        });
    }
}
