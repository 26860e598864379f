-- The twelve conditions of consistency, each as a view of what violates it: all are empty while the data are right.

-- 1: a depot's turnover is the sum of its areas'.
CREATE VIEW condition_01 AS
SELECT depots.depot, depots.turnover, summed.turnover AS of_areas
FROM depots
LEFT JOIN (SELECT depot, sum(turnover) AS turnover FROM areas GROUP BY depot) AS summed USING (depot)
WHERE depots.turnover IS DISTINCT FROM summed.turnover;

-- 2: the next purchase follows the last one, which is the last pending one, too, if any is pending.
CREATE VIEW condition_02 AS
SELECT areas.depot, areas.area, areas.next_purchase, made.last AS last_made, waiting.last AS last_pending
FROM areas
LEFT JOIN (SELECT depot, area, max(purchase) AS last FROM purchases GROUP BY depot, area) AS made USING (depot, area)
LEFT JOIN (SELECT depot, area, max(purchase) AS last FROM pending GROUP BY depot, area) AS waiting USING (depot, area)
WHERE areas.next_purchase - 1 IS DISTINCT FROM made.last
    OR (waiting.last IS NOT NULL AND areas.next_purchase - 1 <> waiting.last);

-- 3: the pending purchases of an area have no gaps.
CREATE VIEW condition_03 AS
SELECT depot, area, min(purchase) AS first, max(purchase) AS last, count(*) AS pending
FROM pending GROUP BY depot, area
HAVING max(purchase) - min(purchase) + 1 <> count(*);

-- 4: an area has as many lines as its purchases say together.
CREATE VIEW condition_04 AS
SELECT depot, area, said.lines AS said, counted.lines AS counted
FROM (SELECT depot, area, sum(lines) AS lines FROM purchases GROUP BY depot, area) AS said
FULL JOIN (SELECT depot, area, count(*) AS lines FROM purchase_lines GROUP BY depot, area) AS counted
    USING (depot, area)
WHERE said.lines IS DISTINCT FROM counted.lines;

-- 5: a purchase has no carrier if and only if it is pending.
CREATE VIEW condition_05 AS
SELECT depot, area, purchase, purchases.carrier, pending.purchase IS NOT NULL AS pending
FROM purchases
FULL JOIN pending USING (depot, area, purchase)
WHERE purchases.purchase IS NULL OR (purchases.carrier IS NULL) <> (pending.purchase IS NOT NULL);

-- 6: a purchase has as many lines as it says.
CREATE VIEW condition_06 AS
SELECT depot, area, purchase, purchases.lines AS said, counted.lines AS counted
FROM purchases
FULL JOIN (
    SELECT depot, area, purchase, count(*) AS lines FROM purchase_lines GROUP BY depot, area, purchase
) AS counted USING (depot, area, purchase)
WHERE purchases.lines IS DISTINCT FROM counted.lines;

-- 7: a line is not delivered if and only if its purchase has no carrier.
CREATE VIEW condition_07 AS
SELECT depot, area, purchase, purchase_lines.line, purchase_lines.delivered, purchases.carrier
FROM purchase_lines
LEFT JOIN purchases USING (depot, area, purchase)
WHERE purchases.purchase IS NULL OR (purchase_lines.delivered IS NULL) <> (purchases.carrier IS NULL);

-- 8: a depot's turnover is the sum of its receipts.
CREATE VIEW condition_08 AS
SELECT depots.depot, depots.turnover, summed.amount AS received
FROM depots
LEFT JOIN (SELECT depot, sum(amount) AS amount FROM receipts GROUP BY depot) AS summed USING (depot)
WHERE depots.turnover IS DISTINCT FROM summed.amount;

-- 9: so is an area's.
CREATE VIEW condition_09 AS
SELECT areas.depot, areas.area, areas.turnover, summed.amount AS received
FROM areas
LEFT JOIN (SELECT depot, area, sum(amount) AS amount FROM receipts GROUP BY depot, area) AS summed
    USING (depot, area)
