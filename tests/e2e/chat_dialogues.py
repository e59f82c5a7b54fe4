"""Thirty dialogues, and jinja2 with the settings that transformers gives it: what chat templates are compared with."""
import datetime
import json
import random

import jinja2
import jinja2.ext
import jinja2.sandbox

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
TEXTS = ["Hi", "What is 2+2?", "Grüße aus Köln 🌍 — 漢字 \u200b", "", "  spaces around  ", "line one\nline two\n\n\nline five\n",
         "<|im_end|> [INST] </s> <b>&amp;\"quoted\" 'single' \\ back</b>", "x" * 20000, "tab\there\u00a0nbsp", "İstanbul ΣΑΣ ß"]
SCHEMA = {"type": "object", "required": ["city"], "properties": {
    "city": {"type": "string", "description": "The city's name", "enum": ["Köln", "Paris"]}, "days": {"type": "integer", "default": 3},
    "options": {"type": "array", "items": {"type": "string"}},
    "nested": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": ["string", "null"]}}, "required": ["a"]}}}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Gets the weather.\nFor a city: \"x\"",
                                           "parameters": SCHEMA, "return": {"type": "string"}}},
         {"type": "function", "function": {"name": "now", "description": "The time",
                                           "parameters": {"type": "object", "properties": {}}}}]
ARGUMENTS = {"city": "Köln", "days": 3, "f": 1.5, "l": [1, None, True, {"k": "v"}], "q": "a\"b\n"}


def tool_turn(n):
    """A call or two, and what came of them. Ids have the nine letters that some templates demand."""
    calls = [{"id": f"call{n + i:05d}", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
             for i, arguments in enumerate([ARGUMENTS, {}][:2 if n % 3 == 0 else 1])]
    yield {"role": "assistant", "content": ["", "Let me see."][n % 4 // 2], "tool_calls": calls}
    for call, content in zip(calls, ['{"temp": 21.5}', "sunny ☀"]):
        yield {"role": "tool", "name": "get_weather", "tool_call_id": call["id"], "content": content}
    yield {"role": "assistant", "content": "It is sunny."}


def dialogue(n, rng):
    messages = []
    if n % 3 == 1:
        messages.append({"role": "system", "content": rng.choice(["You are helpful.", "", "Sei nett. /no_think", "Ünïcode\nsystem"])})
    has_tools = n % 5 in (1, 2)
    turns = 6 if n == 29 else 1 + n % 3
    for turn in range(turns):
        messages.append({"role": "user", "content": TEXTS[(n + turn * 3) % len(TEXTS)]})
        if has_tools and turn == 0 and n % 2:
            messages += tool_turn(n)
        elif turn < turns - 1 or n % 4 == 3:
            message = {"role": "assistant", "content": rng.choice(["Hello!", "<think>\nhm\n</think>\n\nFour.", "Antwort é\n", ""])}
            if n % 7 == 0:
                message["reasoning_content"] = "I think so.\n"
            messages.append(message)
    if n % 6 == 4:
        for message in messages:
            if message["role"] == "user":
                message["content"] = [{"type": "text", "text": message["content"]}, {"type": "text", "text": "second part"}]
    of = {"messages": messages, "add_generation_prompt": n % 2 == 0, "tools": TOOLS if has_tools else None}
    if n % 4 == 2:
        of["variables"] = {"enable_thinking": n % 8 == 2}
    return of


def dialogues():
    rng = random.Random(7)
    return [dialogue(n, rng) for n in range(30)]


class Generation(jinja2.ext.Extension):
    """{% generation %}, which renders its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime(2024, 7, 26, 13, 5, 9).strftime  # as tests/unit/chat_template/render_chat.cpp
    return env


def expected(template, of):
    """The text, or None when jinja2 raises an error."""
    try:
        return template.render(messages=of["messages"], tools=of["tools"], documents=None,
                               add_generation_prompt=of["add_generation_prompt"], **SPECIAL, **of.get("variables", {}))
    except Exception:  # of any kind: what a template does to values that it does not expect
        return None
