"""Swaps of all kinds in random order on a running `mortise serve`, under streams. Every answer is compared with that of a server whose
parts nobody touches; candidates that are broken must be refused. tests/e2e/test_swap_storm.py runs it briefly; by hand, at full size:

    tests/e2e/swap_storm.py --clients 64 --swaps 300 --seconds 180
    tests/e2e/swap_storm.py --cuda --clients 64 --swaps 30 --seconds 30
"""
import argparse
import asyncio
import collections
import json
import pathlib
import random
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import serve_load
from conftest import BUILD, SOURCE
from live_server import LiveServer

SCRIPT = """
return pipeline {{
  device = {device}, model = llama {{ path = "{models}/demo" }}, attention = paged {{ block_size = 16 }},
  scheduler = fcfs {{ max_num_seqs = 64, max_batched_tokens = 512 }}, kv_cache = {{ memory = "64MiB" }}, proposer = ngram {{}},
}}
"""
SIZES = dict(max_num_seqs=64, max_batched_tokens=512)
BUILDS = 3  # of each plugin, under one name


class Swaps:
    """Draws swaps: (kind, body of POST /admin/swap, whether it is to be refused)."""

    def __init__(self, folder, seed, cuda=False):
        self.folder, self.draw, self.suffix = folder, random.Random(seed), "-cuda" if cuda else "-cpu"
        self.block_size, self.sizes, self.cuda = 16, SIZES, cuda
        self.refusals = self.broken()

    def rebuilt(self, plugin):
        """A file whose bytes are one of a few builds of the plugin, always under the same name."""
        source = BUILD / f"{plugin}.so"
        file = self.folder / f"my_{plugin}.so"
        file.unlink(missing_ok=True)
        file.write_bytes(source.read_bytes() + bytes(self.draw.randrange(1, BUILDS + 1)))
        return str(file)

    def either(self, plugin, name=None):
        return self.rebuilt(plugin) if self.draw.random() < 0.4 else name or plugin

    def scheduler(self):
        return "scheduler, same sizes", self.either(self.draw.choice(["fcfs", "prefix_group"])), self.sizes

    def scheduler_sizes(self):
        sizes = [dict(max_num_seqs=seqs, max_batched_tokens=tokens) for seqs in (16, 48, 64) for tokens in (128, 256, 512)]
        self.sizes = self.draw.choice([other for other in sizes if other != self.sizes])
        return "scheduler, other sizes", self.either(self.draw.choice(["fcfs", "prefix_group"])), self.sizes

    def proposer(self):
        return "proposer", *self.draw.choice([(self.either("ngram"), dict(max_tokens=self.draw.choice([2, 5, 8]))), ("none", {})])

    def draft_model(self):
        return "proposer, draft model", "draft_model", dict(path=str(SOURCE / "models/demo-draft"))

    def attention(self):
        name = self.draw.choice(["paged", "cascade"])
        return "attention, same layout", self.either(name + self.suffix, name), dict(block_size=self.block_size)

    def layout(self):
        sizes = [size for size in ([16, 32, 64] if not self.cuda else [16, 32]) if size != self.block_size]
        self.block_size = self.draw.choice(sizes)
        name = self.draw.choice(["paged", "cascade"])
        return "attention, other layout", self.either(name + self.suffix, name), dict(block_size=self.block_size)

    def model(self):
        return "model, rebuilt", self.rebuilt("llama"), {}

    def device(self):
        return "device, threads", "cpu", dict(threads=self.draw.choice([1, 2]))

    def cache(self):
        return "kv_cache", "", dict(memory=self.draw.choice(["48MiB", "64MiB", "96MiB"]))

    def speculation(self):
        return "speculation", "", dict(lengths=self.draw.choice(["fixed", "adaptive"]))

    def broken(self):
        """Kinds of candidates that no engine may take: name to (part, plugin, options)."""
        def file(name, content):
            path = self.folder / f"{name}.so"
            path.write_bytes(content)
            return str(path)
        whole = (BUILD / "fcfs.so").read_bytes()
        rogue, rogue_attention = (str(BUILD / "tests/e2e/plugins" / name) for name in ("rogue.so", "rogue_attention.so"))
        rogues = {
            "a crash when it is created": ("scheduler", rogue, {"in": "create", "does": "crash"}),
            "a crash in a step": ("scheduler", rogue, {"in": "plan", "does": "crash", "after": 5}),
            "the end of the process": ("scheduler", rogue, {"in": "plan", "does": "exit"}),
            "a plan that cannot be": ("scheduler", rogue, {"in": "plan", "does": "spoil", "after": 3}),
            "drafts that are no tokens": ("proposer", rogue, {"in": "propose", "does": "spoil"}),
            "an attention that is wrong": ("attention", rogue_attention, {"in": "run", "does": "spoil", "after": 20}),
        }
        if self.cuda:
            del rogues["an attention that is wrong"]  # it is one for the CPU
        return rogues | {
            "an empty file": ("scheduler", file("empty", b""), {}),
            "no library": ("scheduler", file("text", b"no ELF\n" * 1000), {}),
            "half a file": ("scheduler", file("half", whole[:len(whole) // 2]), {}),
            "no such file": ("attention", str(self.folder / "missing.so"), {}),
            "another kind of part": ("scheduler", "paged", {}),
            "an unknown option": ("scheduler", "fcfs", dict(max_num_seq=3)),
            "a value out of range": ("attention", "paged", dict(block_size=-1)),
            "other tokens": ("kv_cache", "", dict(memory="64MiB", dtype="int8")),
            "too little memory": ("kv_cache", "", dict(memory="1KiB")),
            "a draft model that is not there": ("proposer", "draft_model", dict(path="/nowhere")),
        }

    def next(self):
        if self.draw.random() < 0.2:
            kind = self.draw.choice(sorted(self.refusals))
            part, plugin, options = self.refusals[kind]
            refused = True
        else:
            makers = [self.scheduler, self.proposer, self.attention] * 3 + [self.scheduler_sizes, self.draft_model, self.layout,
                                                                          self.model, self.cache, self.speculation]
            if not self.cuda:
                makers.append(self.device)
            kind, plugin, options = self.draw.choice(makers)()
            part, refused = kind.split(",")[0], False
        return kind, {"part": part, "plugin": plugin, "options": options}, refused


class Gaps:
    """When the clients' events came."""

    def __init__(self):
        self.between = []

    async def stream(self, port, body):
        """The whole answer's text; an assertion that fails says what broke off."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        text = json.dumps({**body, "stream": True}).encode()
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                     b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        answer, last = b"", None
        while size := int(await reader.readline(), 16):
            answer += (await reader.readexactly(size + 2))[:-2]
            now = time.monotonic()
            if last is not None:
                self.between.append(now - last)
            last = now
        writer.close()
        return answer.decode()


async def ask(port, method, path, body=None):
    """(status, body as text)"""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    text = json.dumps(body).encode() if body is not None else b""
    writer.write(f"{method} {path} HTTP/1.0\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
    answer = (await reader.read()).decode()
    writer.close()
    head, _, data = answer.partition("\r\n\r\n")
    return int(head.split()[1]), data


def mapped_plugins(server):
    """Images of plugins that the process has mapped: files with the same bytes share one."""
    maps = pathlib.Path(f"/proc/{server.process.pid}/maps").read_text()
    return {line.split(maxsplit=5)[5] for line in maps.splitlines() if re.search(r"r-xp .*(mortise|memfd).*", line)}


async def storm(server, swaps, clients, num_swaps, seconds, distinct=40):
    """Streams and swaps beside each other. Returns what happened; `answers` are (text, finish reason) by the request's index."""
    gaps, got, done, steps, ends = Gaps(), collections.defaultdict(set), 0, 0, False
    refused, events, memory = collections.Counter(), [], []

    async def client(number):
        nonlocal done
        draw = random.Random(number)
        while not ends:
            index = draw.randrange(distinct)
            got[index].add(serve_load.answer_of(await gaps.stream(server.port, serve_load.request(index))))
            done += 1

    async def num_steps():
        return json.loads((await ask(server.port, "GET", "/status"))[1])["models"][0]["steps"]

    async def swap_all():
        nonlocal ends, steps
        steps = -await num_steps()
        try:
            begin = time.monotonic()
            for number in range(num_swaps):
                await asyncio.sleep(max(0, begin + seconds * number / num_swaps - time.monotonic()))
                kind, body, is_refused = swaps.next()
                status, text = await ask(server.port, "POST", "/admin/swap", body)
                assert status in ((400, 409) if is_refused else (200,)), (kind, body, text)
                if is_refused:
                    refused[kind] += 1
                else:
                    events.append((kind, json.loads(text)))
                memory.append(serve_load.memory_kib(server))
            steps += await num_steps()
        finally:
            ends = True

    begin = time.monotonic()
    await asyncio.gather(swap_all(), *(client(number) for number in range(clients)))
    took = time.monotonic() - begin
    return {"answers": got, "streams": done, "seconds": took, "refused": refused, "events": events, "step_s": took / steps,
            "largest_gap_s": max(gaps.between), "memory_kib": memory}


async def differing(port, answers):
    """The indexes whose answers are not those of the server at this port."""
    wrong = []
    for index, found in answers.items():
        status, text = await ask(port, "POST", "/v1/completions", serve_load.request(index))
        assert status == 200, text
        choice = json.loads(text)["choices"][0]
        if found != {(choice["text"], choice["finish_reason"])}:
            wrong.append(index)
    return wrong


def report(result, server):
    events = result["events"]
    hashes = {part["hash"] for _, event in events for part in event["parts"]}
    images = mapped_plugins(server)
    print(f"{result['streams']} streams in {result['seconds']:.0f} s beside {len(events)} swaps and {result['refused'].total()} refusals "
          f"of {len(result['refused'])} kinds")
    print(f"a step took {1000 * result['step_s']:.2f} ms on average; between two events of a stream lay at most "
          f"{1000 * result['largest_gap_s']:.0f} ms")
    for kind in sorted({kind for kind, _ in events}):
        print(f"  {kind}:", end="")
        for figure in ["pause_s", "largest_gap_s"]:
            times = [event[figure] for of, event in events if of == kind]
            print(f" {figure} median {1000 * statistics.median(times):.1f} ms, largest {1000 * max(times):.1f} ms "
                  f"= {max(times) / result['step_s']:.2f} steps;", end="")
        print(f" {len(times)} swaps")
    print(f"{len(hashes)} different plugin files, {len(images)} images mapped")
    memory = result["memory_kib"]
    thirds = [max(memory[len(memory) * i // 3:len(memory) * (i + 1) // 3]) >> 10 for i in range(3)]
    print(f"resident memory, MiB: largest of each third {thirds}")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in [("clients", 64), ("swaps", 300), ("seconds", 180), ("seed", 1)]:
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--cuda", action="store_true")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        folder = pathlib.Path(folder)
        script = folder / "storm.lua"
        script.write_text(SCRIPT.format(device="cuda {}" if args.cuda else "cpu { threads = 2 }", models=SOURCE / "models"))
        servers = [LiveServer(script, log=log) for _ in range(2)]
        try:
            swaps = Swaps(folder, args.seed, args.cuda)
            result = asyncio.run(storm(servers[0], swaps, args.clients, args.swaps, args.seconds))
            report(result, servers[0])
            wrong = asyncio.run(differing(servers[1].port, result["answers"]))
            codes = [server.end()[0] for server in servers]
        finally:
            for server in servers:
                server.process.kill()
        assert codes == [0, 0], "a server failed"
        assert not wrong, f"answers differ: {[serve_load.request(index) for index in wrong]}"
        print(f"{len(result['answers'])} distinct requests: all answers as those of a server without swaps")


if __name__ == "__main__":
    main()
