#!/usr/bin/env python3
"""Where the time of a scenario goes: runs `mortise bench` under the sampling profiler of gperftools and prints the share of
each family of functions, and the functions themselves.

usage: bench/cpu_profile.py [--keep NAME] [--preload libprofiler.so.0] -- build/release/mortise bench decode --shape 160m --batch 1
       bench/cpu_profile.py --read NAME build/release/mortise      (what --keep NAME wrote, here or on another machine)
Recording needs libprofiler (Debian: libgoogle-perftools4; it needs libunwind8 and can be carried with it), reading binutils and
the same binaries, by their names in the folder of `mortise`. Shares are of processor time, all threads; what measures the
machine and what makes and loads the model are left out, prompts and warm-up are not: give decode many tokens of output."""
import argparse
import bisect
import collections
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# First match wins, from the innermost function outwards; so what a kernel calls counts as the kernel.
LEFT_OUT = {
    "limits": r"bench::.*(_rounds\(|read_avx|read_words|read_bytes|run_unit|ReadProbe|run_on_threads)",
    "load": r"pack_(panel|bytes|nibbles)|Packer|quantize_(group|row\()|read_quantized|read_source_tensors|prepare_(int_)?weight|WeightArena|RopeJob|"
            r"fill_rope|RepeatedPattern|RandomWeights|Assembly::|~?Subject\(|PipelineScript|PluginCatalog|dlopen|_dl_|Tokenizer::load",
}
FAMILIES = {
    "sampling": r"::sample|Sampl|RowEvaluator|make_edits|TokenCounts|::noise\(|head_reduce|HeadReduce|log_sum_exp|::top_n|take_top|count_before|clean_one|log_of_sum|philox",
    "append, rope": r"KvWrite|write_rows|write_value|::rotate|rope|Rope|::append",
    "attention": r"Span|::attend|compute_span|[pP]aged",
    "norm": r"NormArgs|rms_norm|layer_norm|add_residual|::norm",
    "activation": r"Activation|::gated",
    "linear": r"Linear|multiply_|quantize_rows|IntRows|isa_.*::Chunk|PackedBf16|PackedF32|add_group|Tile|linear",
    "embedding, elementwise": r"gather_rows|::add<|::scale<|::convert<|f16_to_f32|Elementwise",
    "pool waiting": r"ThreadPool|wait_for_work|take_tasks",
    "engine": r"Engine|Scheduler|scheduler|fcfs|BlockPool|Sequence|[sS]ampler|bench::|llama::|Request|Delta|Trace",
}
HEAD = r"llama::.*[hH]ead\("  # on the thread that runs the step; the others do not know what their tasks are of


def record(command, keep, preload):
    """The raw profile, and beside it the memory map: plugins are unloaded before the profiler would write it."""
    profile = keep.with_suffix(".prof")
    profile.unlink(missing_ok=True)
    env = {**os.environ, "LD_PRELOAD": preload, "CPUPROFILE": str(profile), "CPUPROFILE_FREQUENCY": "1000"}
    process = subprocess.Popen(command, env=env)
    lines = {}
    while process.poll() is None:
        try:
            text = Path(f"/proc/{process.pid}/maps").read_text()
        except OSError:
            break
        lines.update(dict.fromkeys(line for line in text.splitlines() if "r-xp" in line and "/" in line))
        time.sleep(0.05)
    if process.wait() != 0:
        sys.exit(f"{' '.join(command)}: ended with code {process.returncode}")
    if not profile.exists():
        sys.exit(f"{profile}: was not written; is there a {preload}? (Debian: apt install libgoogle-perftools4)")
    keep.with_suffix(".maps").write_text("\n".join(lines) + "\n")


