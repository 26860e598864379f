-- The tables, without the indices: those are made when the rows are there. Identifiers of rows that are loaded are
-- given by the generator; later ones come from the sequences.
CREATE TABLE userdata (
    id bigint NOT NULL,
    email text NOT NULL,
    password text NOT NULL,
    firstname text NOT NULL,
    lastname text NOT NULL,
    authtoken text,
    -- In cents. What was granted never changes; what is left is what was granted less what was bought since.
    creditgranted bigint NOT NULL,
    creditlimit bigint NOT NULL,
    enabled boolean NOT NULL,
    loggedin boolean NOT NULL,
    authorities text NOT NULL,
    version int NOT NULL DEFAULT 0
);
CREATE TABLE auction (
    id bigint NOT NULL,
    name text NOT NULL,
    category text NOT NULL,
    starttime timestamp NOT NULL,
    endtime timestamp,
    state text NOT NULL,
    current boolean NOT NULL,
    activated boolean NOT NULL,
    auctioneer_id bigint NOT NULL,
    version int NOT NULL DEFAULT 0
);
CREATE TABLE item (
    id bigint NOT NULL,
    shortdescription text NOT NULL,
    longdescription text NOT NULL,
    manufacturer text NOT NULL,
    startingbid bigint NOT NULL,
    state text NOT NULL,
    cond text NOT NULL,
    dateoforigin date NOT NULL,
    auction_id bigint,
    auctioneer_id bigint NOT NULL,
    highbid_id bigint,
    preloaded boolean NOT NULL,
    version int NOT NULL DEFAULT 0
);
CREATE TABLE highbid (
    id bigint NOT NULL,
    amount bigint NOT NULL,
    bidcount int NOT NULL,
    state text NOT NULL,
    bidder_id bigint NOT NULL,
    item_id bigint NOT NULL,
    auction_id bigint NOT NULL,
    bid_uuid uuid,
    biddingstarttime timestamp NOT NULL,
    currentbidtime timestamp NOT NULL,
    biddingendtime timestamp,
    preloaded boolean NOT NULL,
    version int NOT NULL DEFAULT 0
);
CREATE TABLE keyword (id bigint NOT NULL, keyword text NOT NULL);
CREATE TABLE auction_keyword (auction_id bigint NOT NULL, keyword_id bigint NOT NULL);
-- Microseconds that are added to the machine's clock. The first process to start writes the one row.
CREATE TABLE fixedtimeoffset (id int PRIMARY KEY CHECK (id = 1), micros bigint NOT NULL);
-- Written when everything is loaded and was found to be what it should be.
CREATE TABLE dbbenchmarkinfo (
    maxusers int NOT NULL,
    history double precision NOT NULL,
    seed bigint NOT NULL,
    imagestoretype text NOT NULL,
    images boolean NOT NULL
);
