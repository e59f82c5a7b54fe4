"""The dialogue of `mortise run` with a person at a terminal."""
# Covers: runtime/cli/repl/{line_editor,line_source,terminal} runtime/cli/interrupt
import json
import os
import re
import signal
import stat

import pytest
from conftest import BUILD, MORTISE
from terminal import CTRL_C, CTRL_D, CTRL_R, CTRL_Z, ENTER, LEFT, TAB, UP, Terminal

PROMPT = r"(?:^|\n)> $"  # the screen ends with it: the program waits


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def terminal(home):
    """terminal(*args of run) -> a Terminal at its first prompt; its home folder is empty."""
    opened = []

    def start(*args, env=None, prompt=r"> $", max_tokens=8, **options):
        environment = {**os.environ, "HOME": str(home), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8",
                       "MORTISE_PLUGIN_PATH": str(BUILD / "tests/e2e/plugins"), **(env or {})}
        for name in ("XDG_STATE_HOME", "EDITRC"):
            if name not in (env or {}):
                environment.pop(name, None)
        opened.append(Terminal(MORTISE, "run", "--temperature", 0, "--max-tokens", max_tokens, *args, env=environment,
                               **options))
        opened[-1].expect(prompt)
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def saved(screen, path):
    """What the dialogue would keep: the way to see what the program understood."""
    screen.line(f"/save! {path}")
    screen.expect(r"saved to [^\n]*\n")
    screen.expect(r"> $")
    return json.loads(path.read_text())


def prompts(screen, tmp_path):
    return [one["prompt"] for one in saved(screen, tmp_path / "seen.json")["completions"]]


def answered(screen):
    screen.expect(r"tokens/s; first after[^\n]*\n")
    screen.expect(r"> $")


def test_says_what_runs_answers_and_quits(terminal):
    screen = terminal(prompt=r"demo; /help for help, Ctrl-D quits\r\n> $")
    screen.line("Once upon a time")
    screen.expect(r"Once upon a time\r\n there was")
    answered(screen)
    screen.line("/quit")
    assert screen.wait() == 0


def test_ctrl_d_quits_and_an_error_before_does_not_count(terminal):
    screen = terminal()
    screen.line("/nope")
    screen.expect(r"mortise: unknown command /nope")
    screen.expect(r"> $")
    screen.send(CTRL_D)
    assert screen.wait() == 0
    assert screen.has_echo()


def test_ctrl_c_stops_an_answer_and_not_the_program(terminal, tmp_path):
    screen = terminal("--ignore-eos", max_tokens=2000, env={"MORTISE_ISA": "portable"})
    screen.line("Once upon a time")
    screen.expect(r"there was")
    screen.send(CTRL_C)
    screen.expect(r"(\d+) tokens, [^\n]*; abort;")
    screen.expect(r"> $")
    screen.line("/set max_tokens 4")
    screen.expect(r"max_tokens is 4")
    screen.line("Again")
    answered(screen)
    assert prompts(screen, tmp_path) == ["Once upon a time", "Again"]


def test_a_stopped_message_keeps_what_was_read(terminal, tmp_path):
    screen = terminal("--ignore-eos", max_tokens=1500, env={"MORTISE_ISA": "portable"})
    screen.line("/chat")
    screen.expect(r"chat is on: no messages yet[^\n]*\nchat> $")
    screen.line("Tell me a story.")
    screen.expect(r"story\.\r\n\w+")
    screen.send(CTRL_C)
    screen.expect(r"; abort;[^\n]*\nchat> $")
    messages = saved(screen, tmp_path / "a.json")["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"] and messages[1]["content"]


def test_ctrl_c_at_the_prompt_clears_the_line(terminal, tmp_path):
    screen = terminal()
    screen.send("never sent")
    screen.expect("never sent")
    screen.send(CTRL_C)
    screen.expect(r"\^C\r\n> $")
    screen.line('"""')
    screen.expect(r"\.\.\. $")
    screen.line("nor this")
    screen.expect(r"\.\.\. $")
    screen.send(CTRL_C)
    screen.expect(r"\^C\r\n> $")
    screen.line("Hello")
    answered(screen)
    assert prompts(screen, tmp_path) == ["Hello"]


def test_a_line_is_edited(terminal, tmp_path):
    screen = terminal()
    screen.send("Helo" + LEFT + "l" + ENTER)
    answered(screen)
    screen.send("é中😀x\x7f" + ENTER)
    answered(screen)
    assert prompts(screen, tmp_path) == ["Hello", "é中😀"]


