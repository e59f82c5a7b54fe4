#!/usr/bin/env python3
"""Mortise beside its peers in one go: every round runs each program once, so that a machine that changes its speed changes all of
them; the table has the medians, and the median of the rounds' own ratios.

usage: bench/peers/compare.py --mortise build/release/mortise [--shapes tiny,160m] [--files model.gguf] [--peers llama,vllm]
       [--formats bf16,q8_0,q4_0,q4_k] [--rounds 5] [--threads 2] [--out bench/results/NAME]      (--help: sizes of the work too)
Of a format other than bf16, and of --files, Mortise and llama.cpp read the same file.
Writes NAME.json (every sample, every command) and NAME.md (the table). $PEERS: where install_*.sh put the programs."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = Path(os.environ.get("PEERS", HERE / "work"))
LLAMA = PEERS / "llama.cpp/build/bin"
PROMPT = "Once upon a time"
COMMANDS = []


def output_of(*command, env=None):
    command = [str(word) for word in command]
    if command not in COMMANDS:
        COMMANDS.append(command)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with code {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def check_installed(args):
    needed = [args.mortise]
    if "llama" in args.peers:
        needed += [LLAMA / "llama-batched-bench", LLAMA / "llama-completion", LLAMA / "llama-quantize"]
    if "vllm" in args.peers:
        needed += [PEERS / "vllm/bin/python", PEERS / "cpuid_amx.so"]
    for program in needed:
        if not program.exists():
            sys.exit(f"{program}: is not there; build Mortise, or run bench/peers/install_llama.sh or install_vllm.sh (PEERS={PEERS})")


def ensure_models(args, shape):
    """The checkpoint of the shape, and its GGUFs, made once."""
    model = PEERS / "models" / shape
    if not (model / "model.safetensors").exists():
        output_of(args.mortise, "bench", "--shape", shape, "--save-model", model)
    if "llama" not in args.peers:
        return model
    base = PEERS / "models" / f"{shape}-bf16.gguf"
    if not base.exists():
        # Where the programs were carried to, without the virtual environment, the packages are this Python's own.
        python = PEERS / "llama/bin/python"
        output_of(python if python.exists() else sys.executable, HERE / "make_gguf.py", PEERS / "llama.cpp", model, base)
    for kind in args.formats:
        quantized = PEERS / "models" / f"{shape}-{kind}.gguf"
        if not quantized.exists():
            output_of(LLAMA / "llama-quantize", base, quantized, kind)
    return model


def mortise_figures(args, *subject):
    """{name: (value, floor)} of a shape or a file."""
    figures = {}
    sizes = {"decode": ["--batch", ",".join(map(str, args.batches)), "--prompt", args.prompt, "--output", args.output],
             "prefill": ["--batch", args.prefill[0], "--prompt", args.prefill[1]], "startup": []}
    for scenario in sizes:
        target = PEERS / "out.json"
        settings = [word for setting in (f"device.threads={args.threads}", *args.set) for word in ("--set", setting)]
        output_of(args.mortise, "bench", scenario, *subject, *sizes[scenario], *settings, "--repeats", 1, "--json", target)
        figures |= {f["name"]: (f["value"], f["floor"]) for f in json.loads(target.read_text())["figures"]}
    return figures


def llama_batches(args, gguf, prompt, output, batches):
    """{batch: figures}. The program may end before its log thread has written the last line; then it is run again."""
    tokens = max(batches) * (prompt + output)
    for _ in range(5):
        text = output_of(LLAMA / "llama-batched-bench", "-m", gguf, "-t", args.threads, "-tb", args.threads, "-c", tokens, "-b", 2048,
                         "-ub", 512, "-npp", prompt, "-ntg", output, "-npl", ",".join(map(str, batches)), "--output-format", "jsonl")
        rows = {row["pl"]: row for row in complete_lines(text)}
        if set(rows) == set(batches):
            return rows
    sys.exit(f"llama-batched-bench: no line for batches {sorted(set(batches) - set(rows))} in five runs; its last output:\n{text[-2000:]}")


def complete_lines(text):
    for line in text.splitlines():
        if line.startswith("{") and line.endswith("}"):
            yield json.loads(line)


def llama_figures(args, gguf):
    rows = llama_batches(args, gguf, args.prompt, args.output, args.batches)
    figures = {f"decode, batch {batch}": row["speed_tg"] for batch, row in rows.items()}
    batch, prompt = args.prefill
    figures[f"prefill, {batch} x {prompt}"] = llama_batches(args, gguf, prompt, 1, [batch])[batch]["speed_pp"]
    start = time.time()
    output_of(LLAMA / "llama-completion", "-m", gguf, "-t", args.threads, "-c", 512, "-n", 1, "-no-cnv", "--no-warmup", "-p", PROMPT)
    figures["start to first token"] = time.time() - start
    return figures


def vllm_figures(args, model):
    env = {"LD_PRELOAD": str(PEERS / "cpuid_amx.so")} if "amx_tile" in Path("/proc/cpuinfo").read_text() else {}
    batches = ",".join(map(str, args.batches))
    text = output_of(PEERS / "vllm/bin/python", HERE / "vllm_run.py", model, args.threads, batches, args.prompt, args.output, *args.prefill, env=env)
    return json.loads(text.splitlines()[-1])


def runs_of_shape(args, shape):
    model = ensure_models(args, shape)
    runs = {"mortise": lambda: mortise_figures(args, "--shape", shape)}
    for kind in args.formats if "llama" in args.peers else ():
        file = PEERS / "models" / f"{shape}-{kind}.gguf"
        runs[f"llama.cpp {kind}"] = lambda file=file: llama_figures(args, file)
        if kind != "bf16":
            runs[f"mortise {kind}"] = lambda file=file: mortise_figures(args, script_of(file))
    if "vllm" in args.peers:
        runs["vLLM"] = lambda: vllm_figures(args, model)
    return runs


def script_of(file):
    """A pipeline of a GGUF file. The default one of a file would draft, which llama.cpp does not here."""
    script = PEERS / f"{file.stem}.lua"
    script.write_text(f"""return pipeline {{ device = cpu {{}}, model = llama {{ path = "{file.resolve()}" }}, attention = paged {{}},
        scheduler = fcfs {{ max_num_seqs = 64, max_batched_tokens = 2048 }} }}\n""")
    return script


def runs_of_file(args, file):
    return {"mortise": lambda: mortise_figures(args, script_of(file)), "llama.cpp": lambda: llama_figures(args, file)}


def measure(args, shape, runs, keep):
    """Calls keep({who: {figure: [samples]}}, the floors) after every round: an hour's rounds are not lost with the last."""
    samples = {who: {} for who in runs}
    floors = {who: {} for who in runs}
    for number in range(args.rounds):
        for who, run in runs.items():
            print(f"{shape}, round {number + 1} of {args.rounds}: {who}", file=sys.stderr)
            for figure, value in run().items():
                value, floor = value if isinstance(value, tuple) else (value, None)
                samples[who].setdefault(figure, []).append(value)
                if floor:
                    floors[who].setdefault(figure, []).append(floor)
        keep(samples, floors)


