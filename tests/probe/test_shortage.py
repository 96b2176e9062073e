"""A home that cannot be made, a full disk, no descriptors left: said once, and the job goes on."""

from __future__ import annotations

from pathlib import Path

from ntstop_probe.disk import SPARE_NAME
from ntstop_probe.wire import Heartbeat

from .jobs import run, said_steps
from .reading import events, frames_of, records, step_ordinals, the_folder


def test_a_home_that_cannot_be_made_costs_one_line(home: Path) -> None:
    home.write_text("a file")
    done = run("train(0.5)")
    assert done.returncode == 0
    assert said_steps(done.stdout)
    (line,) = done.stderr.splitlines()
    assert line.startswith("ntstop: cannot record: ")
    assert str(home) in line
    assert line.endswith("the job goes on")


def test_a_full_disk_is_said_once_and_training_goes_on(home: Path) -> None:
    """The kernel cuts every file of this process off at 3 kB, as a disk that is full does, and later no more."""
    script = """
        import resource
        from ntstop_probe import recording
        from ntstop_probe.publisher import Publisher
        recording.RETRY_SECONDS = 0.3
        said, warn = [], Publisher._warn
        def listened(self, key, text):
            said.append(text)
            warn(self, key, text)
        Publisher._warn = listened
        own = probe()
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
        train_until(lambda: any("cannot record" in text for text in said))
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        train_until(lambda: any("recording again" in text for text in said))
    """
    done = run(script)
    assert done.returncode == 0
    assert done.stderr.count("cannot record: File too large") == 1
    assert done.stderr.count("recording again") >= 1
    folder = the_folder(home)
    numbers = [frame.sequence for frame in frames_of(folder)]
    last = [record for record in records(folder) if isinstance(record, Heartbeat)][-1]
    assert last.probe.unrecorded > 0
    assert numbers[-1] - len(numbers) == last.probe.unrecorded, "what is missing is known to the frame"
    warnings = [event.text for event in events(folder) if event.kind == "warning"]
    assert any("recording again" in text for text in warnings)
    assert step_ordinals(records(folder))[-1] == said_steps(done.stdout)[-1][0]


def test_a_job_that_ends_on_a_disk_that_stays_full_has_ended_all_the_same(home: Path) -> None:
    """Nothing can be written any more as long as the file is there that holds some room for the last words."""
    script = """
        import errno
        from ntstop_probe import disk, recording
        append = recording._Segment.append
        def full(self, data):
            if (self.path.parent / disk.SPARE_NAME).exists():
                raise OSError(errno.ENOSPC, "No space left on device")
            append(self, data)
        train_until(recorded)
        recording._Segment.append = full
        train(0.6)
    """
    done = run(script)
    assert done.returncode == 0
    folder = the_folder(home)
    assert [event.data for event in events(folder) if event.kind == "exit"] == [{"code": None}]
    assert step_ordinals(records(folder))[-1] == said_steps(done.stdout)[-1][0]
    assert not (folder / SPARE_NAME).exists()


def test_a_job_with_few_file_descriptors_left_keeps_them_and_is_recorded(home: Path) -> None:
    script = """
        import resource
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, hard))
        train_until(recorded)
        train(0.5)
        def target(fd):
            try:
                return os.readlink(f"/proc/self/fd/{fd}")
            except FileNotFoundError:  # the listing's own descriptor, or a file a sampler has just closed
                return ""
        print(sum("socket" in target(fd) for fd in os.listdir("/proc/self/fd")))
    """
    done = run(script)
    assert done.returncode == 0
    assert done.stdout.endswith("\n0\n")
    assert done.stderr.count("file descriptors are left to the job") == 1, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert step_ordinals(records(the_folder(home)))
