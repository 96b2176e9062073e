"""Logs that other tools write, read while they grow, as the records that the probe would have written.

    discover.py   what lies at a path: one log, a folder with several runs, or one line that says why it is none
    sniff.py      the reader for a file, by its first bytes, never by its name
    reader.py     what a reader is: bytes in, rows (step, time, numbers) out; it keeps what is not complete yet
    families.py   folders of TensorBoard events that are one run
    events.py, wandb.py, trainer_state.py, jsonlines.py, table.py, text.py (with progress.py)
                  one reader a file; none of them unpickles, evaluates or imports the tool that wrote the log
    roles.py      which metric is the training loss, the learning rate, the gradient norm …
    assembler.py  rows to `Steps` (what has a role; steps.py) and `Scalars` or blocks of them (all else)
    follow.py     a file that grows, shrinks or is replaced
    source.py     `LogSource`; printed.py has `TextSource`, for a pipe

TensorBoard's and wandb's files are decoded here (`protobuf.py`, `crc.py`): the maintained parsers come with the tools
themselves (tensorboard brings grpc, protobuf and a web server; wandb a Go binary), for a dozen fields of each format.
"""
