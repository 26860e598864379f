-- The five transactions as functions: each is one statement of the client. Parameters and variables have names that no
-- column has. Rows are locked in one order everywhere (depot, area, buyer; shelves by article), so there are no
-- deadlocks.

-- The buyer with this number, or, if there is a name, the one in the middle of all who have it, by first name.
CREATE FUNCTION buyer_of(in_depot int, in_area int, by_number int, by_name text) RETURNS int
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    namesakes int[];
BEGIN
    IF by_name IS NULL THEN
        RETURN by_number;
    END IF;
    SELECT array_agg(buyer ORDER BY first_name, buyer) INTO namesakes
    FROM buyers WHERE depot = in_depot AND area = in_area AND last_name = by_name;
    RETURN namesakes[(cardinality(namesakes) + 1) / 2];
END
$$;

-- New-Order: the first `line_count` of the wanted articles, each from its supplier. `made` is the number of the
-- purchase; it is NULL if there is no such article, and the client then rolls back.
CREATE FUNCTION place_order(at_depot int, at_area int, by_number int, line_count int, wanted int[], suppliers int[],
    quantities int[], OUT made int, OUT owed numeric, OUT rebate numeric, OUT buyer_name text, OUT buyer_credit text,
    OUT names text[], OUT stocks int[], OUT kinds text[], OUT prices numeric[], OUT amounts numeric[])
LANGUAGE plpgsql
AS $$
DECLARE
    depot_tax numeric;
    area_tax numeric;
    asked record;
    article_name text;
    article_price numeric;
    article_text text;
    shelf_left int;
    shelf_mark text;
    shelf_text text;
    line_amount numeric;
    line_total numeric := 0;
BEGIN
    SELECT tax INTO depot_tax FROM depots WHERE depot = at_depot;
    UPDATE areas SET next_purchase = next_purchase + 1 WHERE depot = at_depot AND area = at_area
    RETURNING next_purchase - 1, tax INTO made, area_tax;
    SELECT discount, last_name, credit INTO rebate, buyer_name, buyer_credit
    FROM buyers WHERE depot = at_depot AND area = at_area AND buyer = by_number;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no buyer % in area % of depot %', by_number, at_area, at_depot;
    END IF;
    INSERT INTO purchases (depot, area, purchase, buyer, placed, carrier, lines, all_local)
    VALUES (at_depot, at_area, made, by_number, now(), NULL, line_count, at_depot = ALL (suppliers[1:line_count]));
    INSERT INTO pending (depot, area, purchase) VALUES (at_depot, at_area, made);
    FOR asked IN
        SELECT each.number::int, each.wants, each.source, each.many
        FROM unnest(wanted[1:line_count], suppliers[1:line_count], quantities[1:line_count])
            WITH ORDINALITY AS each (wants, source, many, number)
        ORDER BY each.wants, each.source, each.number
    LOOP
        SELECT name, price, description INTO article_name, article_price, article_text
        FROM articles WHERE article = asked.wants;
        IF NOT FOUND THEN
            made := NULL;
            RETURN;
        END IF;
        UPDATE shelves
        SET quantity = CASE WHEN quantity < asked.many + 10 THEN quantity - asked.many + 91
                ELSE quantity - asked.many END,
            sold = sold + asked.many,
            orders = orders + 1,
            remote_orders = remote_orders + CASE WHEN asked.source = at_depot THEN 0 ELSE 1 END
        WHERE depot = asked.source AND article = asked.wants
        RETURNING quantity, substr(marks, at_area * 24 - 23, 24), description
        INTO shelf_left, shelf_mark, shelf_text;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'depot % has no shelf for article %', asked.source, asked.wants;
        END IF;
        line_amount := asked.many * article_price;
        line_total := line_total + line_amount;
        INSERT INTO purchase_lines (depot, area, purchase, line, article, supplier, delivered, quantity, amount, mark)
        VALUES (at_depot, at_area, made, asked.number, asked.wants, asked.source, NULL, asked.many, line_amount,
            shelf_mark);
        names[asked.number] := article_name;
        stocks[asked.number] := shelf_left;
        kinds[asked.number] := CASE WHEN article_text LIKE '%GENUINE%' AND shelf_text LIKE '%GENUINE%' THEN 'B'
            ELSE 'G' END;
        prices[asked.number] := article_price;
        amounts[asked.number] := line_amount;
    END LOOP;
    owed := round(line_total * (1 - rebate) * (1 + depot_tax + area_tax), 2);
END
$$;

-- Payment: a buyer, who may live elsewhere, pays at an area of this depot.
CREATE FUNCTION take_payment(at_depot int, at_area int, from_depot int, from_area int, by_number int, by_name text,
    sum_paid numeric, OUT payer int, OUT depot_place text, OUT area_place text, OUT payer_name text,
    OUT payer_place text, OUT payer_phone text, OUT payer_since timestamptz, OUT payer_credit text,
    OUT payer_limit numeric, OUT payer_discount numeric, OUT payer_balance numeric, OUT payer_notes text)
LANGUAGE plpgsql
AS $$
DECLARE
    depot_name text;
    area_name text;