def nearness(figure, values, floors):
    """1 is the end, for rates and for times."""
    pairs = [(floor / value if figure.startswith("start") else value / floor) for value, floor in zip(values, floors)]
    return statistics.median(pairs)


def speed(figure, ours, theirs):
    return statistics.median((t / o if figure.startswith("start") else o / t) for o, t in zip(ours, theirs))


def table(shape, samples, floors):
    peers = [who for who in samples if not who.startswith("mortise")]
    # llama.cpp with a format stands beside Mortise with the same file; every other peer beside plain Mortise.
    equals = {f"llama.cpp{weights}": who for who in samples if (weights := who.removeprefix("mortise")) != who}
    lines = [f"| {shape} | Mortise | floor (ratio) | " + " | ".join(peers) + " |", "|---" * (3 + len(peers)) + "|"]
    for who in (w for w in samples if w.startswith("mortise")):
        for figure, ours in samples[who].items():
            cells = []
            for peer in peers:
                theirs = samples[peer].get(figure)
                if not theirs or equals.get(peer, "mortise") != who:
                    cells.append("")
                else:
                    cells.append(f"{statistics.median(theirs):.4g} ({speed(figure, ours, theirs):.2f} x)")
            its = floors[who].get(figure)
            floor = f"{statistics.median(its):.4g} ({nearness(figure, ours, its):.2f})" if its else ""
            unit = "s" if figure.startswith("start") else "tokens/s"
            weights = who.removeprefix("mortise")
            lines.append(f"| {figure}{weights and ',' + weights}, {unit} | {statistics.median(ours):.4g} | {floor} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def tables(results):
    return "".join(table(shape, result["samples"], result["floors"]) + "\n" for shape, result in results.items())


def write(args, results):
    # The folder of the tools says nothing to another reader.
    commands = [" ".join(word.replace(str(PEERS), "$PEERS").replace(str(HERE), "bench/peers") for word in c) for c in COMMANDS]
    processor = next((line.split(": ", 1)[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?")
    args.out.with_suffix(".json").write_text(json.dumps({"processor": processor, "threads": args.threads, "rounds": args.rounds,
                                                         "results": results, "commands": commands}, indent=1) + "\n")
    args.out.with_suffix(".md").write_text(f"# Beside the peers, {time.strftime('%Y-%m-%d')}\n\n{processor}, {args.threads} threads, medians of "
                                           f"{args.rounds} rounds. In brackets: nearness to the floor of the same run; how many "
                                           f"times as fast as the peer.\n\n{tables(results)}\nCommands:\n\n"
                                           + "".join(f"    {c}\n" for c in commands))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--mortise", type=Path, required=True)
    parser.add_argument("--shapes", type=words, default=["tiny", "160m"])
    parser.add_argument("--peers", type=words, default=["llama"], help="llama, vllm")
    parser.add_argument("--formats", type=words, default=["bf16"], help="of the shapes for llama.cpp, and but for bf16 also for Mortise")
    parser.add_argument("--files", type=lambda text: [Path(word) for word in text.split(",")], default=[], help="GGUF files, beside the shapes")
    parser.add_argument("--set", action="append", default=[], help="an option for mortise bench --set, such as device.numerics=pairs; repeatable")
    parser.add_argument("--batches", type=lambda text: [int(word) for word in text.split(",")], default=[1, 8, 32], help="of decode (1,8,32)")
    parser.add_argument("--prompt", type=int, default=128, help="of decode: tokens (128)")
    parser.add_argument("--output", type=int, default=128, help="of decode: tokens (128)")
    parser.add_argument("--prefill", type=lambda text: [int(word) for word in text.split("x")], default=[16, 1024], metavar="16x1024")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if unknown := set(args.peers) - {"llama", "vllm"}:
        sys.exit(f"--peers {','.join(sorted(unknown))}: there are llama and vllm")
    check_installed(args)
    results = {}
    runs = {shape: runs_of_shape(args, shape) for shape in filter(None, args.shapes)} | {file.name: runs_of_file(args, file) for file in args.files}
    for shape in runs:

        def keep(samples, floors, shape=shape):
            results[shape] = {"samples": samples, "floors": floors}
            if args.out:
                write(args, results)

        measure(args, shape, runs[shape], keep)
    print(tables(results))


if __name__ == "__main__":
    main()
