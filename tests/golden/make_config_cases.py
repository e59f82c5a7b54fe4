#!/usr/bin/env python3
"""Writes config_cases.json: what transformers 5 makes of the odd configurations of config_cases.py.

usage: make_config_cases.py       (needs transformers and torch, see make_models.py)

`plain` has a config.json of each family. Each of `cases` has `family`, the `changes` of that file, the keys that are then `dropped`, and
`result`: "same" (the log probabilities of a prompt are those of the plain checkpoint), "other", "other tensors" (the file names tensors that the
checkpoint does not have, or not all of them), or "refused".
Cases that also change the checkpoint's weights are left to tests/parity/odd_configs.py.
"""
import json
import tempfile
from pathlib import Path

import transformers

import config_cases

# Fields of every configuration that say nothing of the result of a causal model: of training, of outputs, of other heads.
ELSEWHERE = {"_name_or_path", "architectures", "chunk_size_feed_forward", "dtype", "id2label", "label2id", "output_attentions", "output_hidden_states",
             "problem_type", "return_dict", "transformers_version", "model_type", "is_encoder_decoder", "num_labels"}


def check_fields(family, cases):
    """Every field of the family's configuration class is changed by a case."""
    config_class, _, sizes = config_cases.FAMILIES[family]
    changed = {key for case in cases for key in case} | set(config_class.attribute_map)
    missing = set(config_class(**sizes).to_dict()) - changed - ELSEWHERE
    if missing:
        raise SystemExit(f"{family}: transformers {transformers.__version__} has fields that no case changes: {', '.join(sorted(missing))}")


def main():
    config_cases.be_quiet()
    plain_configs, out = {}, []
    for family in config_cases.FAMILIES:
        cases = config_cases.cases(family)
        check_fields(family, cases)
        plain = None
        for case in cases:
            if "MAKE" in case:
                continue
            with tempfile.TemporaryDirectory() as folder:
                config = config_cases.write(family, case, folder)
                plain_configs.setdefault(family, config)
                try:
                    found = config_cases.logprobs(folder)
                    plain = found if plain is None else plain
                    result = "same" if bool((found - plain).abs().max() < 1e-4) else "other"
                    if config_cases.load(folder)[1]:
                        result = "other tensors"
                except Exception:
                    result = "refused"
            out.append(dict(family=family, changes={k: v for k, v in case.items() if k != "DROP"}, dropped=case.get("DROP", []), result=result))
    plain_text, cases_text = json.dumps(plain_configs, sort_keys=True), ",\n".join(json.dumps(entry, sort_keys=True) for entry in out)
    Path(__file__).with_name("config_cases.json").write_text(f'{{"plain": {plain_text},\n"cases": [\n{cases_text}\n]}}\n')
    counts = {result: sum(entry["result"] == result for entry in out) for result in ("same", "other", "other tensors", "refused")}
    print(f"{len(out)} configurations, transformers {transformers.__version__}: {counts}")


if __name__ == "__main__":
    main()