def test_entries_of_several_lines(terminal, tmp_path):
    screen = terminal()
    screen.line("one \\")
    screen.expect(r"\.\.\. $")
    screen.line("two")
    answered(screen)
    screen.line('"""')
    screen.expect(r"\.\.\. $")
    screen.line("/three")
    screen.expect(r"\.\.\. $")
    screen.line('"""')
    answered(screen)
    assert prompts(screen, tmp_path) == ["one \ntwo", "/three"]


def test_a_paste_is_not_sent_line_by_line(terminal, tmp_path):
    screen = terminal()
    assert b"\x1b[?2004h" in screen.raw
    screen.send("\x1b[200~first\rsecond\r\nthird\x1b[31m\r\x1b[201~")
    screen.expect(r"third\[31m")
    screen.send(" end" + ENTER)
    answered(screen)
    # A new line of the paste is a new line of the prompt; its escape character is none of it.
    assert prompts(screen, tmp_path) == ["first\nsecond\nthird[31m end"]


def test_a_command_in_a_paste_of_several_lines_is_not_run(terminal, tmp_path):
    screen = terminal()
    screen.send("\x1b[200~Hello\n/quit\n\x1b[201~" + ENTER)
    answered(screen)
    assert prompts(screen, tmp_path) == ["Hello\n/quit"]


def test_the_history_outlives_the_program(terminal, home, tmp_path):
    screen = terminal()
    file = home / ".local/state/mortise/history"
    assert not file.exists()
    screen.line("the first one")
    answered(screen)
    screen.send("\x1b[200~two\nlines\x1b[201~" + ENTER)
    answered(screen)
    screen.line("/quit")
    assert screen.wait() == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [json.loads(line) for line in file.read_text().splitlines()] == ["the first one", "two\nlines", "/quit"]

    screen = terminal()
    screen.send(UP + UP + ENTER)
    answered(screen)
    screen.send(CTRL_R + "first")
    screen.expect(r"the first one")
    screen.send(ENTER)
    answered(screen)
    assert prompts(screen, tmp_path) == ["two\nlines", "the first one"]


def test_the_history_lies_where_xdg_says_and_is_not_doubled(terminal, tmp_path):
    screen = terminal(env={"XDG_STATE_HOME": str(tmp_path / "state")})
    for _ in range(3):
        screen.line("/seed")
        screen.expect(r"no seed[^\n]*\n> $")
    assert (tmp_path / "state/mortise/history").read_text() == '"/seed"\n'


@pytest.mark.parametrize("state", ["/dev/null/x", "/proc/self"])
def test_a_history_that_cannot_be_written_is_said_once(terminal, state):
    screen = terminal(env={"XDG_STATE_HOME": state})
    for number in (1, 2):
        screen.line(f"/seed {number}")
        screen.expect(rf"seed is {number}\r\n> $")
    screen.send(CTRL_D)
    assert screen.wait() == 0
    assert screen.raw.count(b"mortise: the history is not saved: ") == 1


