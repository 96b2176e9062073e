"""A small real training with the probe in it, and real faults that can be switched on. Only the child imports torch."""
