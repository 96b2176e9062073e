"""What a training ought to be diagnosed as, read from the `EXPECT` of its script without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
HELPERS = ("__init__", "common", "expectation")


@dataclass(frozen=True, slots=True)
class Expectation:
    """One script. `kinds` is empty for a healthy one; any of them may come first, the first of them fits best."""

    name: str
    kinds: list[str]
    where: str = ".*"
    """Regular expression that the layer, curve or part named by the finding must match."""
    steps: tuple[int, int] | None = None
    """First and last step at which the finding may begin."""
    phase: str | None = None
    """Regular expression that must be found in its place, symptom or evidence."""
    rank: int | None = None
    look_after: float | None = None
    """Seconds after the start from which a run that hangs is looked at, before it is ended; None: it ends by itself."""
    starts: int = 1
    """How often the script is started, in one folder, as attempts of one run."""
    ranks: int = 1

    @property
    def path(self) -> Path:
        """The script."""
        return FOLDER / f"{self.name}.py"

    @property
    def healthy(self) -> bool:
        """Nothing is wrong with it."""
        return not self.kinds


def read(name: str) -> Expectation:
    """The expectation of the script `name`. Raises `ValueError` when it has none."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "EXPECT":
            fields = ast.literal_eval(node.value)
            if "steps" in fields:
                fields["steps"] = tuple(fields["steps"])
            return Expectation(name, **fields)
    raise ValueError(f"{name}: no EXPECT in it")


def every() -> list[Expectation]:
    """All scripts, faults first, by name."""
    names = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in HELPERS)
    return sorted(map(read, names), key=lambda case: case.healthy)
