package tare.auction.web;

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import tare.auction.model.ImageInfo;
import tare.auction.model.Item;
import tare.auction.model.Page;
import tare.auction.store.ImageStore;

/**
 * Items and their images, as clients see them. What bidding does not change is kept: what an item is, which items an
 * auction has, which images an item has. How an item stands is read each time, all of a page in one question.
 */
public final class Catalogue {
    private final Source items;
    private final ImageStore store;
    private final Cache<Long, Item> kept;
    private final Cache<Long, List<Long>> ofAuctions;
    private final Cache<Long, List<ImageInfo>> images;

    /** Where items are read. */
    public interface Source {
        /** Items, as far as there are any with these numbers. */
        List<Item> byIds(List<Long> ids) throws SQLException;

        /** The numbers of an auction's items, in their order. They never change: what users add belongs to no auction. */
        List<Long> ofAuction(long auction) throws SQLException;

        /** How items stand now. */
        Map<Long, Item.Standing> standings(List<Long> ids) throws SQLException;
    }

    /** How much is kept: items, auctions with the numbers of their items, items with their images. */
    record Sizes(int items, int auctions, int images) {}

    Catalogue(Sizes sizes, Source items, ImageStore store) {
        this.items = items;
        this.store = store;
        this.kept = new Cache<>(sizes.items());
        this.ofAuctions = new Cache<>(sizes.auctions());
        this.images = new Cache<>(sizes.images());
    }

    /** One item. */
    Optional<Item.View> item(long id) throws Exception {
        List<Item> found = byIds(List.of(id));
        return found.isEmpty() ? Optional.empty() : Optional.of(view(found.get(0)));
    }

    /** A page of the items of an auction. */
    Page<Item.View> ofAuction(long auction, int page, int size) throws Exception {
        List<Long> ids = ofAuctions.get(auction, () -> Optional.of(items.ofAuction(auction)).filter(all -> !all.isEmpty()))
                .orElse(List.of());
        int from = (int) Math.min(ids.size(), (long) page * size);
        List<Long> asked = ids.subList(from, Math.min(ids.size(), from + size));
        return views(new Page<>(ids.size(), page, size, byIds(asked)));
    }

    /** What clients see of items that were just read. */
    Page<Item.View> views(Page<Item> page) throws Exception {
        List<Item.View> views = new ArrayList<>();
        for (Item item : page.results()) {
            views.add(view(item));
        }
        return new Page<>(page.totalRecords(), page.page(), page.pageSize(), views);
    }

    /** What clients see of an item that was just read. */
    Item.View view(Item item) throws Exception {
        return item.view(images.get(item.id(), () -> Optional.of(store.of(item.id()))).orElseThrow());
    }

    private List<Item> byIds(List<Long> ids) throws SQLException {
        Map<Long, Item> found = new HashMap<>();
        List<Long> lacking = new ArrayList<>();
        for (Long id : ids) {
            kept.kept(id).ifPresentOrElse(item -> found.put(id, item), () -> lacking.add(id));
        }
        if (!found.isEmpty()) {
            Map<Long, Item.Standing> now = items.standings(List.copyOf(found.keySet()));
            found.replaceAll((id, item) -> item.at(now.get(id)));
        }
        if (!lacking.isEmpty()) {
            long since = kept.removals();
            for (Item item : items.byIds(lacking)) {
                kept.put(item.id(), item, since);
                found.put(item.id(), item);
            }
        }
        return ids.stream().map(found::get).filter(item -> item != null).toList();
    }

    /** Somebody changed an item, or added an image to it. */
    void forget(long item) {
        kept.remove(item);
        images.remove(item);
    }

    /** Any item may have been changed. */
    void forgetAll() {
        kept.clear();
        images.clear();
    }
}
