"""Runs at the start of every Python under `ntstop run`: this folder is in front of PYTHONPATH.

It depends on nothing and is read by whichever Python the job has (3.8 and newer), with or without the probe. First the
`sitecustomize` that would have run without us; then the probe, if this Python has it. The job is never made to fail.
"""


def _run_the_next_sitecustomize():
    """Import the `sitecustomize` that this one hides, as if this one were not here; its errors are its own."""
    import os
    import sys
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    path = [folder for folder in sys.path if os.path.abspath(folder or os.curdir) != here]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _start_the_probe():
    import contextlib
    import os
    import sys

    if os.environ.get("NTSTOP_LAUNCHED") != "1" or os.environ.get("NTSTOP") == "0":
        return
    try:
        from ntstop_probe.launched import boot

        boot()
    except Exception as error:
        if os.environ.get("NTSTOP_MAIN"):
            return  # Said already by the process that started this one.
        os.environ["NTSTOP_MAIN"] = f"{os.getpid()}:"
        missing = (getattr(error, "name", None) or "").partition(".")[0] if isinstance(error, ImportError) else ""
        if missing == "ntstop_probe":
            why = "lacks the probe: pip install ntstop-probe"
        elif missing:
            why = f"has the probe, but lacks {missing}: pip install ntstop-probe"
        else:
            why = f"cannot run the probe ({error})"
        python = f"{sys.version_info[0]}.{sys.version_info[1]}, {sys.executable}"
        with contextlib.suppress(OSError):
            os.write(2, f"ntstop: this Python ({python}) {why}; the job runs without it\n".encode("utf-8", "replace"))


try:
    _run_the_next_sitecustomize()
finally:
    _start_the_probe()
