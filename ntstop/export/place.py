"""Where an export goes: a file or a folder that appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


class Occupied(Exception):
    """There is something already; its text is one line that says what to do."""


def check(path: Path, *, folder: bool, force: bool) -> None:
    """Raises `Occupied` where a file or a folder of this name may not be made."""
    if path.exists() and path.is_dir() != folder:
        raise Occupied(
            f"{path} is a {'file' if folder else 'folder'}; -o names a {'folder' if folder else 'file'} here"
        )
    taken = any(path.iterdir()) if path.is_dir() else path.is_file()
    if taken and not force:
        raise Occupied(f"{path} is there already: --force replaces what an export writes there, -o PATH names another")
    if not path.absolute().parent.is_dir():
        raise Occupied(f"{path.absolute().parent} is no folder: make it, or name another place with -o PATH")


@contextlib.contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[Path]:
    """A path to write to, which becomes `path` at the end, and is gone after an error; a device is written to as it is.

    Raises `Occupied` (see `check`) and `OSError`.
    """
    check(path, folder=False, force=force)
    if path.exists() and not path.is_file():
        yield path
        return
    with _beside(path) as folder:
        yield folder / path.name
        os.replace(folder / path.name, path)


@contextlib.contextmanager
def new_folder(path: Path, *, force: bool) -> Iterator[Path]:
    """The same for a folder. With `force`, the files of an older export in it are replaced, and others are left."""
    check(path, folder=True, force=force)
    with _beside(path) as folder:
        made = folder / path.name
        made.mkdir()
        yield made
        if not path.exists():
            os.replace(made, path)
            return
        for file in sorted(made.rglob("*")):
            if file.is_file():
                target = path / file.relative_to(made)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, target)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A folder on the same disk, for what is not whole yet."""
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name[:50]}-", dir=path.absolute().parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Let an error of writing say where it was: that of a full disk does not."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno or 0, error.strerror or str(error), str(path)) from error
