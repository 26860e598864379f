package tare.auction.web;

import static org.junit.Assert.assertEquals;

import java.time.LocalDate;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.junit.Test;
import tare.auction.model.ImageInfo;
import tare.auction.model.Item;
import tare.auction.model.States.ItemState;
import tare.auction.store.MemoryStore;

public class CatalogueTest {
    private final Map<Long, Item> rows = new TreeMap<>();
    private final MemoryStore images = new MemoryStore();
    private int wide;
    private int narrow;
    private final Catalogue catalogue = new Catalogue(new Catalogue.Sizes(100, 10, 100), new Catalogue.Source() {
        @Override
        public List<Item> byIds(List<Long> ids) {
            wide++;
            return ids.stream().filter(rows::containsKey).map(rows::get).toList();
        }

        @Override
        public List<Long> ofAuction(long auction) {
            return rows.values().stream().filter(item -> item.auctionId() == auction).map(Item::id).toList();
        }

        @Override
        public Map<Long, Item.Standing> standings(List<Long> ids) {
            narrow++;
            Map<Long, Item.Standing> found = new HashMap<>();
            for (Long id : ids) {
                Item item = rows.get(id);
                found.put(id, new Item.Standing(item.state(), item.bidCount(), item.priceCents()));
            }
            return found;
        }
    }, images);

    private void row(long id, String name, ItemState state, int bidCount, Long price) {
        rows.put(id, new Item(id, 1, 50, name, "text", "maker", 100, state, "New", LocalDate.of(2000, 1, 1), bidCount, price));
    }

    @Test
    public void whatBiddingChangesIsNeverOld() throws Exception {
        row(7, "lamp", ItemState.INAUCTION, 0, null);
        assertEquals(0, catalogue.item(7).orElseThrow().bidCount());
        row(7, "lamp", ItemState.ACTIVE, 3, null);
        assertEquals(3, catalogue.item(7).orElseThrow().bidCount());
        row(7, "lamp", ItemState.SOLD, 5, 12_34L);
        Item.View sold = catalogue.ofAuction(1, 0, 5).results().get(0);
        assertEquals("SOLD", sold.state());
        assertEquals("12.34", sold.purchasePrice().toString());
        assertEquals("the rest is read once", 1, wide);
    }

    @Test
    public void pagesAreCutFromTheWholeInOneQuestionEach() throws Exception {
        for (long id = 1; id <= 12; id++) {
            row(id, "thing " + id, ItemState.INAUCTION, 0, null);
        }
        catalogue.item(7);
        wide = 0;
        var page = catalogue.ofAuction(1, 1, 5);
        assertEquals(12, page.totalRecords());
        assertEquals(List.of(6L, 7L, 8L, 9L, 10L), page.results().stream().map(Item.View::id).toList());
        assertEquals("one for what is not kept", 1, wide);
        assertEquals("one for how the kept one stands", 1, narrow);
        assertEquals(List.of(11L, 12L), catalogue.ofAuction(1, 2, 5).results().stream().map(Item.View::id).toList());
        assertEquals(List.of(), catalogue.ofAuction(1, Integer.MAX_VALUE, 1000).results());
        assertEquals(0, catalogue.ofAuction(2, 0, 5).totalRecords());
    }

    @Test
    public void whatSomebodyChangedIsReadAgainWhenThatIsTold() throws Exception {
        row(7, "lamp", ItemState.NOTLISTED, 0, null);
        assertEquals(0, catalogue.item(7).orElseThrow().links().size());
        row(7, "old lamp", ItemState.NOTLISTED, 0, null);
        images.addInfo(new ImageInfo(UUID.randomUUID(), 7, "image", "jpeg", false));
        catalogue.forget(7);
        assertEquals("old lamp", catalogue.item(7).orElseThrow().name());
        assertEquals(1, catalogue.item(7).orElseThrow().links().size());
    }

    @Test
    public void whatThereIsNotIsNotThere() throws Exception {
        assertEquals(java.util.Optional.empty(), catalogue.item(7));
    }
}
