"""What is marked on the step axis."""

from __future__ import annotations

from ntstop.run.process import ProcessState, Track
from ntstop.tui.facts import _sampling
from ntstop.tui.marks import markers_of
from ntstop.tui.raster.axes import MARKERS
from ntstop.tui.screens.help import MEANINGS, axis_signs
from ntstop_probe.wire import Event, ProbeStatus
from tests.tui import feed
from tests.tui.opened import opened


def sampling(ordinal: int, tier: str, layers: int | None) -> Event:
    return Event(float(ordinal), "sampling", ordinal=ordinal, data={"tier": tier, "layers": layers})


def test_a_change_of_what_is_measured_is_marked_and_a_mere_interval_is_not() -> None:
    process = ProcessState(1, Track(None))
    process.events.extend(
        [
            sampling(8, "full", 16),
            sampling(64, "full", 64),
            sampling(96, "no layers", None),
            sampling(128, "timing thinned", None),
            sampling(160, "timing thinned", None),
            sampling(900, "full", 64),
        ]
    )
    assert [(marker.x, marker.kind) for marker in markers_of(process, [])] == [
        (96.0, "sampling"),
        (128.0, "sampling"),
        (900.0, "sampling"),
    ]


def test_what_the_job_does_is_marked_at_its_step() -> None:
    process = ProcessState(1, Track(None))
    kinds = ("checkpoint", "epoch", "evaluation", "resume", "mark", "exit")
    process.events.extend(Event(float(step), kind, ordinal=step, step=step + 1) for step, kind in enumerate(kinds))
    drawn = [("checkpoint", 1.0), ("epoch", 2.0), ("eval", 3.0), ("resume", 4.0), ("mark", 5.0)]
    assert [(marker.kind, marker.x) for marker in markers_of(process, [])] == drawn


def test_every_sign_that_is_drawn_is_explained_in_the_help() -> None:
    assert set(MEANINGS) == set(MARKERS) - {"info"}
    assert [sign for sign, _ in axis_signs(MEANINGS, True)] == [MARKERS[kind][1] for kind in MEANINGS]


async def test_help_explains_the_signs_that_are_on_the_axis_before_all_keys_and_no_others() -> None:
    async with opened(feed.training(1500, nan_from=1200)) as screen:
        await screen.shows("nonfinite-loss", "⚑", "✖")
        await screen.pilot.press("question_mark")
        await screen.shows("on the step axis", "⚑  a checkpoint was saved", "✖  something critical began")
        assert screen.text.index("a checkpoint was saved") < screen.text.index("next pane")
        assert "an evaluation" not in screen.text


def test_only_what_is_not_looked_at_in_every_step_is_said() -> None:
    assert _sampling(ProbeStatus()) == ""
    assert _sampling(ProbeStatus(layer_interval=1, timing_interval=1)) == ""
    assert _sampling(ProbeStatus(layer_interval=16, timing_interval=4)) == "layers every 16 steps, phases every 4"
    assert _sampling(ProbeStatus(layer_interval=16, tier="disarmed")) == "disarmed"
