"""Progress bars in text: tqdm's, Keras', and the `[10/500]` of many training loops."""

from __future__ import annotations

import re
from typing import NamedTuple

_TQDM = re.compile(
    r"^(?P<what>[^|]*?):?\s*\d{1,3}%\|[^|]*\|\s*(?P<n>\d+)/(?P<total>\d+)\s*\[(?P<rest>[^\]]*)\]?(?P<after>.*)"
)
_TQDM_RATE = re.compile(r"^[\d:?.]+<[\d:?., a-z]*?,\s*(?P<rate>[\d.]+|\?)\s*(?P<unit>it/s|s/it|[^,\s]*)")
_KERAS = re.compile(r"^\s*(?P<n>\d+)/(?P<total>\d+)\s+(\[[=>.\s]+\]|[━╸\-]{5,}|\s*-)\s*(?P<rest>.*)")
_KERAS_EPOCH = re.compile(r"^\s*Epoch\s+(\d+)/(\d+)\s*$")
_IMAGENET = re.compile(
    r"^(?P<what>.*?epoch(?:\(\w+\))?):?\s*\[(?P<epoch>\d+)\]\s*\[\s*(?P<n>\d+)/(?P<total>\d+)\](?P<rest>.*)", re.I
)
_TIMM = re.compile(
    r"^(?P<what>.*?\b[a-z]+):\s*(?P<epoch>\d+)\s*\[\s*(?P<n>\d+)/(?P<total>\d+)(?:\s*\([^)]*\))?\](?P<rest>.*)", re.I
)
_EPOCH = re.compile(r"epoch\W{0,3}(\d+)", re.I)
_OTHER_DATA = re.compile(r"\b(valid\w*|val|eval\w*|test\w*|predict\w*|sanity|download\w*|load\w*|map|filter|tokeniz\w*|"
                         r"generat\w*|fetch\w*|upload\w*|saving|extract\w*|quantiz\w*|unpack\w*)\b", re.I)  # fmt: skip
"""What a bar says that does not count training steps."""


class Progress(NamedTuple):
    """Where a bar stands, and the text beside it that may hold metrics."""

    step: int
    """Over all epochs."""
    total: int | None
    """The last step, where the bar covers the whole training."""
    metrics: str
    step_time: float | None = None
    """Seconds."""


class Bars:
    """Follows the bars of one log, and counts their steps over the epochs, each of which begins again at 0."""

    def __init__(self) -> None:
        self._epoch = 0
        self._epochs: int | None = None
        self._base = 0
        self._bar: tuple[str, int] = ("", 0)
        self._n = 0

    def is_heading(self, line: str) -> bool:
        """Whether a line is Keras' "Epoch 2/10", which says where the bars that follow it stand."""
        match = _KERAS_EPOCH.match(line)
        if match is None:
            return False
        self._epoch, self._epochs = max(1, _int(match[1])), _int(match[2])
        return True

    def read(self, line: str) -> Progress | None:
        """Where the bar in a line stands; None when there is none, or it counts something else than training."""
        if "%|" in line:
            match = _TQDM.match(line)
            return self._tqdm(match) if match else None
        if "[" in line and (match := _IMAGENET.match(line) or _TIMM.match(line)):
            if _OTHER_DATA.search(match["what"]):
                return None
            epoch, total = _int(match["epoch"]), _int(match["total"])
            return Progress(epoch * total + _int(match["n"]), None, match["rest"])
        match = _KERAS.match(line)
        if match and " - " in f" {match['rest']}":
            total = _int(match["total"])
            step = max(0, self._epoch - 1) * total + _int(match["n"])
            return Progress(step, total * self._epochs if self._epochs else None, match["rest"])
        return None

    def counts_other_data(self, line: str) -> bool:
        """Whether a line counts batches of an evaluation."""
        match = (_IMAGENET.match(line) or _TIMM.match(line)) if "[" in line else None
        return match is not None and _OTHER_DATA.search(match["what"]) is not None

    def _tqdm(self, match: re.Match[str]) -> Progress | None:
        what, n, total = match["what"], _int(match["n"]), _int(match["total"])
        if _OTHER_DATA.search(what):
            return None
        epoch = bool(_EPOCH.search(what))
        bar = ("epoch" if epoch else what, total)
        if bar != self._bar:
            if not self._replaces(total, epoch):
                return None
            self._bar, self._base = bar, 0
        elif n < self._n:
            # The same bar from its start: the next epoch. The number beside the word is not trusted to begin at 0 or 1.
            self._base += total
        self._n = n
        timing = _TQDM_RATE.match(match["rest"])
        metrics = match["rest"][timing.end() :] if timing else ""
        whole = None if epoch or self._base else total
        return Progress(self._base + n, whole, f"{metrics} {match['after']}", _step_time(timing))

    def _replaces(self, total: int, epoch: bool) -> bool:
        """Whether a new bar is that of the training: not one that runs inside it, nor a short one after its end."""
        _, known = self._bar
        return epoch or not known or (self._n >= known and 2 * total >= known)


def _step_time(timing: re.Match[str] | None) -> float | None:
    try:
        rate = float(timing["rate"]) if timing else 0.0
    except ValueError:
        return None
    if not rate or timing is None:
        return None
    return {"it/s": 1.0 / rate, "s/it": rate}.get(timing["unit"])


def _int(text: str) -> int:
    return int(text[:15])
