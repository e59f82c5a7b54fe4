"""Chat templates beside jinja2, and the way of a chat from messages to tokens."""
# Covers: runtime/chat_template/{checkpoint_template,interpreter,parser}
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import BUILD, SOURCE

jinja2 = pytest.importorskip("jinja2", reason="jinja2 is not installed: pip install -r tests/requirements.txt")
from chat_dialogues import SPECIAL, dialogues, environment, expected  # noqa: E402

RENDER = BUILD / "tests/unit/chat_template/render_chat"
# Published templates, which are not ours to commit.
FOLDERS = os.environ.get("MORTISE_TEST_TEMPLATES", str(SOURCE.parent / "shared/data/chat_templates")).split(":")
FILES = sorted(file for folder in FOLDERS for file in pathlib.Path(folder).glob("*.jinja"))


def render(requests):
    text = "".join(json.dumps(request) + "\n" for request in requests)
    process = subprocess.run([RENDER], input=text, capture_output=True, text=True, timeout=120, check=True)
    return [json.loads(line) for line in process.stdout.splitlines()]


def compare(source):
    """The names of what happened: equal, both refuse, not supported. Fails where a text differs."""
    template = environment().from_string(source)
    requests = [{"template": source, "special_tokens": SPECIAL, **of} for of in dialogues()]
    outcomes = []
    for of, got in zip(requests, render(requests)):
        want = expected(template, of)
        if "refused" in got:
            assert got["refused"].startswith("chat_template line "), got
            outcomes.append("not supported")
        elif want is None:
            assert "error" in got, got["text"]
            outcomes.append("both refuse")
        else:
            assert got.get("text") == want, got.get("error")
            outcomes.append("equal")
    return outcomes


@pytest.mark.skipif(not FILES, reason=f"no templates in {FOLDERS}; name folders in MORTISE_TEST_TEMPLATES")
@pytest.mark.parametrize("file", FILES, ids=lambda file: getattr(file, "stem", "none"))
def test_published_templates_render_as_with_jinja2(file):
    outcomes = compare(file.read_text())
    assert "equal" in outcomes or set(outcomes) <= {"not supported", "both refuse"}
    print(file.name, {name: outcomes.count(name) for name in sorted(set(outcomes))})


@pytest.mark.parametrize("case", sorted((SOURCE / "tests/golden/chat_templates").glob("*.jinja")), ids=lambda file: file.stem)
def test_our_own_templates_render_as_with_jinja2(case):
    assert "equal" in compare(case.read_text())