def samples(path):
    """(count, addresses from the innermost function outwards) of a profile in gperftools' legacy format."""
    data = path.read_bytes()
    words = struct.unpack(f"<{len(data) // 8}Q", data[:len(data) // 8 * 8])
    at = 2 + words[1]  # a header of words[1] words after the first two
    while at + 2 < len(words):
        count, depth = words[at], words[at + 1]
        if count == 0:  # the trailer
            return
        yield count, words[at + 2:at + 2 + depth]
        at += 2 + depth


class Binary:
    """The functions of a file by their addresses in it."""

    def __init__(self, path):
        self.name = path.name
        headers = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True).stdout
        loads = re.findall(r"LOAD\s+(0x\w+)\s+(0x\w+)\s+0x\w+\s+(0x\w+)", headers)
        self.segments = [tuple(int(word, 16) for word in load) for load in loads]  # offset, address, size
        lines = []
        for flags in (["--defined-only"], ["--defined-only", "-D"]):
            text = subprocess.run(["nm", "-C", "-n", *flags, path], capture_output=True, text=True).stdout
            lines += [line.split(" ", 2) for line in text.splitlines() if re.match(r"\w+ [tTwWiuV] ", line)]
        self.symbols = sorted((int(address, 16), name) for address, _, name in lines)
        self.addresses = [address for address, _ in self.symbols]

    def function(self, offset):
        for start, address, size in self.segments:
            if start <= offset < start + size:
                found = bisect.bisect_right(self.addresses, offset - start + address) - 1
                return self.symbols[found][1] if found >= 0 else f"? in {self.name}"
        return f"? in {self.name}"


class Symbols:
    def __init__(self, maps, folder):
        self.ranges, self.folder, self.binaries = [], folder, {}
        for line in maps.read_text().splitlines():
            addresses, _, offset, _, _, path = line.split(None, 5)
            begin, end = (int(word, 16) for word in addresses.split("-"))
            self.ranges.append((begin, end, int(offset, 16), path))

    def function(self, address):
        for begin, end, offset, path in self.ranges:
            if begin <= address < end:
                if path not in self.binaries:
                    self.binaries[path] = Binary(self.file_of(Path(path).name, path))
                return self.binaries[path].function(address - begin + offset)
        return "?"

    def file_of(self, name, path):
        # Plugins are loaded as copies of a name of their own, which are deleted then.
        if copy := re.fullmatch(r"mortise-\d+-\d+-(.+)-\w{6}\.so \(deleted\)", name):
            name = copy[1] + ".so"
        ours = self.folder / name
        return ours if ours.exists() else Path(path)


def family_of(stack):
    for families in (LEFT_OUT, FAMILIES):
        for function in stack:
            for family, pattern in families.items():
                if re.search(pattern, function):
                    return family
    return "other"


def short(function):
    return re.sub(r"mortise::cpu::|mortise::|\(anonymous namespace\)::|isa_", "", function)


def show(keep, folder, least):
    symbols = Symbols(keep.with_suffix(".maps"), folder)
    families, functions, head = collections.Counter(), collections.defaultdict(collections.Counter), collections.Counter()
    for count, addresses in samples(keep.with_suffix(".prof")):
        # Return addresses are of the instruction after the call.
        stack = [symbols.function(address - (depth > 0)) for depth, address in enumerate(addresses)]
        family = family_of(stack)
        families[family] += count
        functions[family][short(stack[0])] += count
        if any("llama::" in function for function in stack) and family == "linear":
            head["head" if any(re.search(HEAD, function) for function in stack) else "layers"] += count
    print_table(families, functions, head, least)


def print_table(families, functions, head, least):
    left_out = sum(families.pop(family, 0) for family in LEFT_OUT)
    total = sum(families.values())
    if total == 0:
        sys.exit("no sample of the engine; did it run?")
    print(f"{total} samples of the engine; {left_out} of measuring the machine and of loading are left out")
    for family, count in families.most_common():
        note = ""
        if family == "linear" and head["head"]:
            note = f"   of it the head: {100 * head['head'] / head.total():.0f} % (by the thread that runs the step)"
        print(f"\n{100 * count / total:6.1f} %  {family}{note}")
        for function, own in functions[family].most_common():
            if own / total >= least / 100:
                print(f"{'':10}{100 * own / total:6.1f} %  {function[:110]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="keeps NAME.prof and NAME.maps")
    parser.add_argument("--read", type=Path, metavar="NAME", help="runs nothing")
    parser.add_argument("--preload", default="libprofiler.so.0")
    parser.add_argument("--least", type=float, default=0.5, help="percent of a function that is listed (0.5)")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    folder = Path(shutil.which(args.command[0]) or args.command[0]).resolve().parent
    if args.read:
        return show(args.read, folder, args.least)
    with tempfile.TemporaryDirectory() as temporary:
        keep = args.keep or Path(temporary) / "profile"
        record(args.command, keep, args.preload)
        if shutil.which("nm") is None and args.keep:
            print(f"no binutils here: read {keep}.prof and {keep}.maps with --read {keep} where they are")
        else:
            show(keep, folder, args.least)


if __name__ == "__main__":
    main()
