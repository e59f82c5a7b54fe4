"""Many swaps under many streams: a short run of swap_storm.py."""
import asyncio

import swap_storm
from conftest import SOURCE
from live_server import live_server


def test_no_swap_changes_or_loses_a_stream(tmp_path):
    script = tmp_path / "storm.lua"
    script.write_text(swap_storm.SCRIPT.format(device="cpu { threads = 1 }", models=SOURCE / "models"))
    env = {"MORTISE_LOG": "warning"}  # nobody reads its log meanwhile
    with live_server(script, env=env) as server, live_server(script, env=env) as untouched:
        swaps = swap_storm.Swaps(tmp_path, seed=3)
        result = asyncio.run(swap_storm.storm(server, swaps, clients=16, num_swaps=40, seconds=0, distinct=16))
        assert asyncio.run(swap_storm.differing(untouched.port, result["answers"])) == []
        hashes = {part["hash"] for _, event in result["events"] for part in event["parts"]}
        assert len(swap_storm.mapped_plugins(server)) <= len(hashes) + len(server.get("/admin/parts")["models"][0]["parts"])
    assert result["refused"].total() + len(result["events"]) == 40 and result["streams"] >= 16
