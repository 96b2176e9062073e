"""Training logs as plain text: what programs print, in the manner of nanoGPT, Megatron, torchtitan, DeepSpeed, Hugging
Face, Keras, tqdm, or anybody's `step 100 loss 3.2 lr 1e-4`.

A line gives numbers when it names a step, or stands under a progress bar that does, and holds `name: number`,
`name=number` or, for the names of well-known metrics, `name number`. `--pattern` replaces all of that.
"""

from __future__ import annotations

import re

from .jsonlines import embedded
from .lines import Lines
from .names import is_step, step_rank
from .numbers import integer, number, unix_time
from .progress import Bars
from .reader import LogFacts, Row
from .roles import guess

_READ = 4096
"""Characters of a line that are looked at; metrics stand at its beginning."""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|[\x00-\x08\x0b-\x1f\x7f]")
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d*)?(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)"
_UNIT = r"\s?(?:ms|s|sec|secs|seconds|%|/s|it/s|x|[KMGT]i?B|[BbMmKk])?"
_PAIR = re.compile(
    r"(?<![\w.@/])(?P<name>[A-Za-z_][\w/.@\-]*(?: [A-Za-z_][\w/.@\-]*){0,5}(?: ?\([\w/%. ]{1,12}\))?)"
    r"(?P<separator>['\"]?\s*[:=]\s*|\s+)[\['\"(]?"
    rf"(?P<value>{_NUMBER})(?P<unit>{_UNIT})(?P<end>$|(?=[\s,;|)\]}}'\"(/<]|\.\s|\.$))",
    re.I,
)
_STEP_OF = re.compile(r"\b(?P<name>[A-Za-z_ ]*?(?:step|steps|iter|iters|iteration|update|updates))\b\s*[:=#]?\s*\[?\s*"
                      r"(?P<n>\d[\d,]*)(?:\s*(?:/|of)\s*(?P<total>\d[\d,]*))?(?![\w.])", re.I)  # fmt: skip
_EPOCH_OF = re.compile(r"\bepoch\b\s*[:=#]?\s*\[?\s*(?P<n>\d+)(?:\s*(?:/|of)\s*(?P<total>\d+))?(?![\w.])", re.I)
_COUNTED = re.compile(r"^\W{0,2}(?P<n>\d+)\s*/\s*(?P<total>\d+)\W")
_NUMERIC = re.compile(r"[0-9]|\bnan\b|\binf", re.I)
_TIME = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?(?:Z|[+-]\d\d:\d\d)?")
_PLACE = re.compile(r"(?<![\w./])[\w./<>-]+\.py:\d+(?::\w+)?")
"""Where in a program a line comes from."""
_LOGGER = re.compile(r"^[^=|{\[]{0,80}?\b(?:INFO|DEBUG|WARNING)\b[\s:|\]-]*")
"""What a logger puts before what it is told: a host, a module."""
_METRIC_WRITER = re.compile(r"\]\s*\[(?P<n>\d+)\]\s+(?=[A-Za-z_][\w/]*=)")
"""The step as CLU's metric writer prints it behind the place of the line: "metric_writer.py:101] [500] loss=2.5"."""
_PER_STEP = re.compile(r"(?<![\w.])(?P<n>\d+(?:\.\d+)?)\s?(?P<unit>ms|s|sec)/(?:step|iter|iteration|it|batch)\b", re.I)
_TIME_UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0}
_SKIPPED_NAMES = re.compile(
    r"^(v_num|eta|rank|pid|port|seed|version|line|epoch \d|local_rank|gpu|world_size|node)$", re.I
)
_TRAINING_WORDS = re.compile(r"loss|lr|learning|grad|acc|ppl|perplexity|norm|bpb|bpc|nll|reward|mfu|tps|time", re.I)
_EVALUATION = re.compile(r"(^|[\s\[|])(val|valid|validation|eval|evaluation|test)\b", re.I)


