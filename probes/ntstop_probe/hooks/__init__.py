"""The training thread's half of the probe: what passes through torch becomes rows of steps and layers.

early      wait until the job has imported torch
install    arm, disarm; the only part the rest of the probe knows
patches    the table of what is changed in torch; wrappers, traceable: what stands there instead
torch_hooks     who trains, and what to do when a part of ours fails
light, steps, fetches, visits, ledger, axis     from events to steps
layers, naming, norms, clipping, captured, sample     per-layer numbers
budget, floor, interval     how often any of it is done
readback, device, readings, completion     numbers that come later from a device
facts, autocast, rates     what can be told of the training
compiler     what torch.compile is told
"""
