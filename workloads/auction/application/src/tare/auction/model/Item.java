package tare.auction.model;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.List;
import tare.auction.Money;

/** An item, as the database has it, with the bidding for it if there was one. */
public record Item(long id, long auctionId, long auctioneerId, String name, String description, String manufacturer,
        long startingCents, States.ItemState state, String condition, LocalDate dateOfOrigin, int bidCount,
        Long priceCents) {

    /** What bidding changes of an item. */
    public record Standing(States.ItemState state, int bidCount, Long priceCents) {}

    /** The same item, as it stands now. */
    public Item at(Standing now) {
        return new Item(id, auctionId, auctioneerId, name, description, manufacturer, startingCents, now.state(),
                condition, dateOfOrigin, now.bidCount(), now.priceCents());
    }

    /** What clients see of it; {@code images} are those of the item. */
    public View view(List<ImageInfo> images) {
        List<Link> links = images.stream().map(image -> new Link("ItemImage", image.path())).toList();
        BigDecimal price = priceCents == null ? null : Money.shown(priceCents);
        return new View(id, auctionId, name, manufacturer, description, Money.shown(startingCents), condition,
                dateOfOrigin.toString(), bidCount, state.name(), price, links);
    }

    /** The answer to a question for an item. */
    public record View(long id, long auctionId, String name, String manufacturer, String longDescription,
            BigDecimal startingBidAmount, String condition, String dateOfOrigin, int bidCount, String state,
            BigDecimal purchasePrice, List<Link> links) {}

    /** Where something of the item is found. */
    public record Link(String rel, String href) {}
}
