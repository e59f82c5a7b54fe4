"""lm-evaluation-harness on `mortise score` and `mortise batch`: no server, one process for each kind of request.

    python3 scripts/lm_eval --model mortise --model_args script=pipeline.lua,mortise=build/release/mortise --tasks ...

(`lm_eval` itself does not know the model: __main__.py registers it), with `--include_path` of tasks of one's own; run_demo.sh
shows it. Mortise tokenizes, and splits a context and a continuation as the harness's own models do
(runtime/openai/score_tokens.hpp). `script` may be left out: the demo model.
"""
import json
import pathlib
import subprocess
import tempfile

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model


MAX_COMPLETIONS = 1000  # of a line: a body takes 16,384, and 3 million tokens of them


def grouped(pairs):
    """Of (context, continuation) pairs: lines of a context with continuations of it, and for each pair where it is among them."""
    lines, places, index = [], [], {}
    for context, continuation in pairs:
        at = index.get(context)
        if at is None or len(lines[at]["completions"]) == MAX_COMPLETIONS:
            at = index[context] = len(lines)
            lines.append({"prompt": context, "completions": []})
        places.append((at, len(lines[at]["completions"])))
        lines[at]["completions"].append(continuation)
    return lines, places


@register_model("mortise")
class MortiseLM(LM):
    def __init__(self, mortise="mortise", script="", **_):
        super().__init__()
        self.program, self.script = str(mortise), [script] if script else []

    @classmethod
    def create_from_arg_string(cls, arg_string, additional_config=None):
        return cls(**dict(item.split("=", 1) for item in arg_string.split(",") if item))

    def run(self, command, lines):
        """The results of the lines, in their order. Raises with the program's own words when a line or all of it failed."""
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder, "in.jsonl"), pathlib.Path(folder, "out.jsonl")
            source.write_text("".join(json.dumps(line) + "\n" for line in lines))
            process = subprocess.run([self.program, command, *self.script, "-i", source, "-o", target], stderr=subprocess.PIPE,
                                     encoding="utf-8")
            # Not splitlines(): a text may have U+2028 and others at which that would break a line.
            text = target.read_text(encoding="utf-8") if target.exists() else ""
            results = [json.loads(line) for line in text.split("\n") if line]
            if process.returncode != 0 or len(results) != len(lines):
                failed = next((r for r in results if r.get("error") or r.get("response", {}).get("status_code", 200) != 200), None)
                raise RuntimeError(f"mortise {command}: {failed or process.stderr.strip()}")
            return results

    def loglikelihood(self, requests, disable_tqdm=False):
        lines, places = grouped(request.args for request in requests)
        results = self.run("score", lines)
        scored = [results[line]["completions"][at] for line, at in places]
        return [(score["logprob"], score["is_greedy"]) for score in scored]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        # Each text after the first token. A text longer than the model takes is an error, where other models would cut it.
        results = self.run("score", [{"prompt": "", "completions": [request.args[0]]} for request in requests])
        return [result["completions"][0]["logprob"] for result in results]

    def generate_until(self, requests, disable_tqdm=False):
        lines = []
        for index, request in enumerate(requests):
            context, options = request.args
            stop = options.get("until") or []
            stop = [text for text in ([stop] if isinstance(stop, str) else stop) if text]  # the harness has empty ones, which end nothing
            body = {"prompt": context, "temperature": options.get("temperature", 0) if options.get("do_sample") else 0,
                    "max_tokens": options.get("max_gen_toks", 256), "stop": stop}
            body |= {name: options[name] for name in ("top_p", "top_k") if name in options}
            lines.append({"custom_id": str(index), "method": "POST", "url": "/v1/completions", "body": body})
        return [result["response"]["body"]["choices"][0]["text"] for result in self.run("batch", lines)]
