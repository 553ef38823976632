"""A worker of another make, by the contract alone (M7): claims, sends over HTTP, finishes, with sqlite3 only.

Usage: interop.py QUEUE URL OWNER LOG. Runs until it is killed; LOG gets a line for each job that it finished.
"""
import http.client
import json
import random
import sqlite3
import sys
import time
from urllib.parse import urlparse

QUEUE, URL, OWNER, LOG = sys.argv[1:]
LEASE_MS = 1500
URL = urlparse(URL)


def now_ms():
    return int(time.time() * 1000)


def transaction(con, work):
    while True:
        try:
            con.execute("BEGIN IMMEDIATE")
            try:
                result = work()
                con.execute("COMMIT")
                return result
            except BaseException:
                if con.in_transaction:
                    con.execute("ROLLBACK")
                raise
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            time.sleep(random.random() * 0.01)


def claim(con):
    def work():
        now = now_ms()
        con.execute(
            "UPDATE jobs SET status='dead', reason=CASE WHEN deadline<=:n THEN 'deadline' ELSE 'exhausted' END,"
            " owner=NULL, lease_until=NULL WHERE (status='pending' OR status='leased' AND lease_until<=:n)"
            " AND (deadline<=:n OR attempts>=max_attempts)", {"n": now})
        row = con.execute(
            "SELECT seq,id,qty,token,attempts,deadline FROM jobs WHERE status='pending' AND available_at<=:n"
            " OR status='leased' AND lease_until<=:n ORDER BY seq LIMIT 1", {"n": now}).fetchone()
        if row is None:
            return None
        seq, id_, qty, token, attempts, deadline = row
        until = min(now + LEASE_MS, deadline)
        con.execute(
            "UPDATE jobs SET status='leased', attempts=attempts+1, token=token+1, owner=?, lease_until=?, reason=NULL"
            " WHERE seq=?", (OWNER, until, seq))
        return {"id": id_, "qty": qty, "owner": OWNER, "token": token + 1, "attempt": attempts + 1,
                "lease_until": until}
    return transaction(con, work)


def finish(con, ticket):
    def work():
        now = now_ms()
        return con.execute(
            "UPDATE jobs SET status='done', reason=NULL, available_at=:now, owner=NULL, lease_until=NULL"
            " WHERE id=:id AND status='leased' AND qty=:qty AND owner=:owner AND token=:token AND attempts=:attempt"
            " AND lease_until=:lease_until AND :now<lease_until AND :now<deadline", dict(ticket, now=now)).rowcount
    return transaction(con, work) == 1


def send(ticket):
    body = json.dumps({"id": ticket["id"], "qty": ticket["qty"]}, separators=(",", ":"))
    connection = http.client.HTTPConnection(URL.hostname, URL.port, timeout=1)
    try:
        connection.request("POST", URL.path, body, {
            "Content-Type": "application/json", "Idempotency-Key": '"%s"' % ticket["id"]})
        reply = connection.getresponse()
        return reply.status == 200 and json.loads(reply.read()) == {"ok": True}
    except OSError:
        return False
    finally:
        connection.close()


con = sqlite3.connect(QUEUE, isolation_level=None, timeout=0.05)
con.execute("PRAGMA busy_timeout=10000")
con.execute("PRAGMA synchronous=FULL")
con.execute("PRAGMA busy_timeout=50")
print("working", file=sys.stderr, flush=True)
while True:
    ticket = claim(con)
    if ticket is None:
        time.sleep(0.02)
    elif send(ticket) and finish(con, ticket):
        with open(LOG, "a", encoding="ascii") as log:
            log.write(ticket["id"] + "\n")