class TextReader:
    """Reads lines as they are printed. With `pattern`, a line is what its named groups say it is."""

    format = "text"
    whole = False

    def __init__(self, pattern: re.Pattern[str] | None = None) -> None:
        self.facts = LogFacts()
        self._lines = Lines()
        self._bars = Bars()
        self._pattern = pattern
        self._step: int | None = None
        """Where the newest progress bar stands, or the newest line that holds a step and nothing else."""
        self._wall: float | None = None
        """When that line was written."""

    def feed(self, data: bytes) -> list[Row]:
        """The rows of the lines that are complete with `data`."""
        return self._rows(self._lines.feed(data))

    def end(self) -> list[Row]:
        """The row of the last line, as far as it has come."""
        return self._rows(self._lines.end())

    def _rows(self, lines: list[str]) -> list[Row]:
        rows = [row for line in lines if (row := self._row(line)) is not None]
        self.facts.bad += self._lines.too_long
        self._lines.too_long = 0
        return rows

    def _row(self, line: str) -> Row | None:
        line = line[:_READ]
        if "\x1b" in line:
            line = _ANSI.sub("", line)
        if self._pattern is not None:
            return self._matched(line)
        if _NUMERIC.search(line) is None:
            return None
        if self._bars.is_heading(line):
            return None
        wall, line = _dated(line)
        if '{"' in line and (row := embedded(line)) is not None:
            return row
        progress = self._bars.read(line)
        if progress is not None:
            self._step, self._wall = progress.step, wall
            if progress.total:
                self.facts.total_steps = progress.total
            values = self._pairs(progress.metrics)
            if not values:
                return None
            if progress.step_time is not None:
                self._timed(values, progress.step_time)
            return Row(progress.step, values, wall)
        # A bar that counts something else: what stands beside it is of other data, or half of an epoch.
        return None if "%|" in line or self._bars.counts_other_data(line) else self._plain(line, wall)

    def _plain(self, line: str, wall: float | None) -> Row | None:
        """A line without a bar: its own step, or that of the bar above it."""
        line = _LOGGER.sub(" ", _PLACE.sub(" ", line))
        step, total, rest = _step_of(line)
        if step is not None and not any(map(str.isalnum, rest)):
            # OLMo: "[step=5/7000]", and its metrics a line each below.
            self._step, self._wall, self.facts.total_steps = step, wall, total or self.facts.total_steps
            return None
        values = self._pairs(rest)
        if values and (timed := _PER_STEP.search(rest)) is not None:
            self._timed(values, float(timed["n"]) * _TIME_UNITS[timed["unit"].lower()])
        if step is None and "epoch" in values and self._step is None:
            step = integer(values.get("epoch"))
        if step is None:
            if not any(_TRAINING_WORDS.search(name) and guess(name).role != "other" for name in values):
                return None
            step = self._step
            wall = self._wall if wall is None else wall
        elif total is not None:
            self.facts.total_steps = total
        values = {name: value for name, value in values.items() if not is_step(name) or name == "epoch"}
        if not any(name != "epoch" for name in values):
            return None
        if _EVALUATION.search(line):
            values = {_evaluated(name): value for name, value in values.items()}
        return Row(step, values, wall)

    def _pairs(self, text: str) -> dict[str, float]:
        values, seconds = pairs(text)
        if "time" in values and "data_time" in values:
            # MMEngine and Detectron2: of an iteration, and of it the wait for data.
            self._timed(values, values.pop("time"))
        self.facts.seconds |= seconds
        return values

    def _timed(self, values: dict[str, float], seconds: float) -> None:
        """A step time whose unit is known, unless the line names one itself."""
        if not any(guess(name).role == "step_time" for name in values):
            values["step_time"] = seconds
            self.facts.seconds.add("step_time")

    def _matched(self, line: str) -> Row | None:
        match = self._pattern.search(line) if self._pattern is not None else None
        if match is None:
            return None
        told = {name: found for name, text in match.groupdict().items() if text and (found := number(text)) is not None}
        name = min((name for name in told if is_step(name)), key=step_rank, default=None)
        step = integer(told.pop(name)) if name is not None else None
        return Row(step, told, _dated(line)[0]) if told else None


def _dated(line: str) -> tuple[float | None, str]:
    """The time that stands in a line, and the rest of it."""
    time = _TIME.search(line)
    if time is None:
        return None, line
    return unix_time(time[0].replace("/", "-")), f"{line[: time.start()]} {line[time.end() :]}"


def pairs(text: str) -> tuple[dict[str, float], set[str]]:
    """The `name: number` pairs of a line, and the names of step times that a unit stands behind: those are seconds."""
    values: dict[str, float] = {}
    seconds: set[str] = set()
    for part in text.split("|") if "|" in text else (text,):
        for match in _PAIR.finditer(part):
            name, unit = match["name"].strip(), match["unit"].strip()
            if not match["value"]:
                continue
            marked = any(mark in match["separator"] for mark in ":=")
            # "the loss 3.2": without a mark, only the last words are the name, and only of a known metric.
            name = _tidy(name) if marked else _known(name)
            found = number(match["value"])
            if not name or found is None or _SKIPPED_NAMES.match(name):
                continue
            if (factor := _TIME_UNITS.get(unit.lower())) is not None and name not in values:
                if name.lower() in ("time", "dt"):
                    name = "step_time"  # nanoGPT's "time 123.45ms" is that of one step
                role = guess(name)
                if role.role == "step_time":
                    found *= factor / role.factor
                    seconds.add(name)
            values.setdefault(name, found)
    return values, seconds


def _known(words: str) -> str:
    """The longest end of some words that names a metric; "" when none does."""
    parts = words.split(" ")
    for start in range(max(0, len(parts) - 3), len(parts)):
        name = " ".join(parts[start:])
        if guess(name).role != "other" or name.lower() in ("mfu", "ppl", "perplexity", "time", "dt", "tflops"):
            return name
    return ""


def _tidy(name: str) -> str:
    """The name without words of a sentence before it: of "INFO - step" the step."""
    return re.sub(r"^(?:info|debug|train|training)?\s*-\s*", "", name, flags=re.I).strip(" -")


def _step_of(line: str) -> tuple[int | None, int | None, str]:
    """Step and last step that a line names, and the rest of the line."""
    found = [match for match in _STEP_OF.finditer(line) if _is_position(match)]
    if found:
        match = min(found, key=lambda match: step_rank(match["name"].strip().split(" ")[-1]))
        rest = f"{line[: match.start()]} {line[match.end() :]}"
        return _count(match["n"]), _count(match["total"]), rest
    written = _METRIC_WRITER.search(line)
    if written is not None:
        return _count(written["n"]), None, line[written.end() :]
    match2 = _COUNTED.match(line)
    if match2 is not None:
        return _count(match2["n"]), _count(match2["total"]), line[match2.end() - 1 :]
    epoch = _EPOCH_OF.search(line)
    if epoch is not None:
        return _count(epoch["n"]), _count(epoch["total"]), f"{line[: epoch.start()]} {line[epoch.end() :]}"
    return None, None, line


def _is_position(match: re.Match[str]) -> bool:
    """ "time per step: 3" is no position."""
    words = match["name"].lower()
    return " per" not in words and not words.strip().startswith("per ") and "time" not in words


def _count(text: str | None) -> int | None:
    return int(text.replace(",", "")[:15]) if text else None


def _evaluated(name: str) -> str:
    """A number in a line about other data is not of the training: "val loss" stays, "loss" becomes "val/loss"."""
    return f"val/{name}" if guess(name).role == "train_loss" and "train" not in name.lower() else name
