"""Small trainings, each with one real bug (or none, `healthy_*`), as plain PyTorch scripts.

    ntstop run -- python tests/faults/zero_grad_missing.py --seed 0

A script says in its docstring what is wrong, and in `EXPECT` what a diagnosis ought to say (see `expectation.py`).
"""
