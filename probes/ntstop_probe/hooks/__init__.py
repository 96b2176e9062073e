"""The training thread's half of the probe: what passes through torch becomes rows of steps and layers.

early      wait until the job has imported torch
install    arm, disarm; the only part the rest of the probe knows
patches    the table of what is changed in torch; wrappers, traceable: what stands there instead
torch_hooks, steps, visits, ledger     from events to steps
layers, naming, norms, interval, sample     per-layer numbers, under a budget
readback, readings, completion     numbers that come later from a device
"""