WHERE areas.turnover IS DISTINCT FROM summed.amount;

-- What each buyer got, by delivered lines.
CREATE VIEW deliveries_by_buyer AS
SELECT purchases.depot, purchases.area, purchases.buyer, sum(purchase_lines.amount) AS amount
FROM purchases
JOIN purchase_lines USING (depot, area, purchase)
WHERE purchase_lines.delivered IS NOT NULL
GROUP BY purchases.depot, purchases.area, purchases.buyer;

-- 10: a buyer's balance is what was delivered less what was paid, by receipts.
CREATE VIEW condition_10 AS
SELECT buyers.depot, buyers.area, buyers.buyer, buyers.balance, got.amount AS delivered, gave.amount AS received
FROM buyers
LEFT JOIN deliveries_by_buyer AS got USING (depot, area, buyer)
LEFT JOIN (
    SELECT buyer_depot AS depot, buyer_area AS area, buyer, sum(amount) AS amount
    FROM receipts GROUP BY buyer_depot, buyer_area, buyer
) AS gave USING (depot, area, buyer)
WHERE buyers.balance <> coalesce(got.amount, 0) - coalesce(gave.amount, 0);

-- 11: of an area's purchases 2100 were delivered when the data were made, and one with each delivery to a buyer since;
-- all others are pending.
CREATE VIEW condition_11 AS
SELECT depot, area, made.purchases, coalesce(waiting.purchases, 0) AS pending, got.deliveries
FROM (SELECT depot, area, count(*) AS purchases FROM purchases GROUP BY depot, area) AS made
LEFT JOIN (SELECT depot, area, count(*) AS purchases FROM pending GROUP BY depot, area) AS waiting USING (depot, area)
LEFT JOIN (SELECT depot, area, sum(deliveries) AS deliveries FROM buyers GROUP BY depot, area) AS got
    USING (depot, area)
WHERE made.purchases - coalesce(waiting.purchases, 0) IS DISTINCT FROM 2100 + got.deliveries;

-- 12: a buyer's balance and what they have paid make what was delivered.
CREATE VIEW condition_12 AS
SELECT buyers.depot, buyers.area, buyers.buyer, buyers.balance, buyers.paid, got.amount AS delivered
FROM buyers
LEFT JOIN deliveries_by_buyer AS got USING (depot, area, buyer)
WHERE buyers.balance + buyers.paid <> coalesce(got.amount, 0);

-- The shares that the load must have, counted over the purchases and payments that are not part of the initial data:
-- ten lines a purchase (from 5 to 15), 1 % of lines from another depot, 15 % of payments by buyers of another depot.
-- Each that is off by more than five standard deviations and 5 is a row here.
CREATE VIEW odd_shares AS
WITH made AS (
    SELECT count(*) AS purchases, coalesce(sum(lines), 0) AS lines FROM purchases WHERE purchase > 3000
), far AS (
    SELECT count(*) AS lines FROM purchase_lines WHERE purchase > 3000 AND supplier <> depot
), taken AS (
    SELECT count(*) - 30000 * (SELECT count(*) FROM depots) AS payments,
        count(*) FILTER (WHERE buyer_depot <> depot) AS far
    FROM receipts
), several AS (
    SELECT CASE WHEN count(*) > 1 THEN 1 ELSE 0 END AS depots FROM depots
), shares (what, found, wanted, variance) AS (
    SELECT 'lines of purchases', made.lines, made.purchases * 10.0, made.purchases * 10.0 FROM made
    UNION ALL
    SELECT 'lines from other depots', far.lines, made.lines * 0.01 * depots, made.lines * 0.01 * 0.99 * depots
    FROM made, far, several
    UNION ALL
    SELECT 'payments at other depots', taken.far, payments * 0.15 * depots, payments * 0.15 * 0.85 * depots
    FROM taken, several
)
SELECT what, found, wanted FROM shares WHERE abs(found - wanted) > 5 * sqrt(variance) + 5 * sign(variance);
