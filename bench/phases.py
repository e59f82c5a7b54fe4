"""Tells where the steps of a trace spend their time: python3 bench/phases.py TRACE.json, of what `--trace` wrote."""

import collections
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        events = json.load(file)
    steps = [event for event in events if event.get("cat") == "step"]
    total = sum(event["dur"] for event in steps)
    tokens = sum(event["args"]["generated_tokens"] for event in steps)
    span = max(event["ts"] + event["dur"] for event in steps) - min(event["ts"] for event in steps)
    phases = collections.Counter()
    for event in events:
        if event.get("cat") == "phase":
            phases[event["name"]] += event["dur"]
    print(f"{len(steps)} steps, {total / 1e6:.2f} s in them of {span / 1e6:.2f} s, {tokens} tokens, "
          f"{tokens / span * 1e6:.0f} tokens/s")
    for name, duration in phases.most_common():
        print(f"{name:10} {duration / 1e6:8.3f} s {100 * duration / total:7.3f} %")


if __name__ == "__main__":
    main()
