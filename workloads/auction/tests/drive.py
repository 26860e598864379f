#!/usr/bin/env python3
"""Bids against running servers, as long as told, and then asks whether every bid that was answered for was decided.

usage: drive.py SECONDS BIDDERS APP_URL BID_URL [BID_URL ...]

Each bidder logs in, joins an auction, follows it by long polls, and bids a little more than the price. Servers may be
killed meanwhile: a request that gets no answer, or one of 5xx, is tried again elsewhere and counts for nothing; a bid that
was answered with ACCEPTED must be in its bidder's history at the end, decided. Exit code 1 if one is not.
"""
import json
import random
import sys
import threading
import time
import urllib.error
import urllib.request


def ask(method, url, token=None, body=None, timeout=60):
    """Status and JSON of an answer; (0, reason) where there is none."""
    headers = {"API_TOKEN": token} if token else {}
    data = json.dumps(body).encode() if body is not None else None
    try:
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode(errors="replace")
    except (OSError, ValueError) as lost:
        return 0, str(lost)


class Bidder(threading.Thread):
    """One user, at one auction."""

    def __init__(self, number, app, bids, end):
        super().__init__(daemon=True)
        self.number, self.app, self.bids, self.end = number, app, bids, end
        self.random = random.Random(number)
        self.accepted, self.steps, self.sold, self.failed = [], 0, 0, 0
        self.token = self.user = None

    def run(self):
        name = f"user{self.number}@auction.test"
        status, me = ask("POST", self.app + "/login", body={"username": name, "password": "password"})
        assert status == 201, (status, me)
        self.token, self.user = me["authToken"], me["id"]
        _, page = ask("GET", self.app + "/live/auction?pageSize=1000", self.token)
        auction = page["results"][self.number % len(page["results"])]["id"]
        ask("POST", self.app + "/live/auction", self.token, {"userId": self.user, "auctionId": auction})
        item, count = None, 0
        while time.time() < self.end:
            server = self.random.choice(self.bids)
            if item is None:
                status, found = ask("GET", f"{server}/item/current/auction/{auction}", self.token)
                item, count = (found["id"], 0) if status == 200 else (None, 0)
            else:
                status, price = ask("GET", f"{server}/bid/auction/{auction}/item/{item}/count/{count}", self.token)
                if status == 200:
                    self.steps += 1
                    count = price["lastBidCount"]
                    if price["itemId"] != item or price["biddingState"] == "SOLD":
                        self.sold += 1
                        item = None
                    elif price["userId"] != self.user and self.random.random() < 0.3:
                        self.bid(auction, item, price["amount"] * self.random.uniform(1.005, 1.06) + 0.01)
            if status not in (200, 408):
                self.failed += 1
                time.sleep(0.2)

    def bid(self, auction, item, amount):
        body = {"userId": self.user, "auctionId": auction, "itemId": item, "amount": round(amount, 2)}
        status, answer = ask("POST", self.random.choice(self.bids) + "/bid", self.token, body)
        if status == 201:
            assert answer["state"] == "ACCEPTED", answer
            self.accepted.append(answer["id"])
        else:
            self.failed += 1

    def undecided(self):
        """Bids of this one that were answered for and are lost, or were never decided."""
        left, page = set(self.accepted), 0
        while left:
            status, found = ask("GET", f"{self.app}/bid/user/{self.user}?page={page}&pageSize=1000", self.token)
            assert status == 200, found
            left -= {bid["id"] for bid in found["results"] if bid["state"] not in ("ACCEPTED", "PROVISIONALLYHIGH")}
            if len(found["results"]) < 1000:
                break
            page += 1
        return left


def main():
    seconds, count, app, *bids = sys.argv[1:]
    end = time.time() + float(seconds)
    bidders = [Bidder(number, app, bids, end) for number in range(1, int(count) + 1)]
    for bidder in bidders:
        bidder.start()
    for bidder in bidders:
        bidder.join(float(seconds) + 90)
    time.sleep(2)
    lost = [bid for bidder in bidders for bid in bidder.undecided()]
    accepted = sum(len(bidder.accepted) for bidder in bidders)
    print(json.dumps({"accepted": accepted, "lost": len(lost), "prices seen": sum(b.steps for b in bidders),
                      "items seen sold": sum(b.sold for b in bidders), "failed": sum(b.failed for b in bidders)}))
    if lost or not accepted:
        print("lost:", lost[:10])
        sys.exit(1)


main()
