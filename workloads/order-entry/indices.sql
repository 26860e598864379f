-- Keys, made once the tables are full.

ALTER TABLE depots ADD PRIMARY KEY (depot);
ALTER TABLE areas ADD PRIMARY KEY (depot, area);
ALTER TABLE buyers ADD PRIMARY KEY (depot, area, buyer);
ALTER TABLE purchases ADD PRIMARY KEY (depot, area, purchase);
ALTER TABLE pending ADD PRIMARY KEY (depot, area, purchase);
ALTER TABLE purchase_lines ADD PRIMARY KEY (depot, area, purchase, line);
ALTER TABLE articles ADD PRIMARY KEY (article);
ALTER TABLE shelves ADD PRIMARY KEY (depot, article);
-- A buyer by last name, and the last purchase of a buyer.
CREATE INDEX buyers_by_name ON buyers (depot, area, last_name, first_name);
CREATE INDEX purchases_by_buyer ON purchases (depot, area, buyer, purchase);
