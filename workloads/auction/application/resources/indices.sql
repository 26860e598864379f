-- Made after the rows are loaded, one statement a line.
ALTER TABLE userdata ADD PRIMARY KEY (id);
ALTER TABLE auction ADD PRIMARY KEY (id);
ALTER TABLE item ADD PRIMARY KEY (id);
ALTER TABLE highbid ADD PRIMARY KEY (id);
ALTER TABLE keyword ADD PRIMARY KEY (id);
ALTER TABLE auction_keyword ADD PRIMARY KEY (auction_id, keyword_id);
CREATE UNIQUE INDEX userdata_email ON userdata (email);
CREATE INDEX userdata_authtoken ON userdata (authtoken);
CREATE INDEX auction_state ON auction (state, id);
CREATE INDEX auction_auctioneer ON auction (auctioneer_id);
CREATE INDEX item_auction ON item (auction_id, state, id);
CREATE INDEX item_auctioneer ON item (auctioneer_id);
CREATE INDEX item_highbid ON item (highbid_id);
CREATE INDEX highbid_bidder ON highbid (bidder_id, state);
CREATE INDEX highbid_item ON highbid (item_id);
CREATE INDEX highbid_auction ON highbid (auction_id);
-- An auction has one item on the block, whatever its servers do: the database would refuse a second one.
CREATE UNIQUE INDEX highbid_one_open ON highbid (auction_id) WHERE state <> 'SOLD';
ALTER TABLE auction ADD FOREIGN KEY (auctioneer_id) REFERENCES userdata (id);
ALTER TABLE item ADD FOREIGN KEY (auction_id) REFERENCES auction (id);
ALTER TABLE highbid ADD FOREIGN KEY (item_id) REFERENCES item (id);
ALTER TABLE highbid ADD FOREIGN KEY (bidder_id) REFERENCES userdata (id);
ALTER TABLE auction_keyword ADD FOREIGN KEY (auction_id) REFERENCES auction (id);
ALTER TABLE auction_keyword ADD FOREIGN KEY (keyword_id) REFERENCES keyword (id);
CREATE INDEX auction_keyword_keyword ON auction_keyword (keyword_id);
CREATE SEQUENCE userdata_ids;
CREATE SEQUENCE item_ids;
CREATE SEQUENCE highbid_ids;
