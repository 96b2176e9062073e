"""What the probe may cost, and what it leaves out when it costs more. Pure: told what was spent, asked what to do.

The *floor* is what every step pays: its boundaries, phases and loss. What the layers add beyond it gets the rest of
the budget, a quarter at the least. What does not fit is shed in the order of `Tier`, at once; it comes back one piece
at a time, after a while in which it would have fitted, and after twice that while when it had to go again.

Layers are looked at at intervals, and an interval grows as far as it is of use before anything is left out. When the
floor alone is too much (steps of a millisecond or two), details are read and phases timed in one of k steps only. The
step is still counted, and its loss looked at, until even that is out of all proportion and the hooks are taken out.
All intervals are powers of two, and step n is looked at when n is a multiple: so ranks look at the same steps.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from statistics import median

from .floor import Floor
from .interval import REMEMBERED, SampleInterval

FLOOR_SHARE = 0.75
"""Of the budget, which the floor may take: the rest is kept for the layers."""
NORM_SHARE = 0.7
"""Of what the layers get; the update ratio, which copies parameters, has the rest."""
RATIO_SHORTEST = 64
"""Steps between update ratios, at least: they change slowly."""
RATIO_EARLY = (2, 8, 32)
LAYERS_LONGEST, RATIO_LONGEST = 4_096, 16_384
"""Steps between looks, beyond which a look says little about the step where something began."""
DETAILS = 16
"""Steps from one whose details are read to the next, once they are shed."""
TIMING_LONGEST = 64
HOPELESS = 10.0
"""Times the budget: when the least that the probe can do takes more, it takes itself out. At 1 % and some 10 µs that
is a step below 100 µs, of which no publisher keeps up with every one."""
WINDOW = 32
"""Steps from one review to the next. The first window is left out: caches, allocations, lazy set-up."""
WINDOWS = 3
"""Windows whose median is the floor."""
PATIENCE = 16
"""Windows in a row in which what was shed would have fitted, before it comes back."""
MARGIN = 0.7
"""Of the limit, within which it must fit then."""
LONGEST_PATIENCE = 1 << 14
FADING = 0.99
"""What is left, after each window, of a remembered cost that sheds something: it may have been a bad moment."""


class Tier(IntEnum):
    """How much has been shed, in this order; each includes those before it where they concern the same thing."""

    FULL = 0
    NO_RATIO = 1
    NO_PARAMETERS = 2
    NO_LAYERS = 3
    NO_DETAILS = 4
    THINNED = 5
    DISARMED = 6


WORDS = ("full", "no update ratio", "no parameter norms", "no layers", "no details", "timing thinned", "disarmed")
"""Tiers as they are published."""


class _Ladder:
    """A rung that goes up at once and comes down one at a time, slowly, and slower each time that was in vain."""

    def __init__(self, top: int) -> None:
        self.rung = 0
        self.top = top
        self._fitting = 0
        self._patience = PATIENCE
        self._came_down = False

    def up(self, rung: int) -> None:
        """What is needed is `rung`, or more than the present one."""
        self.rung = min(rung, self.top)
        self._fitting = 0
        if self._came_down:
            self._patience = min(2 * self._patience, LONGEST_PATIENCE)
        self._came_down = False

    def stay(self, fits_below: bool) -> bool:
        """A window went by; `fits_below`: the rung below would have done. True: it is tried."""
        self._fitting = self._fitting + 1 if fits_below and self.rung else 0
        if self._fitting < self._patience:
            return False
        self.rung -= 1
        self._fitting = 0
        self._came_down = True
        return True


class Budget:
    """The controller of one process; on the training thread only. Seconds; `share` is of the step time.

    The hooks compare the ordinal of the open step with `next_review`, and `ordinal & timing_mask` with 0.
    """

    def __init__(self, share: float, layers: bool = True) -> None:
        self.share = share
        self.norms = SampleInterval()
        self.ratios = SampleInterval(RATIO_SHORTEST, RATIO_EARLY)
        self.next_review = 0
        self.timing_mask = 0
        """Phases are timed in steps whose ordinal has none of these bits."""
        self.details_mask = 0
        """Likewise learning rates, norms of clipping and loss scales."""
        self.disarmed = False
        self._layers = layers
        self._layer_ladder = _Ladder(Tier.NO_LAYERS)
        self._floor_ladder = _Ladder(1 + TIMING_LONGEST.bit_length() - 1)
        """Rung 1: no details; then timing one of 2, 4 … steps."""
        self._floors: deque[float] = deque(maxlen=WINDOWS)
        self._floor_at: dict[int, float] = {}
        """Seconds of the floor by rung, as it was there last."""
        self._gradients: deque[float] = deque(maxlen=REMEMBERED)
        """Seconds of the last looks, without the parameter norms; and with nothing but those."""
        self._parameters: deque[float] = deque(maxlen=REMEMBERED)
        self._faded = 1.0
        self.floor = Floor()
        """Told of every step by the hooks."""
        self._since: int | None = None
        self._floor: float | None = None

    # What may be done

    @property
    def with_parameters(self) -> bool:
        """Looks include the norms of the parameters."""
        return self._layer_ladder.rung < Tier.NO_PARAMETERS

    @property
    def with_ratio(self) -> bool:
        """Update ratios are taken."""
        return self._layer_ladder.rung < Tier.NO_RATIO

    @property
    def with_layers(self) -> bool:
        """Layers are looked at, at all."""
        return self._layers and self._layer_ladder.rung < Tier.NO_LAYERS

    @property
    def tier(self) -> Tier:
        """The most that has been shed."""
        if self.disarmed:
            return Tier.DISARMED
        rung = self._floor_ladder.rung
        floor = Tier.FULL if rung == 0 else Tier.NO_DETAILS if rung == 1 else Tier.THINNED
        return max(floor, Tier(self._layer_ladder.rung))

    @property
    def timing_interval(self) -> int:
        """Steps from one whose phases are timed to the next."""
        return self.timing_mask + 1

    @property
    def layer_interval(self) -> int | None:
        """Steps from one look at the layers to the next; None: they are not looked at."""
        return self.norms.steps if self.with_layers else None

    @property
    def ratio_interval(self) -> int | None:
        """Steps from one update ratio to the next; None: none is taken."""
        return self.ratios.steps if self.with_layers and self.with_ratio else None

    def describe(self) -> str:
        """The state in a line, for people."""
        parts = []
        if self._layers:
            layers, ratio = self.layer_interval, self.ratio_interval
            parts.append("layers are not looked at" if layers is None else f"layers are looked at {_every(layers)}")
            if layers is not None:
                parts.append("no update ratio" if ratio is None else f"update ratio {_every(ratio)}")
                parts += [] if self.with_parameters else ["no parameter norms"]
        if self.details_mask:
            parts.append(f"rates and norms {_every(self.details_mask + 1)}")
        if self.timing_mask:
            parts.append(f"phases {_every(self.timing_interval)}")
        return ", ".join(parts)

    # What was spent

    def looked(self, gradients: float, parameters: float, ordinal: int, step_time: float | None) -> bool:
        """A look at the layers, in step `ordinal`, took `gradients` seconds, and `parameters` more for their norms."""
        seconds = gradients + parameters
        if self.norms.warm:
            self._gradients.append(gradients)
            if parameters:
                self._parameters.append(parameters)
        allowance = self._allowance(step_time)
        if allowance is not None and self.with_ratio:
            allowance *= NORM_SHARE
        return self.norms.spent(seconds, allowance, ordinal)

    def compared(self, seconds: float, ordinal: int, step_time: float | None) -> bool:
        """An update ratio took `seconds`."""
        allowance = self._allowance(step_time)
        return self.ratios.spent(seconds, None if allowance is None else allowance * (1.0 - NORM_SHARE), ordinal)

    def _allowance(self, step_time: float | None) -> float | None:
        """Seconds a step for the layers; None: it is too early to tell."""
        if not step_time or step_time <= 0.0:
            return None
        limit = self.share * step_time
        return limit * (1.0 - FLOOR_SHARE) if self._floor is None else max(0.0, limit - self._floor)

    def review(self, ordinal: int, step_time: float | None) -> bool:
        """Step `ordinal` has closed; `step_time`: seconds of a step, as a rule. True: a tier changed."""
        self.next_review = ordinal + WINDOW
        since, self._since = self._since, ordinal
        if since is None or since < WINDOW or ordinal <= since or not step_time or step_time <= 0.0:
            self.floor.forget()
            return False
        self._floors.append(self.floor.per_step(ordinal - since))
        before = self.tier, self._floor_ladder.rung
        self._floor = self._floor_at[self._floor_ladder.rung] = median(self._floors)
        if len(self._floors) > 1:
            limit = self.share * step_time
            self._review_floor(self._floor, limit)
            if self._layers:
                self._review_layers(max(0.0, limit - self._floor))
        return (self.tier, self._floor_ladder.rung) != before

    def _review_floor(self, floor: float, limit: float) -> None:
        ladder, allowed = self._floor_ladder, FLOOR_SHARE * limit
        before = ladder.rung
        if floor > allowed:
            if before < ladder.top:
                ladder.up(before + 1)
            elif floor > HOPELESS * limit and len(self._floors) == WINDOWS:
                self.disarmed = True
        elif before:
            self._floor_at[before - 1] *= FADING
            ladder.stay(self._floor_at[before - 1] <= MARGIN * allowed)
        if ladder.rung != before:
            self._floors.clear()
            self.details_mask = DETAILS - 1 if ladder.rung else 0
            self.timing_mask = (1 << max(0, ladder.rung - 1)) - 1

    def _review_layers(self, allowance: float) -> None:
        ladder = self._layer_ladder
        needed = self._needed(allowance)
        if needed > ladder.rung:
            self._faded = 1.0
            ladder.up(needed)
        elif ladder.rung:
            self._faded *= FADING
            ladder.stay(self._needed(MARGIN * allowance / self._faded) < ladder.rung)

    def _needed(self, allowance: float) -> int:
        """How much of the layers must go, for looks to stay at useful intervals."""
        if not self._gradients:
            return Tier.FULL
        gradients = median(self._gradients)
        both = gradients + (median(self._parameters) if self._parameters else 0.0)
        wanted = self.norms.wanted
        shared = wanted(allowance * NORM_SHARE, both) <= LAYERS_LONGEST
        if shared and self.ratios.wanted(allowance * (1.0 - NORM_SHARE)) <= RATIO_LONGEST:
            return Tier.FULL
        if wanted(allowance, both) <= LAYERS_LONGEST:
            return Tier.NO_RATIO
        if wanted(allowance, gradients) <= LAYERS_LONGEST:
            return Tier.NO_PARAMETERS
        return Tier.NO_LAYERS


def _every(steps: int) -> str:
    return "in every step" if steps == 1 else f"every {steps} steps"