BEGIN
    UPDATE depots SET turnover = turnover + sum_paid WHERE depot = at_depot
    RETURNING name, concat_ws(', ', street1, street2, city, state, zip) INTO depot_name, depot_place;
    UPDATE areas SET turnover = turnover + sum_paid WHERE depot = at_depot AND area = at_area
    RETURNING name, concat_ws(', ', street1, street2, city, state, zip) INTO area_name, area_place;
    payer := buyer_of(from_depot, from_area, by_number, by_name);
    UPDATE buyers
    SET balance = balance - sum_paid,
        paid = paid + sum_paid,
        payments = payments + 1,
        notes = CASE WHEN credit = 'BC'
            THEN left(concat_ws(' ', payer, from_area, from_depot, at_area, at_depot, sum_paid, notes), 500)
            ELSE notes END
    WHERE depot = from_depot AND area = from_area AND buyer = payer
    RETURNING concat_ws(' ', first_name, middle_name, last_name), concat_ws(', ', street1, street2, city, state, zip),
        phone, since, credit, credit_limit, discount, balance, CASE WHEN credit = 'BC' THEN left(notes, 200) END
    INTO payer_name, payer_place, payer_phone, payer_since, payer_credit, payer_limit, payer_discount, payer_balance,
        payer_notes;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no buyer % % in area % of depot %', by_number, by_name, from_area, from_depot;
    END IF;
    INSERT INTO receipts (depot, area, buyer_depot, buyer_area, buyer, moment, amount, remark)
    VALUES (at_depot, at_area, from_depot, from_area, payer, now(), sum_paid, concat_ws('    ', depot_name, area_name));
END
$$;

-- Order-Status: a buyer's last purchase.
CREATE FUNCTION last_order(in_depot int, in_area int, by_number int, by_name text, OUT seen int, OUT seen_name text,
    OUT seen_balance numeric, OUT last_purchase int, OUT last_placed timestamptz, OUT last_carrier int,
    OUT wanted int[], OUT suppliers int[], OUT quantities int[], OUT amounts numeric[], OUT deliveries_at timestamptz[])
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    seen := buyer_of(in_depot, in_area, by_number, by_name);
    SELECT concat_ws(' ', first_name, middle_name, last_name), balance INTO seen_name, seen_balance
    FROM buyers WHERE depot = in_depot AND area = in_area AND buyer = seen;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no buyer % % in area % of depot %', by_number, by_name, in_area, in_depot;
    END IF;
    SELECT purchase, placed, carrier INTO last_purchase, last_placed, last_carrier
    FROM purchases WHERE depot = in_depot AND area = in_area AND buyer = seen ORDER BY purchase DESC LIMIT 1;
    SELECT array_agg(article ORDER BY line), array_agg(supplier ORDER BY line), array_agg(quantity ORDER BY line),
        array_agg(amount ORDER BY line), array_agg(delivered ORDER BY line)
    INTO wanted, suppliers, quantities, amounts, deliveries_at
    FROM purchase_lines WHERE depot = in_depot AND area = in_area AND purchase = last_purchase;
END
$$;

-- Delivery: the oldest pending purchase of each of the ten areas. Another delivery may hold the oldest one; this one
-- waits for it and then takes the next.
CREATE FUNCTION deliver(at_depot int, by_carrier int, OUT done int[], OUT skipped int)
LANGUAGE plpgsql
AS $$
DECLARE
    oldest int;
    receiver int;
    line_total numeric;
BEGIN
    done := '{}';
    skipped := 0;
    FOR in_area IN 1..10 LOOP
        SELECT purchase INTO oldest FROM pending WHERE depot = at_depot AND area = in_area
        ORDER BY purchase LIMIT 1 FOR UPDATE;
        IF NOT FOUND THEN
            skipped := skipped + 1;
            CONTINUE;
        END IF;
        DELETE FROM pending WHERE depot = at_depot AND area = in_area AND purchase = oldest;
        UPDATE purchases SET carrier = by_carrier WHERE depot = at_depot AND area = in_area AND purchase = oldest
        RETURNING buyer INTO receiver;
        WITH sent AS (
            UPDATE purchase_lines SET delivered = now()
            WHERE depot = at_depot AND area = in_area AND purchase = oldest
            RETURNING amount
        )
        SELECT sum(amount) INTO line_total FROM sent;
        UPDATE buyers SET balance = balance + line_total, deliveries = deliveries + 1
        WHERE depot = at_depot AND area = in_area AND buyer = receiver;
        done := done || oldest;
    END LOOP;
END
$$;

-- Stock-Level: how many of the articles in the area's last twenty purchases are short.
CREATE FUNCTION short_articles(at_depot int, at_area int, threshold int) RETURNS bigint
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    upcoming int;
BEGIN
    SELECT next_purchase INTO upcoming FROM areas WHERE depot = at_depot AND area = at_area;
    RETURN (
        SELECT count(DISTINCT shelves.article)
        FROM purchase_lines
        JOIN shelves ON shelves.depot = at_depot AND shelves.article = purchase_lines.article
        WHERE purchase_lines.depot = at_depot AND purchase_lines.area = at_area
            AND purchase_lines.purchase >= upcoming - 20 AND purchase_lines.purchase < upcoming
            AND shelves.quantity < threshold
    );
END
$$;
