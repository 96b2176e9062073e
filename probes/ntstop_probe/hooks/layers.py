"""Per-layer numbers: which layers there are, at which steps they are looked at, and what is read then."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..progress import Progress
from ..rows import SchemaRow
from .budget import RATIO_EARLY, Budget
from .captured import Captured
from .device import DeviceTimer
from .facts import ModelFacts, describe_optimizer
from .ledger import NEVER
from .modes import TrainedModels
from .naming import Layer, find_model, name_layers
from .norms import UpdateProbe, norms
from .readback import Readback
from .readings import Norm, Reading
from .sample import LayerSample

MAX_FORCED = 4
"""Looks taken outside the schedule because a loss was not finite, until `FORCED_REFILL` steps went well."""
FORCED_REFILL = 64
MAX_SCANS = 4
"""Searches for the model of an optimizer, in a whole run."""

_clock = time.thread_time
"""Not the wall's: what interrupts a look is no cost of it, and would keep the next one waiting."""


@dataclass(slots=True)
class _Known:
    """What is remembered of an optimizer: nothing that keeps it alive."""

    ref: weakref.ReferenceType[Any]
    tensors: int
    indices: list[int]
    """Its layers, in the schema."""


class LayerSampler:
    """Looks at the layers in the hooks around an optimizer's step. On the training thread only."""

    def __init__(
        self,
        readback: Readback,
        put: Callable[[SchemaRow], None],
        progress: Progress,
        facts: ModelFacts,
        budget: Budget,
        enabled: bool,
        tell: Callable[[int], None],
    ) -> None:
        self._readback = readback
        self._put = put
        self._progress = progress
        self._facts = facts
        self._tell = tell
        """Told of the step after which it is looked at another interval."""
        self._enabled = enabled
        self._budget = budget
        self._timer = DeviceTimer()
        self.captured = Captured()
        """Norms that clipping has computed in the open step."""
        self._layers: list[Layer] = []
        self._schema = progress.steps - 1
        self._orphans: list[int] = []
        """Layers that no optimizer holds."""
        self._models: list[weakref.ReferenceType[Any]] = []
        self.known: dict[int, _Known] = {}
        """By id of the optimizer; an entry goes when its optimizer does."""
        self._scans = 0
        self.next_due = 0 if enabled else NEVER
        """The first step to look at: the hook compares it with the open step, and calls only then."""
        self._ratio_due = RATIO_EARLY[0]
        self.sample: LayerSample | None = None
        """What was seen in the open step."""
        self._done: set[int] = set()
        self.update: tuple[list[int], UpdateProbe] | None = None
        """An update that is being looked at: `after` has something to do."""
        self._gradients_spent = 0.0
        self._parameters_spent = 0.0
        self._ratio_spent = 0.0
        self._forced = 0
        self._last_forced = 0
        self._urgent = False
        self._with_parameters = True

    # What there is to look at

    def watch(self, model: Any | None, optimizers: tuple[Any, ...]) -> None:
        """Names come from `model`; the optimizers need not have stepped yet."""
        if model is not None and not any(ref() is model for ref in self._models):
            self._models.append(weakref.ref(model))
        for optimizer in optimizers:
            self._remember(optimizer)
        if model is not None or optimizers:
            self._rebuild()

    def meet(self, optimizer: Any) -> None:
        """An optimizer is about to step that is not known, or has other parameters than it had."""
        known = self.known.get(id(optimizer))
        if known is None:
            self._remember(optimizer)
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        models = [model for ref in self._models if (model := ref()) is not None]
        covered = {id(parameter) for model in models for parameter in model.parameters()}
        if not held <= covered and self._scans < MAX_SCANS:
            self._scans += 1
            found = find_model([parameter for group in optimizer.param_groups for parameter in group["params"]])
            if found is not None and not any(found is model for model in models):
                self._models.append(weakref.ref(found))
        self._rebuild()

    def _remember(self, optimizer: Any) -> None:
        key, known = id(optimizer), self.known
        if key not in known:
            ref = weakref.ref(optimizer, lambda _: known.pop(key, None))
            known[key] = _Known(ref, 0, [])

    def _rebuild(self) -> None:
        """A new schema, when the layers are other ones than before."""
        optimizers = [optimizer for known in self.known.values() if (optimizer := known.ref()) is not None]
        models = [model for ref in self._models if (model := ref()) is not None]
        layers = name_layers(models, optimizers)
        changed = [_identity(layer) for layer in layers] != [_identity(layer) for layer in self._layers]
        if changed:
            self._layers = layers
        index_of = {id(layer.ref()): index for index, layer in enumerate(self._layers)}
        orphans = set(range(len(self._layers)))
        for optimizer in optimizers:
            known = self.known[id(optimizer)]
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            known.tensors = len(parameters)
            known.indices = [index_of[id(parameter)] for parameter in parameters if id(parameter) in index_of]
            orphans.difference_update(known.indices)
        self._orphans = sorted(orphans)
        self._describe(optimizers)
        self._progress.modes = TrainedModels(models)
        if changed:
            self._announce()

    def _describe(self, optimizers: list[Any]) -> None:
        facts = self._facts
        names = {id(layer.ref()): layer.name for layer in self._layers}
        facts.optimizers = [describe_optimizer(optimizer, names) for optimizer in optimizers]
        facts.trainable_parameters = sum(layer.numel for layer in self._layers if not layer.frozen)
        facts.frozen_parameters = sum(layer.numel for layer in self._layers if layer.frozen)
        dtypes = {layer.dtype for layer in self._layers}
        if facts.precision is None and dtypes:
            facts.precision = ", ".join(sorted(dtypes))
            if facts.autocast:
                facts.precision += f", autocast {facts.autocast}"
        facts.version += 1

    def _announce(self) -> None:
        self._schema += 1
        self.sample = None
        self.update = None
        layers = self._layers
        self._put(
            SchemaRow(
                self._schema,
                [layer.name for layer in layers],
                [layer.numel for layer in layers],
                [layer.dtype for layer in layers],
                [layer.frozen for layer in layers],
                [layer.in_optimizer for layer in layers],
                [layer.shards for layer in layers] if any(layer.shards > 1 for layer in layers) else [],
            )
        )

    # Looking

    def switch_off(self) -> bool:
        """Look at nothing from now on; False when that was so already."""
        was_on, self._enabled = self._enabled, False
        self.next_due = NEVER
        self.sample = self.update = None
        return was_on

    def force(self, ordinal: int) -> None:
        """A loss was not finite: look at this very step, unless that was done often enough."""
        if not self._enabled:
            return
        if self._forced and ordinal - self._last_forced > FORCED_REFILL:
            self._forced = 0
        if self._forced < MAX_FORCED:
            self._forced += 1
            self._last_forced = ordinal
            self._urgent = True
            self.next_due = min(self.next_due, ordinal)

    def before(self, optimizer: Any, ordinal: int, noted: list[Norm], ratio: bool) -> None:
        """`optimizer` is about to step, or (with a closure) just has. `noted`: norms that clipping read before.

        `ratio`: `after` will be called when the step is done.
        """
        known = self.known[id(optimizer)]
        if id(optimizer) in self._done:
            return
        started = _clock()
        if self._changed(optimizer, known):
            self._rebuild()
        first = not self._done
        if first:
            # Where a loss is not finite, the weights say whether it was the step before.
            self._with_parameters = self._budget.with_parameters or self._urgent
        self._urgent = False
        self._done.add(id(optimizer))
        sample = self.sample
        if sample is None:
            sample = self.sample = LayerSample(self._schema, len(self._layers), self._budget.norms.steps)
        parameters = [self._layers[index].ref() for index in known.indices]
        self._timer.start(parameters)
        grad_scale = getattr(optimizer, "grad_scale", None)
        scale = None if grad_scale is None else self._readback.read(grad_scale)
        self._read_gradients(
            sample, parameters, known.indices, scale, _one_clipping(noted), noted[0].scale if noted else None
        )
        if first and self._orphans:
            orphans = [self._layers[index].ref() for index in self._orphans]
            self._read_gradients(sample, orphans, self._orphans, None, None, None, counted=False)
            parameters += orphans
        gradients_done = _clock()
        # What the device takes over it is known of the look before.
        self._gradients_spent += gradients_done - started + self._timer.seconds
        indices = known.indices + (self._orphans if first else [])
        if self._with_parameters:
            for positions, block in norms(parameters):
                sample.parameters.append(
                    ([indices[position] for position in positions], self._readback.read_block(block))
                )
        self._timer.stop()
        norms_done = _clock()
        self._parameters_spent += norms_done - gradients_done
        if ratio and ordinal >= self._ratio_due and self._budget.with_ratio:
            self.update = (known.indices, UpdateProbe(parameters[: len(known.indices)]))
            for positions, sizes, zeros in self.update[1].zero_gradients():
                layers = [known.indices[position] for position in positions]
                sample.zeros.append((layers, sizes, self._readback.read_block(zeros)))
            self._ratio_spent += _clock() - norms_done

    def forget(self) -> None:
        """What was seen in the open step is not what its optimizer will use."""
        self.sample = self.update = None
        self._done.clear()

    def after(self) -> None:
        """The step that `before` was told of is done."""
        if self.update is None:
            return
        started = _clock()
        (indices, probe), self.update = self.update, None
        if self.sample is not None:
            for positions, sizes, block in probe.finish():
                layers = [indices[position] for position in positions]
                self.sample.updates.append((layers, sizes, self._readback.read_block(block)))
        self._ratio_spent += _clock() - started

    def _read_gradients(
        self,
        sample: LayerSample,
        parameters: list[Any | None],
        indices: list[int],
        scale: Reading,
        clip: tuple[Reading, float] | None,
        scaled: Reading,
        counted: bool = True,
    ) -> None:
        """Norms as clipping has computed them, before it changed the gradients; those it has not, here and now."""
        gradients = [None if parameter is None else parameter.grad for parameter in parameters]
        read = self._readback.read_block
        for positions, block in self.captured.take(gradients):
            sample.add_gradients([indices[position] for position in positions], read(block), scaled, None, counted)
            for position in positions:
                gradients[position] = None
        for positions, block in norms(gradients):
            sample.add_gradients([indices[position] for position in positions], read(block), scale, clip, counted)

    def _changed(self, optimizer: Any, known: _Known) -> bool:
        if known.tensors != sum(len(group["params"]) for group in optimizer.param_groups):
            return True
        layers = self._layers
        for index in (*known.indices, *self._orphans):
            parameter = layers[index].ref()
            if parameter is None or parameter.requires_grad is layers[index].frozen:
                return True
        return False

    def charge(self, seconds: float) -> None:
        """What it took to hand on the last look: the next one answers for it."""
        self._gradients_spent += seconds

    def schedule(self, ordinal: int) -> None:
        """The budget allows more, or less, than it did: when to look after step `ordinal`."""
        budget = self._budget
        if not (self._enabled and budget.with_layers):
            self.next_due = NEVER
            return
        # An update ratio waits for a step whose norms are looked at.
        self.next_due = budget.norms.next_after(ordinal)

    def take(self, ordinal: int) -> LayerSample | None:
        """The step `ordinal` has closed: what was seen in it, and when to look next."""
        sample, self.sample = self.sample, None
        if sample is None:
            return None
        self.update = None
        self._done.clear()
        self.captured.clear()
        step_time, budget = self._progress.step_time, self._budget
        changed = False
        if self._ratio_spent:
            changed = budget.compared(self._ratio_spent, ordinal, step_time)
            self._ratio_due = budget.ratios.next_after(ordinal)
        if self._gradients_spent:
            if not budget.norms.warm:
                # The first look also pays for caches and lazy set-up.
                self._progress.setup += self._gradients_spent + self._parameters_spent
            changed |= budget.looked(self._gradients_spent, self._parameters_spent, ordinal, step_time)
        self._gradients_spent = self._parameters_spent = self._ratio_spent = 0.0
        if self._urgent:
            self.next_due = ordinal
        else:
            self.schedule(ordinal)
        if changed:
            self._tell(ordinal)
        return sample


def _identity(layer: Layer) -> tuple[str, int, bool, bool]:
    return layer.name, id(layer.ref()), layer.frozen, layer.in_optimizer


def _one_clipping(noted: list[Norm]) -> tuple[Reading, float] | None:
    """The clipping to undo; None when there was none, or several whose parts cannot be told apart."""
    if len(noted) == 1 and noted[0].limit is not None:
        return noted[0].norm, noted[0].limit
    return None
