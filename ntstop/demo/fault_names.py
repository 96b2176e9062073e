"""The faults that the demo can have, by name. Apart from what makes them, so that `--help` need not import torch."""

FAULTS = {
    "nan": "a bad batch: one weight of the loss is NaN, and the optimizer spreads it",
    "slow-input": "every fetch takes a quarter of a second longer",
    "hang": "the data set blocks and never returns",
    "dead-layer": "the ReLU of one block never fires again",
    "lr": "the learning rate is 100 times what it should be",
    "frozen": "the optimizer is rebuilt over copies of the weights, so the model stands still",
    "leak": "the logits of every step are kept",
}
"""What is wrong from the step `--at` on."""