CHATML = ("{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


@pytest.fixture
def ask(jsonl, tmp_path):
    """ask(body, script or folder) -> the response to a chat."""
    def call(body, *args):
        (tmp_path / "out.jsonl").unlink(missing_ok=True)  # or the answer in it would stand
        _, answers = jsonl("batch", [{"custom_id": "1", "url": "/v1/chat/completions",
                                      "body": {"max_tokens": 4, "temperature": 0, "return_token_ids": True, **body}}], *args)
        return answers[0]["response"]
    return call


def user(content):
    return {"messages": [{"role": "user", "content": content}]}


@pytest.fixture
def checkpoint(tmp_path):
    """checkpoint(template) -> a copy of the demo model with this chat template."""
    def make(template):
        folder = tmp_path / "model"
        shutil.copytree(SOURCE / "models/demo", folder)
        (folder / "chat_template.jinja").write_text(template)
        return folder
    return make


def test_the_checkpoints_template_is_the_demos(ask, checkpoint):
    ours = ask(user("What is 12 + 30?"), checkpoint(CHATML))
    demo = ask(user("What is 12 + 30?"))
    assert ours["status_code"] == 200
    assert ours["body"]["choices"][0]["token_ids"] == demo["body"]["choices"][0]["token_ids"]


def test_users_write_no_special_token(ask, checkpoint):
    """As many prompt tokens as an ordinary text of this form takes; one for each where the pipeline says so."""
    folder = checkpoint(CHATML)
    spelled = ask(user("<|im_end|>"), folder)["body"]["usage"]["prompt_tokens"]
    plain = ask(user("a"), folder)["body"]["usage"]["prompt_tokens"]
    script = folder.parent / "special.lua"
    text = subprocess.run([BUILD / "mortise", "run", "--print-script", folder], capture_output=True, text=True, check=True).stdout
    script.write_text(text.replace("return pipeline {", "return pipeline {\n  chat = { special_tokens_in_content = true },"))
    special = ask(user("<|im_end|>"), script)["body"]["usage"]["prompt_tokens"]
    assert special == plain and spelled > plain


def test_users_write_no_special_token_through_a_function_of_the_script(ask, checkpoint):
    folder = checkpoint(CHATML)
    script = folder.parent / "own.lua"
    text = subprocess.run([BUILD / "mortise", "run", "--print-script", folder], capture_output=True, text=True, check=True).stdout
    script.write_text('function chat_template(messages) return messages[1].content .. "<|im_end|>" end\n' + text)
    spelled = ask(user("<|im_end|>"), script)["body"]["usage"]["prompt_tokens"]
    plain = ask(user("a"), script)["body"]["usage"]["prompt_tokens"]
    assert spelled > plain
    refused = ask({**user("a"), "chat_template_kwargs": {"x": 1}}, script)
    assert refused["status_code"] == 400
    assert refused["body"]["error"]["message"].startswith("the script's chat_template gets the messages only")


def test_fields_of_the_body_reach_the_template(ask, checkpoint):
    folder = checkpoint("{{ raise_exception(messages | length ~ ' ' ~ messages[-1].content ~ ' ' ~ add_generation_prompt ~ ' ' ~ mood) }}")
    def told(body):
        return ask(body, folder)["body"]["error"]["message"]
    start = "chat_template line 1: the template refuses these messages: "
    assert told(user("q")) == start + "'1 q True '"
    assert told({**user("q"), "add_generation_prompt": False, "chat_template_kwargs": {"mood": "good"}}) == start + "'1 q False good'"
    assert told({**user("q"), "chat_template_kwargs": {"messages": []}}) == "chat_template_kwargs: messages is a field of the body; set it there"
    assert told({**user("q"), "chat_template_kwargs": 5}) == "chat_template_kwargs: expected an object of variables for the template, got 5"
    assert told({**user("q"), "continue_final_message": True, "add_generation_prompt": True}) == (
        "add_generation_prompt and continue_final_message are both true; the first begins a message, the second continues the last one")


def test_a_message_is_continued(ask, jsonl, checkpoint, tmp_path):
    folder = checkpoint("{% for m in messages %}{{ m.content }}{% endfor %}")
    body = {"messages": [{"role": "assistant", "content": "Once upon a time"}], "continue_final_message": True}
    chat = ask(body, folder)["body"]["choices"][0]["token_ids"]
    (tmp_path / "out.jsonl").unlink()
    _, answers = jsonl("batch", [{"custom_id": "1", "url": "/v1/completions", "body": {
        "prompt": "Once upon a time", "add_special_tokens": False, "max_tokens": 4, "temperature": 0, "return_token_ids": True}}], folder)
    assert chat == answers[0]["response"]["body"]["choices"][0]["token_ids"]


def test_an_unsupported_template_stops_chats_alone(mortise, ask, checkpoint):
    folder = checkpoint("a\n{{ messages | shuffled }}")
    why = "chat_template line 2: the filter 'shuffled' is not supported"
    chat = ask(user("q"), folder)
    assert chat["status_code"] == 400 and chat["body"]["error"]["message"].startswith(why)
    process = mortise("run", folder, "-p", "Once", "--max-tokens", 2, "--temperature", 0)
    assert process.returncode == 0 and process.stdout.strip() and "chats are refused: " + why in process.stderr
    assert f"chat       refused: {why}" in mortise("check", folder).stdout
