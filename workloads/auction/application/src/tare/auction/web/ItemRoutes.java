package tare.auction.web;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.format.DateTimeParseException;
import java.util.function.LongConsumer;
import tare.auction.Money;
import tare.auction.model.Item;
import tare.auction.sql.Items;

/** Items, without what is on the block now. */
final class ItemRoutes {
    private final Items items;
    private final Catalogue catalogue;
    private final LongConsumer tellChanged;

    /** {@code tellChanged} tells all servers of an item that is not what it was. */
    ItemRoutes(Items items, Catalogue catalogue, LongConsumer tellChanged) {
        this.items = items;
        this.catalogue = catalogue;
        this.tellChanged = tellChanged;
    }

    void addTo(Routes routes) {
        routes.route("GET", "/item/auction/*", exchange -> exchange.answer(
                        catalogue.ofAuction(exchange.number(0), exchange.page(), exchange.pageSize())))
                .route("GET", "/item/user/*/purchased", exchange -> exchange.answer(
                        catalogue.views(items.purchased(UserRoutes.own(exchange), exchange.page(), exchange.pageSize()))))
                .route("GET", "/item/auctioneer/*", exchange -> exchange.answer(
                        catalogue.views(items.ofAuctioneer(exchange.number(0), exchange.page(), exchange.pageSize()))))
                .route("GET", "/item/*", exchange -> exchange.answer(
                        catalogue.item(exchange.number(0)).orElseThrow(() -> new ApiException(404, "no such item"))))
                .route("POST", "/item", exchange ->
                        exchange.answer(201, catalogue.view(items.add(exchange.user(), draft(exchange)))))
                .route("PUT", "/item/*", this::change);
    }

    private void change(Exchange exchange) throws Exception {
        Item changed = items.change(exchange.number(0), exchange.user(), draft(exchange))
                .orElseThrow(() -> new ApiException(404, "you have no such item"));
        catalogue.forget(changed.id());
        tellChanged.accept(changed.id());
        exchange.answer(catalogue.view(changed));
    }

    private static Items.Draft draft(Exchange exchange) throws Exception {
        BigDecimal starting = exchange.amount("startingBidAmount");
        String date = exchange.string("dateOfOrigin");
        try {
            return new Items.Draft(exchange.string("name"), exchange.string("longDescription"),
                    exchange.string("manufacturer"), starting == null ? null : Money.cents(starting),
                    exchange.string("condition"), date == null ? null : LocalDate.parse(date));
        } catch (DateTimeParseException mistake) {
            throw new ApiException(400, "dateOfOrigin is no date");
        }
    }
}
