"""Counts the votes of the queue in the database."""

import os
import socket

import psycopg2

database = psycopg2.connect(host=os.environ["DB_HOST"], user="postgres", dbname="postgres")
database.autocommit = True
cursor = database.cursor()
cursor.execute("CREATE TABLE IF NOT EXISTS votes (choice text PRIMARY KEY, count bigint NOT NULL)")

queue = socket.create_connection((os.environ["QUEUE_HOST"], 6379))
lines = queue.makefile("rb")
print("counting", flush=True)
while True:
    queue.sendall(b"BLPOP votes 0\r\n")
    choice = [lines.readline() for _ in range(5)][4].decode().strip()
    cursor.execute(
        "INSERT INTO votes VALUES (%s, 1) ON CONFLICT (choice) DO UPDATE SET count = votes.count + 1 RETURNING count",
        (choice,),
    )
    queue.sendall(b"SET stored %d\r\n" % cursor.fetchone()[0])
    lines.readline()
