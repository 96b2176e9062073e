"""A real sshd for tests: unprivileged, on loopback, with keys of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType

import pytest

from tests.helpers import wait_until

_SSHD = shutil.which("sshd") or "/usr/sbin/sshd"


def require_sshd() -> None:
    """Skip without an sshd, but not in CI, where what is skipped would go unseen."""
    if shutil.which("ssh") and shutil.which("ssh-keygen") and os.access(_SSHD, os.X_OK):
        return
    if os.environ.get("NTSTOP_CI"):
        pytest.fail("openssh-server is not installed")
    pytest.skip("needs an sshd and ssh")


class Sshd:
    """Listens on a free port of 127.0.0.1; `ssh` is the command that gets in. Use it in a `with`."""

    def __init__(self, folder: Path) -> None:
        require_sshd()
        folder.mkdir(mode=0o700)
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
        shutil.copy(folder / "user.pub", folder / "authorized_keys")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        (folder / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\n"
            f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized_keys\n"
            f"PidFile none\nUsePAM no\nPasswordAuthentication no\nStrictModes no\nPermitUserEnvironment no\n"
        )
        if os.geteuid() == 0:
            # An sshd of root wants this folder, whoever comes in.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self._log = open(folder / "log", "wb")  # noqa: SIM115 - as long as the sshd
        self._process = subprocess.Popen(
            [_SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=self._log, stdin=subprocess.DEVNULL
        )
        options = ["-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={folder}/known", "-o", "BatchMode=yes"]
        options += ["-o", "LogLevel=ERROR", "-F", "none", "-i", str(folder / "user")]
        self.ssh = ["ssh", *options, "-p", str(port), f"{getpass.getuser()}@127.0.0.1"]
        self._port = port

    def __enter__(self) -> Sshd:
        wait_until(self._answers, what="sshd")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._log.close()

    def _answers(self) -> bool:
        assert self._process.poll() is None, "sshd has ended"
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False
