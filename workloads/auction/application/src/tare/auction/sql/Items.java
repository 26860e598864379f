package tare.auction.sql;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.LocalDate;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import tare.auction.model.Item;
import tare.auction.model.Page;
import tare.auction.model.States.ItemState;
import tare.auction.web.Catalogue;

/** The table {@code item}. */
public final class Items implements Catalogue.Source {
    private static final String STANDING =
            "i.state, coalesce(h.bidcount, 0), CASE WHEN h.state = 'SOLD' THEN h.amount END";
    private static final String FROM = " FROM item i LEFT JOIN highbid h ON h.id = i.highbid_id ";
    private static final String SELECT = "SELECT " + STANDING + ", i.id, coalesce(i.auction_id, 0), i.auctioneer_id,"
            + " i.shortdescription, i.longdescription, i.manufacturer, i.startingbid, i.cond, i.dateoforigin" + FROM;

    private final Database database;

    /** Over {@code database}. */
    public Items(Database database) {
        this.database = database;
    }

    /** One item. */
    public Optional<Item> byId(long id) throws SQLException {
        return database.first(Items::read, SELECT + "WHERE i.id = ?", id);
    }

    @Override
    public List<Item> byIds(List<Long> ids) throws SQLException {
        return database.list(Items::read, SELECT + "WHERE i.id = ANY(?) ORDER BY i.id", (Object) array(ids));
    }

    @Override
    public List<Long> ofAuction(long auction) throws SQLException {
        return database.list(row -> row.getLong(1), "SELECT id FROM item WHERE auction_id = ? ORDER BY id", auction);
    }

    @Override
    public Map<Long, Item.Standing> standings(List<Long> ids) throws SQLException {
        Map<Long, Item.Standing> found = new HashMap<>();
        database.list(row -> found.put(row.getLong(4), standing(row)),
                "SELECT " + STANDING + ", i.id" + FROM + "WHERE i.id = ANY(?)", (Object) array(ids));
        return found;
    }

    private static long[] array(List<Long> ids) {
        return ids.stream().mapToLong(Long::longValue).toArray();
    }

    /** A page of the items that somebody offered. */
    public Page<Item> ofAuctioneer(long auctioneer, int page, int size) throws SQLException {
        long total = database.count("SELECT count(*) FROM item WHERE auctioneer_id = ?", auctioneer);
        return new Page<>(total, page, size, database.list(Items::read,
                SELECT + "WHERE i.auctioneer_id = ? ORDER BY i.id LIMIT ? OFFSET ?",
                auctioneer, size, (long) page * size));
    }

    /** A page of what a user bought, the latest first. */
    public Page<Item> purchased(long user, int page, int size) throws SQLException {
        long total = database.count("SELECT count(*) FROM highbid WHERE bidder_id = ? AND state = 'SOLD'", user);
        String sql = SELECT.replace("LEFT JOIN highbid h ON h.id = i.highbid_id", "JOIN highbid h ON h.item_id = i.id");
        return new Page<>(total, page, size, database.list(Items::read,
                sql + "WHERE h.bidder_id = ? AND h.state = 'SOLD' ORDER BY h.id DESC LIMIT ? OFFSET ?",
                user, size, (long) page * size));
    }

    /** What clients may say of an item; what is null stays as it is, or is filled in. */
    public record Draft(String name, String description, String manufacturer, Long startingCents, String condition,
            LocalDate dateOfOrigin) {}

    /** Adds an item that is not listed yet. */
    public Item add(long auctioneer, Draft draft) throws SQLException {
        long id = database.count("INSERT INTO item (id, shortdescription, longdescription, manufacturer, startingbid,"
                + " state, cond, dateoforigin, auctioneer_id, preloaded) VALUES (nextval('item_ids'), ?, ?, ?, ?,"
                + " 'NOTLISTED', ?, ?, ?, false) RETURNING id",
                or(draft.name(), ""), or(draft.description(), ""), or(draft.manufacturer(), ""),
                or(draft.startingCents(), 100L), or(draft.condition(), "New"),
                or(draft.dateOfOrigin(), Clock.BEGINNING.toLocalDate()), auctioneer);
        return byId(id).orElseThrow();
    }

    /** Changes an item of {@code auctioneer}; empty if there is no such item of theirs. */
    public Optional<Item> change(long id, long auctioneer, Draft draft) throws SQLException {
        int changed = database.update("UPDATE item SET shortdescription = coalesce(?::text, shortdescription),"
                + " longdescription = coalesce(?::text, longdescription), manufacturer = coalesce(?::text, manufacturer),"
                + " startingbid = coalesce(?::bigint, startingbid), cond = coalesce(?::text, cond),"
                + " dateoforigin = coalesce(?::date, dateoforigin), version = version + 1"
                + " WHERE id = ? AND auctioneer_id = ?",
                draft.name(), draft.description(), draft.manufacturer(), draft.startingCents(), draft.condition(),
                draft.dateOfOrigin(), id, auctioneer);
        return changed == 0 ? Optional.empty() : byId(id);
    }

    private static <T> T or(T value, T otherwise) {
        return value == null ? otherwise : value;
    }

    private static Item.Standing standing(ResultSet row) throws SQLException {
        return new Item.Standing(ItemState.valueOf(row.getString(1)), row.getInt(2), row.getObject(3, Long.class));
    }

    private static Item read(ResultSet row) throws SQLException {
        Item.Standing now = standing(row);
        return new Item(row.getLong(4), row.getLong(5), row.getLong(6), row.getString(7), row.getString(8),
                row.getString(9), row.getLong(10), now.state(), row.getString(11),
                row.getObject(12, LocalDate.class), now.bidCount(), now.priceCents());
    }
}
