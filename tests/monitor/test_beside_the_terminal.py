"""`ntstop run --watch` and `ntstop demo` in a real terminal: who ends what, and where the output goes."""

from __future__ import annotations

import sys
from pathlib import Path

from ntstop.launch import OUTPUT_FILE
from ntstop.sources import runs
from tests.helpers import wait_until
from tests.tmux import Terminal

NTSTOP = str(Path(sys.executable).parent / "ntstop")
JOB = """
import sys, time
import ntstop_probe
print("it began", flush=True)
try:
    for step in range(100_000):
        ntstop_probe.log(x=step, step=step)
        time.sleep(0.02)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(9)
"""


def test_q_leaves_the_job_running_ctrl_c_then_interrupts_it_and_its_code_comes_back(home: Path, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    output = home / "runs" / "watched" / OUTPUT_FILE
    job = [sys.executable, str(tmp_path / "job.py")]
    with Terminal([NTSTOP, "run", "--watch", "--name", "watched", "--", *job], columns=160) as terminal:
        terminal.wait_for(OUTPUT_FILE)
        wait_until(lambda: output.read_text() == "it began\n", what="the job's output")
        terminal.keys("q")
        terminal.wait_for("the job goes on")
        assert runs.resolve("watched").state == "live"
        terminal.keys("C-c")
        terminal.wait_for("left with 9")
    assert output.read_text() == "it began\ninterrupted\n"


def test_the_demo_is_drawn_live_and_ends_with_its_viewer() -> None:
    with Terminal([NTSTOP, "demo", "--steps", "5000"]) as terminal:
        terminal.wait_for("LIVE")
        wait_until(lambda: (runs.scan()[0].last_step or 0) >= 3, 60, what="some steps")
        terminal.wait_for("loss")
        terminal.keys("q")
        terminal.wait_for("the demo has ended")
        terminal.wait_for("left with 0")
        assert runs.scan()[0].state == "finished"
