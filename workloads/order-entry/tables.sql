-- The nine tables, without keys: they are filled first. README.md says what each is for.

CREATE TABLE depots (
    depot int NOT NULL,
    name varchar(10) NOT NULL,
    street1 varchar(20) NOT NULL,
    street2 varchar(20) NOT NULL,
    city varchar(20) NOT NULL,
    state char(2) NOT NULL,
    zip char(9) NOT NULL,
    tax numeric(4, 4) NOT NULL,
    turnover numeric(14, 2) NOT NULL
) WITH (fillfactor = 20);

CREATE TABLE areas (
    depot int NOT NULL,
    area int NOT NULL,
    name varchar(10) NOT NULL,
    street1 varchar(20) NOT NULL,
    street2 varchar(20) NOT NULL,
    city varchar(20) NOT NULL,
    state char(2) NOT NULL,
    zip char(9) NOT NULL,
    tax numeric(4, 4) NOT NULL,
    turnover numeric(14, 2) NOT NULL,
    next_purchase int NOT NULL
) WITH (fillfactor = 20);

CREATE TABLE buyers (
    depot int NOT NULL,
    area int NOT NULL,
    buyer int NOT NULL,
    first_name varchar(16) NOT NULL,
    middle_name char(2) NOT NULL,
    last_name varchar(16) NOT NULL,
    street1 varchar(20) NOT NULL,
    street2 varchar(20) NOT NULL,
    city varchar(20) NOT NULL,
    state char(2) NOT NULL,
    zip char(9) NOT NULL,
    phone char(16) NOT NULL,
    since timestamptz NOT NULL,
    credit char(2) NOT NULL,
    credit_limit numeric(12, 2) NOT NULL,
    discount numeric(4, 4) NOT NULL,
    balance numeric(12, 2) NOT NULL,
    paid numeric(12, 2) NOT NULL,
    payments int NOT NULL,
    deliveries int NOT NULL,
    notes varchar(500) NOT NULL
) WITH (fillfactor = 90);

CREATE TABLE receipts (
    depot int NOT NULL,
    area int NOT NULL,
    buyer_depot int NOT NULL,
    buyer_area int NOT NULL,
    buyer int NOT NULL,
    moment timestamptz NOT NULL,
    amount numeric(6, 2) NOT NULL,
    remark varchar(24) NOT NULL
);

CREATE TABLE purchases (
    depot int NOT NULL,
    area int NOT NULL,
    purchase int NOT NULL,
    buyer int NOT NULL,
    placed timestamptz NOT NULL,
    carrier int,
    lines int NOT NULL,
    all_local boolean NOT NULL
);

CREATE TABLE pending (
    depot int NOT NULL,
    area int NOT NULL,
    purchase int NOT NULL
);

CREATE TABLE purchase_lines (
    depot int NOT NULL,
    area int NOT NULL,
    purchase int NOT NULL,
    line int NOT NULL,
    article int NOT NULL,
    supplier int NOT NULL,
    delivered timestamptz,
    quantity int NOT NULL,
    amount numeric(6, 2) NOT NULL,
    mark char(24) NOT NULL
);

CREATE TABLE articles (
    article int NOT NULL,
    picture int NOT NULL,
    name varchar(24) NOT NULL,
    price numeric(5, 2) NOT NULL,
    description varchar(50) NOT NULL
);

CREATE TABLE shelves (
    depot int NOT NULL,
    article int NOT NULL,
    quantity int NOT NULL,
    -- Ten marks of 24 characters, one for each area.
    marks char(240) NOT NULL,
    sold int NOT NULL,
    orders int NOT NULL,
    remote_orders int NOT NULL,
    description varchar(50) NOT NULL
) WITH (fillfactor = 90);
