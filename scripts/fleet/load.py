#!/usr/bin/env python3
"""Load for a fleet: clients that stream, and go on elsewhere when a stream breaks. Needs Python alone.

  load.py hits --url http://127.0.0.1:8100 --replicas URL ...
      what the prefix caches saved, by the replicas' metrics
  load.py kill --url http://127.0.0.1:8100 --replicas URL ... --pid-file FILE
      kills that replica with -9 under load, and compares what each client got with another replica's unbroken stream

The work is G groups of N requests; those of a group share a long prefix. The order is random, the same each time."""
import argparse
import concurrent.futures
import http.client
import json
import os
import random
import re
import signal
import threading
import time
import urllib.parse
from pathlib import Path

WORDS = ("Hugo Flora castle river lantern whistle garden winter morning orange quiet brave hill story friend door stone "
         "bread music window forest answer little golden bridge market").split()


def requests(groups, per_group, shared_words, own_words, max_tokens, extra=None):
    """(group, body) of each, in an order that mixes the groups; `extra` goes into each body."""
    work = []
    for group in range(groups):
        pick = random.Random(group)
        shared = " ".join(pick.choice(WORDS) for _ in range(shared_words))
        for i in range(per_group):
            own = " ".join(pick.choice(WORDS) for _ in range(own_words))
            work.append((f"group-{group}", {
                "model": "demo", "prompt": f"{shared}. {own}", "max_tokens": max_tokens, "temperature": 0.8,
                "seed": group * 1000 + i, "ignore_eos": True, "stream": True,
                "stream_options": {"include_usage": True}, **(extra or {})}))
    random.Random(7).shuffle(work)
    return work


class Broken(Exception):
    """The connection ended before the stream did."""


class Client:
    """One request, resumed until the whole answer is there: at the first of `urls`, after each break at the next."""

    def __init__(self, urls, group, body, patience_s=60):
        self.urls, self.group, self.body, self.patience_s = urls, group, body, patience_s
        self.last_id, self.text, self.tokens, self.finish, self.usage = None, "", [], None, None
        self.ids, self.done, self.num_breaks, self.first_s = set(), False, 0, None
        self.resumed_tokens = 0  # that it had when it went on elsewhere

    def run(self):
        self.begin = time.monotonic()
        while not self.done:
            try:
                self.stream()
            except (Broken, OSError, http.client.HTTPException):
                self.num_breaks += 1
                if time.monotonic() - self.begin > self.patience_s:
                    return self  # not done: the caller counts it as lost
                time.sleep(0.05)
        self.seconds = time.monotonic() - self.begin
        return self

    def stream(self):
        url = urllib.parse.urlsplit(self.urls[self.num_breaks % len(self.urls)])
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
        headers = {"Content-Type": "application/json", "X-Prefix-Group": self.group}
        body = dict(self.body)
        if self.last_id is not None:
            headers["Last-Event-ID"] = self.last_id
            self.resumed_tokens = len(self.tokens)
            if self.tokens:
                body["resume_token_ids"] = self.tokens  # so that going on costs about a prefill
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), headers)
            response = connection.getresponse()
            if response.status in (429, 500, 502, 503, 504):
                raise Broken(response.read())
            if response.status != 200:
                raise RuntimeError(f"status {response.status}: {response.read().decode()}")
            event = {}
            for line in response:
                line = line.decode().rstrip("\n")
                if not line:
                    self.take(event)
                    event = {}
                elif not line.endswith("\r") and ": " in line:
                    name, value = line.split(": ", 1)
                    event[name] = value
            if not self.done:
                raise Broken("the stream ended without [DONE]")
        finally:
            connection.close()

    def take(self, event):
        data = event.get("data")
        if data is None:
            return  # a comment
        if data == "[DONE]":
            self.done = True
            return
        chunk = json.loads(data)
        if "error" in chunk:
            raise Broken(chunk["error"]["message"])
        if self.first_s is None:
            self.first_s = time.monotonic() - self.begin
        self.ids.add((chunk["id"], chunk["created"], chunk["system_fingerprint"]))
        for choice in chunk["choices"]:
            self.text += choice["text"]
            self.tokens += choice.get("token_ids") or []
            self.finish = choice["finish_reason"] or self.finish
        self.usage = chunk.get("usage") or self.usage
        self.last_id = event.get("id", self.last_id)

    def answer(self):
        """What it got, without what is drawn for each answer (id, created)."""
        usage = {key: self.usage[key] for key in ("prompt_tokens", "completion_tokens", "total_tokens")}
        return self.text, self.tokens, self.finish, usage, len(self.ids)


