"""Load on a running `mortise serve`: many clients at once, broken connections, more than it takes; what each got is compared with
`mortise run`, bit by bit. tests/e2e/test_serve_load.py runs it briefly; by hand, at full size:

    tests/e2e/serve_load.py streams --clients 256 --seconds 60   concurrent streams
    tests/e2e/serve_load.py memory --requests 20000              the server's memory over many requests
    tests/e2e/serve_load.py overload --requests 5000 --waiting 100
    tests/e2e/serve_load.py cuts --streams 200                   each connection is cut at a random byte, then resumed
"""
import argparse
import asyncio
import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from conftest import MORTISE
from live_server import LiveServer, events

PROMPTS = ["Once upon a time", "Q: 23 + 58 = ? A:", "The dog", "One day Flora went to the", "Hugo had a", "At night the",
           "In the garden there was", "Q: What colour is the sea? A:"]


def request(index, most_tokens=120):
    """The body of a request, the same for the same index."""
    draw = random.Random(index)
    return {"model": "demo", "prompt": draw.choice(PROMPTS), "max_tokens": draw.randint(8, most_tokens),
            "temperature": draw.choice([0, 0.7, 1.0]), "seed": index}


def expected(index, most_tokens=120):
    """What `mortise run` says: (text, finish reason)."""
    body = request(index, most_tokens)
    done = subprocess.run([MORTISE, "run", "-p", body["prompt"], "--max-tokens", str(body["max_tokens"]), "--seed",
                           str(body["seed"]), "--temperature", str(body["temperature"]), "--json"],
                          capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    return answer["text"], answer["finish_reason"]


async def post(port, body, headers=None, cut_after=None):
    """(status, body as text, whether it is whole). `cut_after`: bytes of the answer's body after which the connection is reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    text = json.dumps(body).encode()
    head = {"Host": "x", "Content-Type": "application/json", "Content-Length": len(text), "Connection": "close",
            **(headers or {})}
    writer.write(b"POST /v1/completions HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in head.items()).encode()
                 + b"\r\n" + text)
    await writer.drain()
    status, chunked = 0, False
    while (line := await reader.readline()) not in (b"\r\n", b""):
        status = status or int(line.split()[1])
        chunked = chunked or line.lower().startswith(b"transfer-encoding: chunked")
    data, whole = b"", not chunked
    while True:
        if chunked:
            size = await reader.readline()
            if not size:
                break
            part = await reader.readexactly(int(size, 16) + 2)
            if int(size, 16) == 0:
                whole = True
                break
            data += part[:-2]
        else:
            part = await reader.read(65536)
            if not part:
                break
            data += part
        if cut_after is not None and len(data) >= cut_after:
            writer.transport.abort()
            return status, data[:cut_after].decode(errors="ignore"), False
    writer.close()
    return status, data.decode(), whole


def answer_of(text):
    """(text, finish reason) of a whole stream; its events end with [DONE], and each has another id."""
    found = events(text)
    assert found[-1][1] == "[DONE]", text[-300:]
    ids = [event_id for event_id, _ in found[:-1]]
    assert len(set(ids)) == len(ids), "an event came twice"
    choices = [data["choices"][0] for _, data in found[:-1]]
    return "".join(choice["text"] for choice in choices), choices[-1]["finish_reason"]


def check(got, most_tokens=120):
    """`got`: index to set of answers."""
    for index, answers in got.items():
        assert answers == {expected(index, most_tokens)}, (request(index, most_tokens), answers)


async def streams(port, clients, seconds, distinct=40):
    """Clients that ask one stream after the other. Returns (answers by index, their number)."""
    end, got, count = time.monotonic() + seconds, collections.defaultdict(set), 0

    async def client(number):
        nonlocal count
        draw = random.Random(number)
        while time.monotonic() < end:
            index = draw.randrange(distinct)
            status, text, whole = await post(port, {**request(index), "stream": True})
            assert status == 200 and whole, text
            got[index].add(answer_of(text))
            count += 1

    await asyncio.gather(*(client(number) for number in range(clients)))
    return got, count


async def overload(port, requests):
    """All at once (as many connections as the server takes). Returns the count of each status."""
    statuses, got = collections.Counter(), collections.defaultdict(set)

    async def client(number):
        index = number % 40
        status, text, _ = await post(port, request(index))
        statuses[status] += 1
        if status == 200:
            choice = json.loads(text)["choices"][0]
            got[index].add((choice["text"], choice["finish_reason"]))

    await asyncio.gather(*(client(number) for number in range(requests)))
    return statuses, got


async def cuts(ports, num_streams, with_tokens=False):
    """Streams whose connections break at random bytes until they are whole; each goes on after the last whole event, at the next
    of `ports`. Returns answers by index and the number of breaks."""
    got, breaks = collections.defaultdict(set), 0

    async def client(number):
        nonlocal breaks
        draw, index = random.Random(number), number % 40
        body, headers, kept = {**request(index), "stream": True, "return_token_ids": with_tokens}, {}, ""
        for turn in range(1000):
            port = ports[(number + turn) % len(ports)]
            status, text, whole = await post(port, body, headers, draw.randint(1, 8000) if turn < 4 else None)
            assert status == 200, text
            kept += text if whole else "".join(text.rpartition("\n\n")[:2])  # an event of which a part came did not come
            if whole or kept.endswith("data: [DONE]\n\n"):  # a break behind the last event loses nothing
                break
            breaks += 1
            found = [event for event in events(kept) if event[0]]
            if found:
                headers = {"Last-Event-ID": found[-1][0]}
                if with_tokens:
                    body = {**body, "resume_token_ids": [t for _, data in found for t in data["choices"][0]["token_ids"]]}
        got[index].add(answer_of(kept))

    for first in range(0, num_streams, 50):
        await asyncio.gather(*(client(number) for number in range(first, min(first + 50, num_streams))))
    return got, breaks


def memory_kib(server):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{server.process.pid}/status").read_text())[1])


async def memory(server, requests, clients=64, every=2000):
    """KiB after each `every` requests: streams, whole answers, and clients that go away."""
    samples, done, number = [], 0, 0

    async def client():
        nonlocal done, number
        while number < requests:
            number += 1
            index = number
            body = {**request(index, 24), "stream": index % 2 == 0}
            await post(server.port, body, cut_after=300 if index % 10 == 0 else None)
            done += 1
            if done % every == 0:
                samples.append(memory_kib(server))

    await asyncio.gather(*(client() for _ in range(clients)))
    return samples


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=["streams", "memory", "overload", "cuts"])
    for name, default in [("clients", 256), ("seconds", 60), ("requests", 5000), ("waiting", 1024), ("streams", 200)]:
        options.add_argument(f"--{name}", type=int, default=default)
    args = options.parse_args()
    with tempfile.TemporaryFile("w+") as log:
        server = LiveServer("--max-waiting", args.waiting, "--max-connections", 8192, log=log)
        begin = time.monotonic()
        if args.what == "streams":
            got, count = asyncio.run(streams(server.port, args.clients, args.seconds))
            print(f"{count} streams of {args.clients} clients in {time.monotonic() - begin:.0f} s")
        elif args.what == "memory":
            samples = asyncio.run(memory(server, args.requests))
            print("KiB after each 2000 requests:", samples)
            assert len(samples) >= 2, "--requests: give 4000 or more, which is two samples"
            growth = 100 * (max(samples) / samples[0] - 1)
            print(f"growth after the first 2000: {growth:.1f} %")
            assert growth < 5, "the server's memory grows with the number of requests"
            got = {}
        elif args.what == "overload":
            statuses, got = asyncio.run(overload(server.port, args.requests))
            print("statuses:", dict(statuses))
            assert sum(statuses.values()) == args.requests and set(statuses) <= {200, 429}
        else:
            for with_tokens in (False, True):
                got, breaks = asyncio.run(cuts([server.port], args.streams, with_tokens))
                print(f"{args.streams} streams, {breaks} breaks, {'with' if with_tokens else 'without'} token ids")
                check(got)
        code, _ = server.end()
        assert code == 0, "the server failed"
        check(got)
        print(f"{sum(map(len, got.values()))} answers to {len(got)} distinct requests: all as mortise run")


if __name__ == "__main__":
    main()
