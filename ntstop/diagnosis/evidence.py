"""Sentences and evidence that several rules write alike."""

from __future__ import annotations

from collections.abc import Iterable

from .detectors.nonfinite import describe
from .detectors.rate import Jump, RateWatch
from .finding import Evidence, Severity


def point(series: str, step: int, value: float, when: str = "") -> Evidence:
    """One measured point of a curve: "before", "at" and "after" make a trajectory."""
    prefix = f"{when}: " if when else ""
    return Evidence(f"{prefix}{series} {describe(value)} at step {step:,}", series, step, value)


def trajectory(
    series: str,
    before: Iterable[tuple[int, float]],
    at: tuple[int, float],
    after: Iterable[tuple[int, float]] = (),
) -> list[Evidence]:
    """The curve around a moment."""
    return [
        *(point(series, step, value, "before") for step, value in before),
        point(series, at[0], at[1], "at"),
        *(point(series, step, value, "after") for step, value in after),
    ]


def seconds(value: float) -> str:
    """ "850 ms", "12 s", "3 min 20 s", "2 h 05 min"."""
    if value < 1.0:
        return f"{value * 1000:.0f} ms"
    if value < 120.0:
        return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def rate_evidence(rate: RateWatch, step: int) -> list[Evidence]:
    """What the learning rate says: its value at `step`, and a jump above its peak when there was one."""
    items = []
    if rate.jump is not None:
        items.append(jump_evidence(rate.jump))
    if rate.last is not None:
        share = f", {rate.last / rate.peak:.0%} of its peak" if rate.peak > 0 else ""
        items.append(Evidence(f"the learning rate is {rate.last:.3g}{share}", "lr", step, rate.last))
    return items


def jump_evidence(jump: Jump) -> Evidence:
    """The jump of the learning rate as evidence."""
    text = f"the learning rate went from {jump.before:.3g} to {jump.after:.3g} at step {jump.x:,}"
    return Evidence(text, "lr", jump.x, jump.after)


def severity_word(severity: Severity) -> str:
    """The severity as a word that needs no colour."""
    return {"critical": "Critical", "warning": "Warning", "info": "Note"}[severity]
