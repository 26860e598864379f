package tare.auction.data;

import java.io.IOException;
import java.sql.SQLException;
import tare.auction.Settings;
import tare.auction.model.ImageInfo;
import tare.auction.sql.Clock;
import tare.auction.sql.Database;
import tare.auction.store.EventStore;
import tare.auction.store.ImageStore;

/**
 * Makes data that are there already, whether they were kept from an earlier deployment or loaded before a restart, as
 * good as just loaded: all of them are there, by count, and time has not begun. What each row holds was compared when
 * they were loaded.
 */
final class Preparer {
    private final Settings settings;
    private final Sizes sizes;
    private final Database database;
    private final EventStore events;
    private final ImageStore images;

    Preparer(Settings settings, Sizes sizes, Database database, EventStore events, ImageStore images) {
        this.settings = settings;
        this.sizes = sizes;
        this.database = database;
        this.events = events;
        this.images = images;
    }

    /** Whether somebody has bid since they were loaded: an auction that runs has an item on the block. */
    boolean used() throws SQLException {
        return database.count("SELECT count(*) FROM (SELECT 1 FROM highbid WHERE NOT preloaded LIMIT 1) AS one") > 0;
    }

    /** Looks whether all is there, and lets time begin anew. */
    void prepare() throws IOException, SQLException {
        for (Table table : Table.values()) {
            String name = table.name().toLowerCase(java.util.Locale.ROOT);
            compare("rows of " + name, table.rows(sizes), database.count("SELECT count(*) FROM " + name));
        }
        compare("records of attendance", sizes.attendance(), events.attendanceCount());
        if (settings.text("data.images").equals("true")) {
            compare("images", sizes.images(), images.count(null));
            compare("full images", sizes.fullImages(), images.count(ImageInfo.Size.FULL));
        }
        Clock.stop(database);
    }

    private void compare(String what, long meant, long stored) {
        if (stored != meant) {
            throw new IllegalStateException("the data that are there are not whole: " + stored + " " + what + " are stored, "
                    + meant + " were loaded; begin with empty stores");
        }
    }
}
