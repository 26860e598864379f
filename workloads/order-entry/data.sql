-- Fills the tables for :warehouses depots. Every value follows from its row's key, so all copies of the data are the
-- same, in whatever order rows are made. README.md lists sizes and distributions.

-- A number from `low` to `high`, all equally likely. `salt` is another number for each column.
CREATE FUNCTION drawn(key bigint, salt bigint, low bigint, high bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT low + (hashint8extended(key, salt) & 9223372036854775807) % (high - low + 1) $$;

-- `length` characters, at most 64.
CREATE FUNCTION filler(key bigint, salt bigint, length bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT left(md5(key::text || ':' || salt::text) || md5(salt::text || ':' || key::text), length::int) $$;

-- `length` characters; one text in ten has the word GENUINE somewhere.
CREATE FUNCTION described(key bigint, salt bigint, length bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
SELECT CASE WHEN drawn(key, salt + 1, 1, 10) = 1
    THEN overlay(filler(key, salt, length) PLACING 'GENUINE' FROM drawn(key, salt + 2, 1, length - 6)::int)
    ELSE filler(key, salt, length) END
$$;

-- The last name of a number from 0 to 999: a syllable for each of its digits.
CREATE FUNCTION family_name(number int) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    syllables CONSTANT text[] := '{ELM,STONE,FORD,LEY,WICK,TON,BURY,RIDGE,BROOK,DALE}';
BEGIN
    RETURN syllables[number / 100 + 1] || syllables[number / 10 % 10 + 1] || syllables[number % 10 + 1];
END
$$;

INSERT INTO articles (article, picture, name, price, description)
SELECT article, drawn(article, 101, 1, 10000),
    (ARRAY['folding', 'painted', 'polished', 'striped', 'copper', 'wooden', 'quilted', 'enamel', 'walnut', 'velvet',
        'cordless', 'compact', 'leather', 'crystal', 'ceramic', 'silver'])[drawn(article, 102, 1, 16)::int]
    || ' ' ||
    (ARRAY['lantern', 'bookcase', 'armchair', 'saucepan', 'blanket', 'backpack', 'umbrella', 'wardrobe', 'notebook',
        'hammock', 'tablecloth', 'corkscrew', 'birdhouse', 'toolbox', 'doorbell',
        'flowerpot'])[drawn(article, 103, 1, 16)::int],
    drawn(article, 104, 100, 10000) / 100.0,
    described(article, 105, drawn(article, 108, 26, 50))
FROM generate_series(1, 100000) AS article;

INSERT INTO depots (depot, name, street1, street2, city, state, zip, tax, turnover)
SELECT depot, filler(depot, 201, drawn(depot, 202, 6, 10)), filler(depot, 203, drawn(depot, 204, 10, 20)),
    filler(depot, 205, drawn(depot, 206, 10, 20)), filler(depot, 207, drawn(depot, 208, 10, 20)),
    chr(drawn(depot, 209, 65, 90)::int) || chr(drawn(depot, 210, 65, 90)::int),
    lpad(drawn(depot, 211, 0, 999999999)::text, 9, '0'), drawn(depot, 212, 0, 2000) / 10000.0, 300000
FROM generate_series(1, :warehouses) AS depot;

INSERT INTO areas (depot, area, name, street1, street2, city, state, zip, tax, turnover, next_purchase)
SELECT depot, area, filler(key, 301, drawn(key, 302, 6, 10)), filler(key, 303, drawn(key, 304, 10, 20)),
    filler(key, 305, drawn(key, 306, 10, 20)), filler(key, 307, drawn(key, 308, 10, 20)),
    chr(drawn(key, 309, 65, 90)::int) || chr(drawn(key, 310, 65, 90)::int),
    lpad(drawn(key, 311, 0, 999999999)::text, 9, '0'), drawn(key, 312, 0, 2000) / 10000.0, 30000, 3001
FROM generate_series(1, :warehouses) AS depot, generate_series(1, 10) AS area,
    LATERAL (SELECT (depot - 1)::bigint * 10 + area AS key) AS keyed;

INSERT INTO shelves (depot, article, quantity, marks, sold, orders, remote_orders, description)
SELECT depot, article, drawn(key, 401, 10, 100),
    left((SELECT string_agg(md5(key::text || ':' || part::text), '') FROM generate_series(1, 8) AS part), 240),
    0, 0, 0, described(key, 402, drawn(key, 405, 26, 50))
FROM generate_series(1, :warehouses) AS depot, generate_series(1, 100000) AS article,
    LATERAL (SELECT (depot - 1)::bigint * 100000 + article AS key) AS keyed;

-- The first thousand last names in turn, the others by NURand with A = 255. Its C is 123 here; that of the load,
-- `c_name` in workload.yaml, must differ from it.
INSERT INTO buyers (depot, area, buyer, first_name, middle_name, last_name, street1, street2, city, state, zip, phone,
    since, credit, credit_limit, discount, balance, paid, payments, deliveries, notes)
SELECT depot, area, buyer, filler(key, 501, drawn(key, 502, 8, 16)), 'OE',
    family_name(CASE WHEN buyer <= 1000 THEN buyer - 1
        ELSE (((drawn(key, 503, 0, 255) | drawn(key, 504, 0, 999)) + 123) % 1000)::int END),
    filler(key, 505, drawn(key, 506, 10, 20)), filler(key, 507, drawn(key, 508, 10, 20)),
    filler(key, 509, drawn(key, 510, 10, 20)),
    chr(drawn(key, 511, 65, 90)::int) || chr(drawn(key, 512, 65, 90)::int),
    lpad(drawn(key, 513, 0, 999999999)::text, 9, '0'), lpad(drawn(key, 514, 0, 9999999999999999)::text, 16, '0'),
    timestamptz '2026-01-01 00:00:00+00', CASE WHEN drawn(key, 515, 1, 10) = 1 THEN 'BC' ELSE 'GC' END, 50000,
    drawn(key, 516, 0, 5000) / 10000.0, -10, 10, 1, 0,
    left((SELECT string_agg(md5(part::text || ':' || key::text), '') FROM generate_series(1, 16) AS part),
        drawn(key, 517, 300, 500)::int)
FROM generate_series(1, :warehouses) AS depot, generate_series(1, 10) AS area, generate_series(1, 3000) AS buyer,
    LATERAL (SELECT ((depot - 1)::bigint * 10 + area - 1) * 3000 + buyer AS key) AS keyed;

INSERT INTO receipts (depot, area, buyer_depot, buyer_area, buyer, moment, amount, remark)
SELECT depot, area, depot, area, buyer, since, 10, filler(key, 601, drawn(key, 602, 12, 24))
FROM buyers, LATERAL (SELECT ((depot - 1)::bigint * 10 + area - 1) * 3000 + buyer AS key) AS keyed;

-- Each buyer has made one purchase, in an order shuffled within the area; the last 900 are not delivered.
INSERT INTO purchases (depot, area, purchase, buyer, placed, carrier, lines, all_local)
SELECT depot, area, purchase, buyer, since, CASE WHEN purchase <= 2100 THEN drawn(key, 701, 1, 10) END,
    drawn(key, 702, 5, 15), true
FROM (
    SELECT depot, area, buyer, since, key,
        row_number() OVER (PARTITION BY depot, area ORDER BY drawn(key, 703, 0, 999999999999), buyer) AS purchase
    FROM buyers, LATERAL (SELECT ((depot - 1)::bigint * 10 + area - 1) * 3000 + buyer AS key) AS keyed
) AS shuffled
ORDER BY depot, area, purchase;

INSERT INTO pending (depot, area, purchase)
SELECT depot, area, purchase FROM purchases WHERE carrier IS NULL ORDER BY depot, area, purchase;

INSERT INTO purchase_lines (depot, area, purchase, line, article, supplier, delivered, quantity, amount, mark)
SELECT depot, area, purchase, line, drawn(key, 801, 1, 100000), depot,
    CASE WHEN carrier IS NOT NULL THEN placed END, 5,
    CASE WHEN carrier IS NOT NULL THEN 0 ELSE drawn(key, 802, 1, 999999) / 100.0 END, filler(key, 803, 24)
FROM purchases, LATERAL generate_series(1, lines) AS line,
    LATERAL (SELECT (((depot - 1)::bigint * 10 + area - 1) * 3000 + purchase) * 16 + line AS key) AS keyed
ORDER BY depot, area, purchase, line;