def run_all(urls, work, concurrency):
    def run(numbered):
        number, item = numbered
        first = number % len(urls)
        return Client(urls[first:] + urls[:first], *item).run()

    with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
        return list(pool.map(run, enumerate(work)))


def metric(url, name):
    at = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=10)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return sum(float(value) for value in re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.M))


def figures(replicas):
    names = {"hits": "vllm:prefix_cache_hits_total", "queries": "vllm:prefix_cache_queries_total",
             "requests": "vllm:request_success_total", "evicted": "mortise_prefix_cache_evicted_blocks_total"}
    return [{key: metric(url, name) for key, name in names.items()} for url in replicas]


def hits(options, work):
    before = figures(options.replicas)
    begin = time.monotonic()
    clients = run_all(options.url, work, options.concurrency)
    seconds = time.monotonic() - begin
    each = [{key: int(after[key] - was[key]) for key in after}
            for was, after in zip(before, figures(options.replicas))]
    total = {key: sum(replica[key] for replica in each) for key in each[0]}
    first = sorted(client.first_s for client in clients)
    # A group's first request computes the prefix; the others could find all of it but what does not fill a block.
    best = (1 - 1 / options.per_group) * options.shared / (options.shared + options.own)
    print(json.dumps({
        "requests": len(clients), "lost": sum(not client.done for client in clients), "seconds": round(seconds, 2),
        "hit_share": round(total["hits"] / total["queries"], 4), "computed_tokens": total["queries"] - total["hits"],
        "evicted_blocks": total["evicted"], "requests_by_replica": [replica["requests"] for replica in each],
        "first_token_s": {"median": round(first[len(first) // 2], 3), "p95": round(first[int(len(first) * .95)], 3)},
        "hit_share_at_most_about": round(best, 3)}))
    return 0 if all(client.done for client in clients) else 1


def kill(options, work):
    pid = int(Path(options.pid_file).read_text())
    killed = threading.Timer(options.after, lambda: os.kill(pid, signal.SIGKILL))
    killed.start()
    clients = run_all(options.url, work, options.concurrency)
    killed.join()
    alive = [url for url in options.replicas if is_alive(url)]
    unbroken = run_all(alive[:1], work, options.concurrency)
    different = sum(client.done and client.answer() != whole.answer() for client, whole in zip(clients, unbroken))
    broken = [client for client in clients if client.num_breaks]
    print(json.dumps({
        "requests": len(clients), "streams_that_broke": len(broken),
        "broke_with_tokens": sum(bool(client.num_breaks and client.resumed_tokens) for client in clients),
        "lost": sum(not client.done for client in clients), "different": different,
        "unbroken_breaks": sum(client.num_breaks for client in unbroken), "replicas_left": len(alive),
        "longest_s": round(max(client.seconds for client in clients if client.done), 2)}))
    return 1 if different or not all(client.done for client in clients) else 0


def is_alive(url):
    at = urllib.parse.urlsplit(url)
    try:
        connection = http.client.HTTPConnection(at.hostname, at.port, timeout=5)
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["hits", "kill"])
    parser.add_argument("--url", nargs="+", required=True, help="the router, or replicas that clients take in turns")
    parser.add_argument("--replicas", nargs="+", required=True)
    parser.add_argument("--pid-file", help="of the replica to kill")
    parser.add_argument("--after", type=float, default=2.0, help="seconds until it is killed")
    parser.add_argument("--groups", type=int, default=32)
    parser.add_argument("--per-group", type=int, default=8)
    parser.add_argument("--shared", type=int, default=380, help="words that a group shares")
    parser.add_argument("--own", type=int, default=30, help="words of each request's own")
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--concurrency", type=int, default=24)
    options = parser.parse_args()
    if options.what == "kill" and not options.pid_file:
        parser.error("kill needs --pid-file: the file with the process id of the replica, RUN/replica2.pid")
    # Not for `hits`: vllm-router's kv_aware takes no account of prefixes where a body asks for token ids.
    extra = {"return_token_ids": True} if options.what == "kill" else {}
    work = requests(options.groups, options.per_group, options.shared, options.own, options.max_tokens, extra)
    return hits(options, work) if options.what == "hits" else kill(options, work)


if __name__ == "__main__":
    raise SystemExit(main())
