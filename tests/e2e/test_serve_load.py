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


def test_streams_cut_at_random_bytes_go_on_at_another_server():
    with live_server() as one, live_server() as other:
        for with_tokens in (False, True):
            got, breaks = asyncio.run(serve_load.cuts([one.port, other.port], 24, with_tokens))
            assert breaks >= 12
            serve_load.check(got)
