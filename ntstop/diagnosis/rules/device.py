"""What the accelerator itself says: heat, broken memory, gone."""

from __future__ import annotations

from collections import deque
from typing import Final

from ntstop_probe import wire

from ..catalogue import Area, kind
from ..context import Context
from ..finding import Claim, Evidence, Finding, Severity
from ..thresholds import threshold
from .base import Rule, rule

AREA: Final[Area] = "performance"
HOT = kind(
    "thermal-throttle",
    "device",
    AREA,
    meaning="The GPU lowers its clocks because it is too hot, or because its power supply tells it to.",
    detector="The reasons that the driver gives for low clocks, in the readings of the last ten seconds. A power cap "
    "that was set is no such reason.",
    severity="warning.",
)
ECC = kind(
    "ecc-errors",
    "device",
    AREA,
    meaning="The GPU's memory has had errors that it could not correct: numbers may be wrong.",
    detector="The driver's count of uncorrected errors.",
    severity="critical when the count rises during the run; info when it was there before.",
)
LOST = kind(
    "gpu-lost",
    "device",
    AREA,
    meaning="The driver cannot reach the GPU any more.",
    detector="The driver's answer: it has fallen off the bus, or waits for a reset.",
    severity="critical.",
)
THROTTLED = threshold(
    "thermal-throttle.readings",
    5,
    unit="of 10 readings",
    low=1,
    high=10,
    meaning="Readings with a thermal reason, of the last ten, one a second. Raised, it is told later, and short dips "
    "are not.",
    source="a fan that follows the load lets the clocks dip for a second or two",
)
READINGS: Final = 10
REASONS: Final = frozenset(
    {"hardware slowdown", "thermal slowdown (software)", "thermal slowdown (hardware)", "power brake"}
)


@rule
class DeviceRule(Rule):
    """thermal-throttle, ecc-errors and gpu-lost, for each device."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._needed = int(context.value(THROTTLED))
        self._hot: dict[int, deque[bool]] = {}
        self._errors: dict[int, int] = {}
        self._findings: dict[tuple[str, int], Finding] = {}
        self._cool: dict[int, float] = {}
        """Highest temperature before it was throttled."""

    def device(self, device: wire.Device) -> None:
        if device.lost:
            self._lost(device)
            return
        self._end("gpu-lost", device.index)
        self._heat(device)
        if device.ecc_uncorrected is not None:
            self._ecc(device, device.ecc_uncorrected)

    def _lost(self, device: wire.Device) -> None:
        if ("gpu-lost", device.index) in self._findings:
            return
        x = self.context.last_x
        claim = Claim(
            symptom=f"GPU {device.index} is lost: the driver cannot reach it",
            hypothesis="It fell off the bus (an Xid 79 in the kernel's log), overheated, or waits for a reset.",
            fix="Stop the run, drain the node, read dmesg for the Xid, and start again elsewhere from a checkpoint.",
            confidence="high: the driver says so. Only a reset of the device would change it.",
            evidence=[Evidence(f"the driver's answer for {device.name or device.uuid or 'it'}: lost", "lost", x)],
        )
        self._open("gpu-lost", device, claim, "critical", "checkpoint/recovery")

    def _heat(self, device: wire.Device) -> None:
        reasons = sorted(REASONS & set(device.throttle))
        hot = self._hot.setdefault(device.index, deque(maxlen=READINGS))
        hot.append(bool(reasons))
        known = ("thermal-throttle", device.index) in self._findings
        if not reasons and device.temperature is not None:
            self._cool[device.index] = max(self._cool.get(device.index, 0.0), device.temperature)
        if known and len(hot) == READINGS and not any(hot):
            self._end("thermal-throttle", device.index)
        elif not known and reasons and sum(hot) >= self._needed:
            self._throttled(device, reasons, sum(hot))

    def _throttled(self, device: wire.Device, reasons: list[str], count: int) -> None:
        x, index = self.context.last_x, device.index
        evidence = [
            Evidence(f"{', '.join(reasons)} in {count} of the last {READINGS} readings", "throttle", x, float(count))
        ]
        at = ""
        if device.temperature is not None:
            at = f" at {device.temperature:.0f} °C"
            before = f", at most {self._cool[index]:.0f} °C before" if index in self._cool else ""
            text = f"{device.temperature:.0f} °C now{before}"
            evidence.append(Evidence(text, "temperature", x, device.temperature, "°C"))
        if device.power is not None:
            limit = f" of {device.power_limit:.0f} W" if device.power_limit is not None else ""
            evidence.append(Evidence(f"{device.power:.0f} W{limit}", "power", x, device.power, "W"))
        power = reasons == ["power brake"]
        claim = Claim(
            symptom=f"GPU {index} is slowed down by its {'power supply' if power else 'temperature'}{at}",
            hypothesis="The supply or the rack asks it to draw less." if power else "Cooling does not keep up.",
            fix=(
                "Tell whoever runs the node; until then another node, or a lower power limit that it can hold."
                if power
                else "Look at fans and airflow (nvidia-smi -q -d PERFORMANCE,TEMPERATURE); else another node, or "
                "a power limit 10 % lower, which costs a few percent and holds."
            ),
            confidence="high: the driver gives this reason. How much slower it makes the steps is not measured here.",
            evidence=evidence,
            open_questions=["Are the other GPUs of the node as hot?"],
        )
        self._open("thermal-throttle", device, claim, "warning", AREA)

    def _ecc(self, device: wire.Device, errors: int) -> None:
        before = self._errors.get(device.index)
        self._errors[device.index] = errors
        if errors == 0 or (before is not None and errors <= before):
            return
        rose = before is not None
        x = self.context.last_x
        claim = Claim(
            symptom=(
                f"GPU {device.index}: uncorrected memory errors rose from {before} to {errors}"
                if rose
                else f"GPU {device.index} had {errors} uncorrected memory errors before this run"
            ),
            hypothesis="A cell of its memory is broken; what was in it is wrong.",
            fix=(
                "Do not trust what was computed since: go back to a checkpoint from before, on another GPU; have this "
                "one reset and tested."
                if rose
                else "Have it reset and tested (nvidia-smi -q -d ECC,ROW_REMAPPER) before the next long run."
            ),
            confidence="high: the driver's own count. Which tensor was hit is not known.",
            evidence=[Evidence(f"{errors} uncorrected errors", "ecc_uncorrected", x, float(errors))],
        )
        if rose:
            self._findings.pop(("ecc-errors", device.index), None)
        self._open("ecc-errors", device, claim, "critical" if rose else "info", "checkpoint/recovery" if rose else AREA)

    def _open(self, name: str, device: wire.Device, claim: Claim, severity: Severity, area: Area) -> None:
        self._findings[name, device.index] = self.context.open(
            name,
            claim,
            severity=severity,
            area=area,
            failure_mode="pipeline",
            where=f"GPU {device.index}",
            first_x=self.context.last_x,
        )

    def _end(self, name: str, index: int) -> None:
        finding = self._findings.pop((name, index), None)
        if finding is not None:
            finding.resolve(self.context.last_x, "info" if name == "thermal-throttle" else None)
            self.context.book.changed()
