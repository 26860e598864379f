#!/usr/bin/env python3
"""Which mix of operations the behaviours of workload.yaml come to, by simulating users, followers and auctions whose
answers take no time. Prints each operation's share beside the published one; `mix.py USERS` for another number of users
to a page of five auctions than 60."""
import heapq
import random
import sys

LIST, DETAIL, LOGOUT = "active-auctions", "auction-detail", "logout"
HISTORIES = ("bid-history", "attendance-history", "purchase-history")
# By behaviour: what always follows what, what is drawn elsewhere, the chance of a bid, and the published shares.
OFFICIAL2 = dict(
    after={None: "home", "home": "login", "login": "profile", "profile": LIST, "join": LIST, DETAIL: "item-detail",
           "item-detail": "image", LOGOUT: "home"},
    other={LIST: 20, DETAIL: 20, **dict.fromkeys(HISTORIES, 12), "add-item": 12, LOGOUT: 12}, bid=0.19,
    published={"home": 2.35, "login": 2.35, LIST: 10.95, DETAIL: 3.90, "profile": 2.35, "join": 4.69,
               "current-item": 5.23, "next-bid": 46.43, "place-bid": 2.20, "bid-history": 2.35,
               "attendance-history": 2.36, "purchase-history": 2.35, "item-detail": 3.91, "image": 3.91,
               "add-item": 2.35, LOGOUT: 2.35})
OFFICIAL = dict(
    after={None: "home", "home": "login", "login": "profile", "profile": LIST, DETAIL: "item-detail", "leave": LIST,
           LOGOUT: "home"},
    other={DETAIL: 50, "update-profile": 5, "bid-history": 5, "attendance-history": 5, "purchase-history": 10,
           "add-item": 15, LOGOUT: 10}, bid=0.32,
    published={"home": 0.93, "login": 0.93, LIST: 15.10, DETAIL: 7.59, "profile": 0.93, "update-profile": 0.46,
               "join": 6.93, "current-item": 7.00, "next-bid": 39.75, "place-bid": 2.80, "leave": 5.20,
               "bid-history": 0.46, "attendance-history": 0.47, "purchase-history": 0.93, "item-detail": 7.59,
               "image": 0.40, "add-item": 1.38, "add-image": 0.22, LOGOUT: 0.93})
AUCTIONS, IDLE, WARM, END = 5, 30.0, 300.0, 20_000.0


class One(dict):
    """A user, a follower or an auction: itself only, whatever another one's values are."""
    __eq__, __hash__ = object.__eq__, object.__hash__


class Site:
    """Users, each with a place on the way and the auctions that it follows, and what happens to auctions."""

    def __init__(self, which, users):
        self.which, self.official = which, which is OFFICIAL
        self.draw, self.events, self.order, self.counts = random.Random(1), [], 0, {}
        self.users = [One(place=None, follows=[], heard=None) for _ in range(users)]
        self.auctions = [One(count=0, changed=0.0, called=False, bidder=None, followers=[]) for _ in range(AUCTIONS)]

    def at(self, moment, what, *of):
        self.order += 1
        heapq.heappush(self.events, (moment, self.order, what, of))

    def pause(self):
        if self.official:
            return self.draw.expovariate(1 / 5)
        return min(7.5, max(2.5, self.draw.gauss(5, 1.25)))

    def pick(self, weights):
        return self.draw.choices(list(weights), list(weights.values()))[0]

    def count(self, operation, now):
        if now > WARM:
            self.counts[operation] = self.counts.get(operation, 0) + 1

    def next_of(self, user):
        """The operation that the user asks for next."""
        place, follows = user["place"], len(user["follows"])
        if place in self.which["after"]:
            return self.which["after"][place]
        if self.official and place in ("item-detail", "image"):
            return "image" if self.draw.random() < 0.05 else LIST
        if self.official and place in ("add-item", "add-image"):
            return "add-image" if self.draw.random() < (0.15 if place == "add-item" else 0.05) else LIST
        if self.official and place == LIST:
            return "leave" if follows == 2 else self.pick({DETAIL: 30, "join": 70})
        if place == LIST:
            return "join" if follows < 2 else self.pick(self.which["other"])
        heard = user["heard"]
        bids = place != "place-bid" and heard is not None and self.auctions[heard]["bidder"] is not user
        return "place-bid" if bids and self.draw.random() < self.which["bid"] else self.pick(self.which["other"])

    def step(self, now, user):
        user["place"] = operation = self.next_of(user)
        self.count(operation, now)
        if operation in ("home", LOGOUT):
            for follower in user["follows"]:
                follower["ends"] = True
            user["follows"] = []
        elif operation == "leave":
            user["follows"].pop()["ends"] = True
        elif operation == "join":
            follower = One(user=user, auction=self.draw.randrange(AUCTIONS), waits=False, ends=False, knows=0)
            user["follows"].append(follower)
            self.auctions[follower["auction"]]["followers"].append(follower)
            self.at(now, "look", follower)
        elif operation == "place-bid":
            self.auctions[user["heard"]]["bidder"] = user
            self.tell(now, self.auctions[user["heard"]], "bid")
        self.at(now + self.pause(), "step", user)

    def look(self, now, follower):
        """What is on the block; then the follower waits for what is new."""
        if not follower["ends"]:
            self.count("current-item", now)
            follower["knows"] = self.auctions[follower["auction"]]["count"]
            self.at(now + self.rest(), "poll", follower)

    def poll(self, now, follower):
        auction = self.auctions[follower["auction"]]
        if follower["ends"]:
            auction["followers"].remove(follower)
        elif follower["knows"] < auction["count"]:
            self.answer(now, follower, "bid")
        else:
            follower["waits"] = True

    def rest(self):
        return self.pause() if self.official else 0.01

    def answer(self, now, follower, what):
        follower["waits"] = False
        self.count("next-bid", now)
        follower["user"]["heard"] = follower["auction"]
        follower["knows"] = self.auctions[follower["auction"]]["count"]
        self.at(now + self.rest(), "look" if what == "sold" else "poll", follower)

    def tell(self, now, auction, what):
        auction["count"] += 1
        auction["changed"], auction["called"] = now, what == "last call"
        for follower in [one for one in auction["followers"] if one["waits"]]:
            self.answer(now, follower, what)

    def watch(self, now, auction):
        if now >= auction["changed"] + IDLE:
            what = "sold" if auction["called"] else "last call"
            auction["bidder"] = None if what == "sold" else auction["bidder"]
            self.tell(now, auction, what)
        self.at(auction["changed"] + IDLE, "watch", auction)

    def run(self):
        for user in self.users:
            self.at(self.pause(), "step", user)
        for auction in self.auctions:
            self.at(IDLE, "watch", auction)
        while self.events[0][0] < END:
            now, _, what, of = heapq.heappop(self.events)
            getattr(self, what)(now, *of)
        total = sum(self.counts.values())
        return {name: 100 * count / total for name, count in self.counts.items()}


for name, which in (("official2", OFFICIAL2), ("official", OFFICIAL)):
    shares = Site(which, int(sys.argv[1]) if len(sys.argv) > 1 else 60).run()
    print(f"{name:20} {'here':>6} {'published':>9}")
    for operation, published in which["published"].items():
        off = shares[operation] / published - 1
        print(f"  {operation:18} {shares[operation]:6.2f} {published:9.2f} {off:+5.0%}")
