"""Writes two multiple-choice tasks about the demo model's made-up land as local tasks of lm-evaluation-harness.

    python3 orvale_task.py FOLDER [COUNT]

FOLDER gets orvale_letters.yaml, orvale_text.yaml and their documents: questions that the model's training text never asks, after five
examples (scripts/train/choice.py, held_out_items). The examples are in the context, so num_fewshot stays 0.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
import choice  # noqa: E402

TASK = """task: orvale_{form}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {documents}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{prompt}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
# The choices begin with their space.
target_delimiter: ""
metric_list:
  - metric: acc
  - metric: acc_norm
"""


def documents(form, count):
    return [{"prompt": item.prompt, "choices": list(item.choices), "answer": item.answer}
            for item in choice.held_out_items(count, form, shots=5, new_wording=False)]


def write(folder, count):
    folder.mkdir(parents=True, exist_ok=True)
    for form in ("letters", "text"):
        path = folder.resolve() / f"orvale_{form}.jsonl"
        path.write_text("".join(json.dumps(document) + "\n" for document in documents(form, count)))
        (folder / f"orvale_{form}.yaml").write_text(TASK.format(form=form, documents=path))


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100)
