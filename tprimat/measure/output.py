"""Output of a child process: to its log, and line by line to a callback; bounded."""

from __future__ import annotations

import codecs
import collections
import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import IO

from tprimat.record import progress

OnLine = Callable[[str], None]
OnMessage = Callable[[progress.Message], None]

TAIL_LINES = 12
LOG_CHARACTERS = 256 << 20
"""The log takes no more text from this size on; the last output is added at its end."""

LAST_LINES = 1000
LONGEST_LINE = 1 << 16
"""Characters; a longer line goes on in the next one."""

_CHUNK = 1 << 16
_WAITING_CHUNKS = 64
"""Beyond that a child that prints faster than its log can be written waits."""


class Output:
    """Reader of a child's output streams.

    Args:
        streams: each with a function that is called with its lines, or None.
        log: takes all of it up to `limit` characters; unbuffered, as what a full disk refuses must
            not come back at its closing.

    Attributes:
        trouble: why the log holds no more, in a few words; None if it does.
    """

    def __init__(
        self,
        streams: Iterable[tuple[IO[bytes], OnLine | None]],
        on_message: OnMessage,
        log: IO[bytes],
        limit: int = LOG_CHARACTERS,
    ) -> None:
        self.trouble: str | None = None
        self._on_message = on_message
        self._log = log
        self._left = limit
        self._left_out = 0
        self._last: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
        self._chunks: queue.Queue[tuple[OnLine | None, list[str]] | None] = queue.Queue(
            _WAITING_CHUNKS
        )
        self._open_streams = 0
        for stream, on_line in streams:
            self._open_streams += 1
            threading.Thread(target=self._read, args=(stream, on_line), daemon=True).start()

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines, marks left out."""
        return tuple(self._last)[-TAIL_LINES:]

    def pass_on(self, wait_s: float) -> None:
        """Pass on what has been printed, waiting for it, and then working at it, up to wait_s."""
        deadline = time.monotonic() + wait_s
        while True:
            try:
                chunk = self._chunks.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if chunk is None:
                self._open_streams -= 1
                if not self._open_streams:
                    break
                continue
            on_line, lines = chunk
            kept = []
            try:
                for line in lines:
                    text = _without_message(line, self._on_message)
                    if text is not None:
                        kept.append(text)
                        if on_line is not None:
                            on_line(text)
            finally:
                self._keep(kept)
            if self._chunks.empty() or time.monotonic() > deadline:
                break

    def close(self, wait_s: float) -> None:
        """Pass on what still comes, for up to wait_s, and end the log."""
        deadline = time.monotonic() + wait_s
        while self._open_streams and time.monotonic() < deadline:
            self.pass_on(deadline - time.monotonic())
        if self._left_out:
            self.write(
                f"[{self._left_out} lines skipped, the log's size is limited; the last lines:]\n"
            )
            self.write("".join(line + "\n" for line in self._last))

    def write(self, text: str) -> None:
        """Add to the log, unless that has failed before."""
        left = memoryview(text.encode("utf-8", "replace"))
        try:
            while left and self.trouble is None:
                left = left[self._log.write(left) :]
        except OSError as error:
            self.trouble = error.strerror or str(error)

    def _read(self, stream: IO[bytes], on_line: OnLine | None) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = ""
        with stream:
            while True:
                content = stream.read1(_CHUNK)  # type: ignore[attr-defined]  # a buffered reader
                rest += decoder.decode(content, not content)
                if not content:
                    break
                *lines, rest = rest.replace("\r\n", "\n").split("\n")
                while len(rest) > LONGEST_LINE:
                    lines.append(rest[:LONGEST_LINE])
                    rest = rest[LONGEST_LINE:]
                if lines:
                    self._chunks.put((on_line, lines))
        if rest:
            self._chunks.put((on_line, [rest]))
        self._chunks.put(None)

    def _keep(self, lines: list[str]) -> None:
        self._last.extend(lines)
        if self._left > 0:
            text = "".join(f"{line}\n" for line in lines)
            self._left -= len(text)
            self.write(text)
        else:
            self._left_out += len(lines)


def _without_message(line: str, on_message: OnMessage) -> str | None:
    """Return the line to show; None if it held only a message."""
    # Another process may have printed half a line before the mark.
    text, mark, rest = line.partition(progress.MARK)
    message = progress.decode(mark + rest) if mark else None
    if message is None:
        return line
    on_message(message)
    return text or None
