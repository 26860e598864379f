package tare.auction.sql;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.util.List;
import java.util.Optional;
import tare.auction.model.Auction;
import tare.auction.model.Page;
import tare.auction.model.States.AuctionState;

/** The table {@code auction}. */
public final class Auctions {
    private static final String COLUMNS = "id, name, category, starttime, state";

    private final Database database;

    /** Over {@code database}. */
    public Auctions(Database database) {
        this.database = database;
    }

    /** One auction. */
    public Optional<Auction> byId(long id) throws SQLException {
        return database.first(Auctions::read, "SELECT " + COLUMNS + " FROM auction WHERE id = ?", id);
    }

    /** A page of all auctions. */
    public Page<Auction> page(int page, int size) throws SQLException {
        long total = database.count("SELECT count(*) FROM auction");
        return new Page<>(total, page, size, database.list(Auctions::read,
                "SELECT " + COLUMNS + " FROM auction ORDER BY id LIMIT ? OFFSET ?", size, (long) page * size));
    }

    /** A page of the auctions that are running. */
    public Page<Auction> running(int page, int size) throws SQLException {
        long total = database.count("SELECT count(*) FROM auction WHERE state = 'RUNNING'");
        return new Page<>(total, page, size, database.list(Auctions::read,
                "SELECT " + COLUMNS + " FROM auction WHERE state = 'RUNNING' ORDER BY id LIMIT ? OFFSET ?",
                size, (long) page * size));
    }

    /** The identifiers of all auctions that run. */
    public List<Long> runningIds() throws SQLException {
        return database.list(row -> row.getLong(1), "SELECT id FROM auction WHERE state = 'RUNNING' ORDER BY id");
    }

    /** Starts the auctions whose time has come, and tells how many. */
    public int startDue(long nowMicros) throws SQLException {
        return database.update("UPDATE auction SET state = 'RUNNING', activated = true, version = version + 1"
                + " WHERE state = 'FUTURE' AND starttime <= ?", Clock.time(nowMicros));
    }

    private static Auction read(ResultSet row) throws SQLException {
        return new Auction(row.getLong(1), row.getString(2), row.getString(3),
                row.getObject(4, LocalDateTime.class), AuctionState.valueOf(row.getString(5)));
    }
}
