"""A program at a terminal: a pseudo-terminal of the standard library, read until what is expected has come."""
import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[=>]|\x1b\([A-Z0-9]")
PIECES = re.compile(ESCAPES.pattern + rb"|(?P<byte>.)", re.DOTALL)
CTRL_C, CTRL_D, CTRL_R, CTRL_Z, TAB, UP, LEFT, ENTER = "\x03", "\x04", "\x12", "\x1a", "\t", "\x1b[A", "\x1b[D", "\r"


def _take_terminal():
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """`stdout` may be a file: then the terminal has standard input and standard error alone."""

    def __init__(self, *command, env, stdout=None, rows=40, columns=120):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.process = subprocess.Popen([str(part) for part in command], stdin=slave, stdout=stdout or slave, stderr=slave,
                                        env=env, preexec_fn=_take_terminal, close_fds=True)
        os.close(slave)
        self.raw = b""    # all that came
        self.seen = 0     # of `raw`, by expect()
        self.ended = False

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, text):
        data = text.encode() if isinstance(text, str) else text
        while data:  # read what comes meanwhile: a program that cannot write does not read
            readable, writable, _ = select.select([self.master], [self.master], [], 60)
            assert readable or writable, "the terminal takes nothing"
            if readable:
                self._read()
            if writable:
                data = data[os.write(self.master, data[:512]):]

    def _read(self):
        try:
            chunk = os.read(self.master, 65536)
        except OSError:  # Linux says the end of a pseudo-terminal so
            chunk = b""
        self.raw += chunk
        self.ended = not chunk

    def expect(self, pattern, timeout=60):
        """The match of what comes next, control sequences left out. What stands before it counts as seen too."""
        deadline = time.monotonic() + timeout
        while True:
            text = ESCAPES.sub(b"", self.raw[self.seen:]).decode(errors="replace")
            found = re.search(pattern, text, re.DOTALL)
            if found:
                self._mark(found.end())
                return found
            left = deadline - time.monotonic()
            assert not self.ended and left > 0, f"no {pattern!r} in {text[-2000:]!r}"
            if select.select([self.master], [], [], left)[0]:
                self._read()

    def _mark(self, num_characters):
        """Moves `seen` to after that many characters of what expect() saw."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for piece in PIECES.finditer(self.raw, self.seen):
            if num_characters == 0:
                break
            num_characters -= len(decoder.decode(piece["byte"] or b""))
            self.seen = piece.end()

    def line(self, text):
        self.send(text + ENTER)

    def has_echo(self):
        """Whether the terminal is as programs expect to find it."""
        return bool(termios.tcgetattr(self.master)[3] & termios.ECHO)

    def wait(self, timeout=60):
        """The exit code; reads to the end."""
        deadline = time.monotonic() + timeout
        while not self.ended and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.1)[0]:
                self._read()
            elif self.process.poll() is not None:
                break
        return self.process.wait(timeout=max(1, deadline - time.monotonic()))

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
