package tare.auction.data;

import java.util.function.Consumer;

/** The tables that are loaded by COPY: the columns, in what they are counted, and how many rows there are to be. */
enum Table {
    USERDATA("id, email, password, firstname, lastname, authtoken, creditgranted, creditlimit, enabled, loggedin,"
            + " authorities, version") {
        @Override
        int units(Sizes sizes) {
            return sizes.users();
        }

        @Override
        long rows(Sizes sizes) {
            return sizes.users();
        }

        @Override
        void lines(Generator generator, Sizes sizes, int from, int to, Consumer<String> line) {
            generator.users(from, to, line);
        }
    },
    AUCTION("id, name, category, starttime, endtime, state, current, activated, auctioneer_id, version") {
        @Override
        int units(Sizes sizes) {
            return sizes.auctions();
        }

        @Override
        long rows(Sizes sizes) {
            return sizes.auctions();
        }

        @Override
        void lines(Generator generator, Sizes sizes, int from, int to, Consumer<String> line) {
            generator.auctions(from, to, line);
        }
    },
    ITEM("id, shortdescription, longdescription, manufacturer, startingbid, state, cond, dateoforigin, auction_id,"
            + " auctioneer_id, highbid_id, preloaded, version") {
        @Override
        int units(Sizes sizes) {
            return sizes.auctions();
        }

        @Override
        long rows(Sizes sizes) {
            return sizes.items();
        }

        @Override
        void lines(Generator generator, Sizes sizes, int from, int to, Consumer<String> line) {
            generator.items(from, to, line);
        }
    },
    HIGHBID("id, amount, bidcount, state, bidder_id, item_id, auction_id, bid_uuid, biddingstarttime, currentbidtime,"
            + " biddingendtime, preloaded, version") {
        @Override
        int units(Sizes sizes) {
            return sizes.historicAuctions();
        }

        @Override
        long rows(Sizes sizes) {
            return sizes.purchases();
        }

        @Override
        void lines(Generator generator, Sizes sizes, int from, int to, Consumer<String> line) {
            int before = sizes.currentAuctions();
            generator.purchases(before + from, before + to, line);
        }
    },
    KEYWORD("id, keyword") {
        @Override
        int units(Sizes sizes) {
            return Sizes.KEYWORDS;
        }

        @Override
        long rows(Sizes sizes) {
            return Sizes.KEYWORDS;
        }

        @Override
        void lines(Generator generator, Sizes sizes, int from, int to, Consumer<String> line) {
            generator.keywords(from, to, line);
        }
    },
    AUCTION_KEYWORD("auction_id, keyword_id") {
        @Override
        int units(Sizes sizes) {
            return sizes.auctions();
        }

        @Override
        long rows(Sizes sizes) {
            return sizes.auctionKeywords();
        }

        @Override
        void lines(Generator generator, Sizes sizes, int from, int to, Consumer<String> line) {
            generator.auctionKeywords(from, to, line);
        }
    };

    private final String columns;

    Table(String columns) {
        this.columns = columns;
    }

    /** The name and columns, as COPY wants them. */
    String columns() {
        return name().toLowerCase(java.util.Locale.ROOT) + " (" + columns + ")";
    }

    /** What can be made apart from each other: users, words, or auctions. */
    abstract int units(Sizes sizes);

    /** How many rows there are to be. */
    abstract long rows(Sizes sizes);

    /** The lines of the units {@code from} to {@code to}, counted from 1. */
    abstract void lines(Generator generator, Sizes sizes, int from, int to, Consumer<String> line);
}
