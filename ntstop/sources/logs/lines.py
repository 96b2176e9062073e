"""Bytes that arrive in pieces, as the lines of text that are complete."""

from __future__ import annotations

import codecs

LONGEST = 1024 * 1024
"""Bytes of a line; a longer one is left out, so that memory stays bounded whatever the file is."""
_BOMS = ((codecs.BOM_UTF8, ""), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def wide_encoding(head: bytes) -> str:
    """ "utf-16-le" or "utf-16-be" where the first bytes show it, with or without a byte order mark; else ""."""
    for bom, name in _BOMS:
        if head.startswith(bom):
            return name
    even, odd = head[0:256:2], head[1:256:2]
    if len(odd) >= 2:
        if odd.count(0) > 0.7 * len(odd) and not even.count(0):
            return "utf-16-le"
        if even.count(0) > 0.7 * len(even) and not odd.count(0):
            return "utf-16-be"
    return ""


def text_of(line: bytes) -> str:
    """UTF-8 where it is that, else Latin-1, which any bytes are."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


class Lines:
    """Splits at newlines, carriage returns (a progress line overwrites itself) or both; a torn last line waits."""

    def __init__(self) -> None:
        self.too_long = 0
        """Lines that were left out for their length."""
        self._rest = b""
        self._dropping = False
        self._decoder: codecs.IncrementalDecoder | None = None
        self._began = False

    def feed(self, data: bytes) -> list[str]:
        """The lines that are complete with `data`, without their ends; empty ones are left out."""
        if not self._began and data:
            self._begin(data)
        if self._decoder is not None:
            data = self._decoder.decode(data).encode("utf-8", "replace")
        data = self._rest + data
        if b"\r" in data:
            data = data.replace(b"\r", b"\n")
        *complete, self._rest = data.split(b"\n")
        if complete and self._dropping:
            del complete[0]
            self._dropping = False
        if self._dropping or len(self._rest) > LONGEST:
            self.too_long += not self._dropping
            self._dropping, self._rest = True, b""
        return [text for line in complete if (text := self._text(line))]

    def block(self, data: bytes) -> bytes | None:
        """The lines that are complete with `data` as they are, without the end of the last; None, and nothing taken in,
        where they have to be looked at one by one. `split` makes lines of it."""
        at = data.rfind(b"\n")
        if not self._began or self._decoder is not None or self._dropping or at < 0:
            return None
        if len(data) - at > LONGEST or len(self._rest) + data.find(b"\n") > LONGEST:
            return None
        block, self._rest = self._rest + data[:at], data[at + 1 :]
        if b"\r" in block:
            block = block.replace(b"\r", b"\n")
        return block.replace(b"\n\n", b"\n").strip(b"\n")

    def split(self, block: bytes) -> list[str]:
        """The lines of a block."""
        return [text for line in block.split(b"\n") if (text := self._text(line))]

    def end(self) -> list[str]:
        """The torn last line as it is; what still comes of it later is left out."""
        rest, self._rest = self._rest, b""
        if not rest or self._dropping:
            return []
        self._dropping = True
        return [text] if (text := self._text(rest)) else []

    def _begin(self, data: bytes) -> None:
        self._began = True
        wide = wide_encoding(data)
        if wide:
            self._decoder = codecs.getincrementaldecoder(wide)("replace")

    def _text(self, line: bytes) -> str:
        if len(line) > LONGEST:
            self.too_long += 1
            return ""
        return text_of(line).strip("\ufeff\x00 ")
