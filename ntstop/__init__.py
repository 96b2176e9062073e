"""ntstop: top for a neural-network training run."""

__version__ = "0.1.0"