def test_a_history_of_somebody_else_does_no_harm(terminal, home):
    file = home / ".local/state/mortise/history"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\xff\xfe\x00\n{}\n[[[[\n\"fine\"\n\"esc \\u001b[2J\"\n" + b"x" * 100000)
    screen = terminal()
    screen.send(UP + UP)
    screen.expect("fine")
    screen.send(CTRL_C)
    screen.expect(r"> $")


def test_tab_completes_commands_fields_and_values(terminal):
    screen = terminal()
    screen.send("/hel" + TAB + "sc" + TAB + ENTER)
    screen.expect(r"/score A \| B")
    screen.expect(r"> $")
    screen.send("/se" + TAB)
    screen.expect(r"\n/seed  /set\r\n> /se")
    screen.send("t temp" + TAB + "0.5" + ENTER)
    screen.expect(r"temperature is 0\.5\r\n> $")
    screen.send("/set ig" + TAB + "tr" + TAB + ENTER)
    screen.expect(r"ignore_eos is true\r\n> $")
    screen.send("/seed n" + TAB + ENTER)
    screen.expect(r"no seed")


def test_tab_completes_proposers_and_their_options(terminal):
    screen = terminal()
    screen.send("/proposer loo" + TAB + "max" + TAB + "2 occ" + TAB + "fi" + TAB + ENTER)
    screen.expect(r'proposer: lookback eager=true max_tokens=2 notes="" occurrence="first"; swapped in ')
    screen.expect(r"> $")
    screen.send("/plugins loo" + TAB + ENTER)
    screen.expect(r"proposer lookback, in use: ")


def test_tab_completes_swaps_and_diffs(terminal):
    screen = terminal()
    screen.send("/swap att" + TAB + "cas" + TAB + "{blo" + TAB + "32}" + ENTER)
    screen.expect(r"attention: cascade; swapped in ")
    screen.expect(r"> $")
    screen.send("/swap proposer loo" + TAB + "{occ" + TAB + TAB + "fi" + TAB + "}" + ENTER)
    screen.expect(r'proposer: lookback eager=true max_tokens=4 notes="" occurrence="first"; swapped in ')
    screen.expect(r"> $")
    screen.line("Once")
    answered(screen)
    screen.send("/dif" + TAB + "\"sch" + TAB + "pre" + TAB + "\"" + ENTER)
    screen.expect(r"equal: \d+ tokens? with the same log probabilities, bit by bit\r\n> $")
    screen.send("/sho" + TAB + "dr" + TAB + "of" + TAB + ENTER)
    screen.expect(r"drafts are not shown")


def test_ctrl_c_ends_a_diff_and_the_parts_come_back(terminal):
    screen = terminal(max_tokens=1900)
    screen.line("/set ignore_eos true")
    screen.expect(r"> $")
    screen.line("Once")
    answered(screen)
    screen.line("/diff now 'attention cascade {block_size = 64}'")
    screen.expect(r"block_size = 64}'\r\n")
    screen.send(CTRL_C)
    screen.expect(r"stopped; the parts are unchanged\r\n")
    screen.expect(r"> $")
    screen.line("/swap")
    screen.expect(r"attention: paged block_size=16\r\n")
    screen.expect(r"> $")
    screen.line("/diff now 'attention cascade {block_size = 64}'")
    screen.expect(r"equal: 1900 tokens with the same log probabilities")


GREEN, CYAN, YELLOW = b"\x1b[30;42m", b"\x1b[30;46m", b"\x1b[30;43m"


def test_drafts_have_shades_on_a_terminal(terminal, always_drafting):
    screen = terminal(always_drafting, max_tokens=40)
    screen.line("/show drafts")
    screen.expect(r"drafts are shown[^\n]*\r\naccepted drafts bonus token after them token in place of a rejected draft no draft\r\n> $")
    assert all(colour in screen.raw for colour in (GREEN, CYAN, YELLOW))
    begin = len(screen.raw)
    screen.line("Once upon a time")
    screen.expect(r"Once upon a time\r\n there was")
    answered(screen)
    shown = screen.raw[begin:]
    assert GREEN in shown and CYAN in shown and shown.count(b"\x1b[0m") >= shown.count(GREEN)
    for line in shown.split(b"\n"):  # no colour runs into the next line
        assert line.rfind(b"\x1b[0m") >= max(line.rfind(colour) for colour in (GREEN, CYAN, YELLOW))


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_without_colours_drafts_stand_between_brackets(terminal, always_drafting, env):
    screen = terminal(always_drafting, env=env, max_tokens=40)
    screen.line("/show drafts")
    screen.expect(r"\[accepted drafts\] <bonus token after them> {token in place of a rejected draft} no draft\r\n> $")
    screen.line("Once upon a time")
    screen.expect(r"\[[^]]*\]")
    answered(screen)
    assert not any(colour in screen.raw for colour in (GREEN, CYAN, YELLOW))


def test_tab_completes_files(terminal, home, tmp_path):
    (tmp_path / "tales").mkdir()
    screen = terminal()
    screen.line(f"/save {tmp_path}/tales/my story.json")
    screen.expect(r"saved to")
    screen.expect(r"> $")
    screen.send(f"/load {tmp_path}/tal" + TAB + "my" + TAB + ENTER)
    screen.expect(r"loaded \S+/tales/my story\.json: no messages yet")
    screen.expect(r"> $")
    screen.line("/save ~/mine.json")
    screen.expect(r"saved to")
    screen.send("/load ~/mi" + TAB + ENTER)
    screen.expect(r"loaded \S+/mine\.json")
    assert (home / "mine.json").exists()


def test_tab_in_a_prompt_does_nothing(terminal, tmp_path):
    screen = terminal()
    screen.send("a" + TAB + "b" + ENTER)
    answered(screen)
    assert prompts(screen, tmp_path) == ["ab"]


def test_broken_utf_8_is_replaced_and_said(terminal, tmp_path):
    screen = terminal()
    screen.send(b"caf\xe9 \xff!\r")
    screen.expect(r"mortise: not UTF-8; 2 parts were replaced by U\+FFFD")
    answered(screen)
    assert prompts(screen, tmp_path) == ["caf\ufffd \ufffd!"]


@pytest.mark.parametrize("locale", ["C", "POSIX", "xx_YY.nothing"])
def test_utf_8_needs_no_locale(terminal, tmp_path, locale):
    screen = terminal(env={"LC_ALL": locale})
    screen.line("naïve 中")
    answered(screen)
    assert prompts(screen, tmp_path) == ["naïve 中"]


def test_a_very_long_line(terminal, tmp_path):
    screen = terminal()
    screen.line("word " * 6000)  # 30 kB, far more than the screen
    screen.expect(r"mortise: prompt of \d+ tokens and one to generate exceeds the model's length of \d+; shorten it")
    screen.expect(r"> $")
    screen.line("/set stop " + "x" * 5000)
    screen.expect(r"stop is \[")
    screen.expect(r"> $")
    assert saved(screen, tmp_path / "a.json")["settings"]["stop"] == "x" * 5000


def test_the_window_may_change_while_a_line_is_written(terminal, tmp_path):
    screen = terminal()
    text = "a line that is longer than the narrow window will be " * 2
    screen.send(text)
    for rows, columns in ((30, 40), (10, 20), (50, 132)):
        screen.resize(rows, columns)
        screen.expect(r"will be +x*$")  # drawn anew
        screen.send("x")
        screen.expect(r"x")
    screen.send(ENTER)
    answered(screen)
    assert prompts(screen, tmp_path) == [text + "xxx"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_at_the_prompt_leaves_the_terminal_as_it_was(terminal, number):
    screen = terminal()
    screen.send("half a line")
    screen.expect("half a line")
    assert not screen.has_echo()  # libedit draws
    screen.process.send_signal(number)
    if number == signal.SIGINT:
        screen.expect(r"\^C\r\n> $")
        screen.send(CTRL_D)
        assert screen.wait() == 0
    else:
        assert screen.wait() == -number
    assert screen.has_echo()


def test_ctrl_z_stops_the_program_and_it_goes_on(home):
    environment = {**os.environ, "HOME": str(home), "TERM": "xterm", "PS1": "shell# "}
    shell = Terminal("bash", "--norc", "--noprofile", "-i", env=environment)
    try:
        shell.expect(r"shell# $")
        shell.line(f"{MORTISE} run --max-tokens 4")
        shell.expect(r"> $")
        shell.send("half")
        shell.expect("half")
        shell.send(CTRL_Z)
        shell.expect(r"Stopped.*shell# $")
        assert shell.raw.rstrip().rfind(b"\x1b[?2004l") > 0
        shell.line("fg")
        shell.expect(r"> half$")
        shell.send(" a line" + ENTER)
        shell.expect(r"tokens/s; first after[^\n]*\n> $")
        shell.send(CTRL_D)
        shell.expect(r"shell# $")
    finally:
        shell.close()


def test_standard_output_in_a_file_has_the_completions_alone(terminal, mortise, tmp_path):
    file = tmp_path / "out.txt"
    with open(file, "w") as stdout:
        screen = terminal(stdout=stdout)
        screen.line("Once upon a time")
        answered(screen)
        screen.line("/help")
        screen.expect(r"Ctrl-D quits\.\r\n> $")
        screen.send(CTRL_D)
        assert screen.wait() == 0
    assert file.read_text() == mortise("run", "-p", "Once upon a time", "--temperature", 0, "--max-tokens", 8).stdout


def test_a_dumb_terminal_gets_no_control_sequences(terminal):
    screen = terminal(env={"TERM": "dumb"})
    screen.line("Once")
    answered(screen)
    screen.send(CTRL_D)
    assert screen.wait() == 0
    assert b"\x1b" not in screen.raw


def test_the_terminal_may_go_away(terminal):
    screen = terminal()
    os.close(screen.master)
    assert screen.process.wait(timeout=60) in (0, -signal.SIGHUP)
    screen.master = os.open("/dev/null", os.O_RDONLY)


def test_chat_on_the_screen(terminal):
    screen = terminal(max_tokens=40)
    screen.line("/chat")
    screen.expect(r"chat> $")
    screen.line("What is 12 + 30?")
    screen.expect(r"42\s*\r\n\d+ tokens")
    screen.expect(r"chat> $")
    screen.line("/complete")
    screen.expect(r"chat is off[^\n]*\n> $")
    screen.line("/chat clear")
    screen.expect(r"the dialogue is empty\r\n> $")
