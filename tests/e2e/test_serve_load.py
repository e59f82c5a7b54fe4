"""mortise serve under load: short runs of serve_load.py."""
import asyncio

import serve_load
from live_server import live_server


def test_streams_of_many_clients_are_what_run_prints():
    with live_server() as server:
        got, count = asyncio.run(serve_load.streams(server.port, clients=32, seconds=3, distinct=8))
    assert count >= 32
    serve_load.check(got)


def test_more_than_may_wait_is_answered_or_429():
    with live_server("--max-waiting", 10, "--max-connections", 1024) as server:
        statuses, got = asyncio.run(serve_load.overload(server.port, 300))
    assert sum(statuses.values()) == 300 and set(statuses) <= {200, 429} and statuses[200] > 0
    serve_load.check({index: got[index] for index in list(got)[:8]})


def test_memory_does_not_grow_with_the_number_of_requests(pipeline):
    with live_server(pipeline(memory="4MiB"), env={"MORTISE_LOG": "warning"}) as server:  # nobody reads its log meanwhile
        samples = asyncio.run(serve_load.memory(server, requests=1200, clients=16, every=100))
    # Of about 64 MiB, 0.2 MiB is noise; 4 MiB more would be 7 KiB kept of each request.
    assert max(samples[6:]) - max(samples[:6]) < 4 << 10, samples


def test_streams_cut_at_random_bytes_go_on_at_another_server():
    with live_server() as one, live_server() as other:
        for with_tokens in (False, True):
            got, breaks = asyncio.run(serve_load.cuts([one.port, other.port], 24, with_tokens))
            assert breaks >= 12
            serve_load.check(got)
