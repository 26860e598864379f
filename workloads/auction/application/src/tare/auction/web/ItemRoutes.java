package tare.auction.web;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.List;
import tare.auction.Money;
import tare.auction.model.Item;
import tare.auction.model.Page;
import tare.auction.sql.Items;
import tare.auction.store.ImageStore;

/** Items, without what is on the block now. */
final class ItemRoutes {
    private final Items items;
    private final ImageStore images;

    ItemRoutes(Items items, ImageStore images) {
        this.items = items;
        this.images = images;
    }

    void addTo(Routes routes) {
        routes.route("GET", "/item/auction/*", exchange -> exchange.answer(
                        views(items.ofAuction(exchange.number(0), exchange.page(), exchange.pageSize()))))
                .route("GET", "/item/user/*/purchased", exchange -> exchange.answer(
                        views(items.purchased(UserRoutes.own(exchange), exchange.page(), exchange.pageSize()))))
                .route("GET", "/item/auctioneer/*", exchange -> exchange.answer(
                        views(items.ofAuctioneer(exchange.number(0), exchange.page(), exchange.pageSize()))))
                .route("GET", "/item/*", exchange -> exchange.answer(view(
                        items.byId(exchange.number(0)).orElseThrow(() -> new ApiException(404, "no such item")))))
                .route("POST", "/item", exchange -> exchange.answer(201, view(items.add(exchange.user(), draft(exchange)))))
                .route("PUT", "/item/*", exchange -> exchange.answer(view(
                        items.change(exchange.number(0), exchange.user(), draft(exchange))
                                .orElseThrow(() -> new ApiException(404, "you have no such item")))));
    }

    private Item.View view(Item item) throws Exception {
        return item.view(images.of(item.id()));
    }

    private Page<Item.View> views(Page<Item> page) throws Exception {
        List<Item.View> views = new ArrayList<>();
        for (Item item : page.results()) {
            views.add(view(item));
        }
        return new Page<>(page.totalRecords(), page.page(), page.pageSize(), views);
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
