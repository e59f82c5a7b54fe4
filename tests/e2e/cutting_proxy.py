"""A connection that breaks, between a client and a server."""
import contextlib
import socket
import threading


WHOLE_EVENTS = 3  # a role, and tokens: a busy server may put more of them into one event than a part holds


class CuttingProxy:
    """Passes bytes on between a browser and the server at `target`. With `cut_after`, it cuts one stream after that many
    bytes; 0 cuts right behind the HTTP headers of the answer. With `hold_after`, one stream comes no further than that, and
    WHOLE_EVENTS events, until its server ends."""

    def __init__(self, port):
        self.target = port
        self.cut_after = self.hold_after = None
        self.num_cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # it is being started anew
                client.close()
                continue
            for way in [(client, server, lambda part: (part, True)), (server, client, self.limits())]:
                threading.Thread(target=self.pump, args=way, daemon=True).start()

    def pump(self, source, sink, limit):
        with contextlib.suppress(OSError):
            while part := source.recv(4096):
                part, goes_on = limit(part)
                sink.sendall(part)
                if not goes_on:
                    break
        for end in (source, sink):  # not closed: the other direction's thread may be waiting for it
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def limits(self):
        """Returns a function that says of each part of one connection's answers which bytes pass, and whether more may follow."""
        streamed, events, held = 0, 0, False

        def limit(part):
            nonlocal streamed, events, held
            if held:
                return b"", True
            if streamed or b"text/event-stream" in part:
                streamed += len(part)
                events += part.count(b"\n\n")
            if self.cut_after is not None and streamed > self.cut_after:
                if self.cut_after == 0:
                    part = part[:part.index(b"\r\n\r\n") + 4]
                self.cut_after = None
                self.num_cuts += 1
                return part, False  # else this part passes: it may be the first, whose id the client needs to resume
            if self.hold_after is not None and streamed > self.hold_after and events >= WHOLE_EVENTS:
                self.hold_after = None
                held = True
            return part, True

        return limit

    def close(self):
        self.listener.close()
