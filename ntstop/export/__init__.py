"""Runs and logs as files that other programs read.

    tables.py       the four tables (steps, scalars, layers, findings), and blocks of their rows
    survey.py       the first reading: which columns there are, how far the records go, and the findings
    rows.py         the second: records to blocks, a bounded piece at a time
    place.py        a file or folder that appears whole or not at all, and never over another by accident
    csv.py, jsonl.py, parquet.py, tensorboard.py (with events.py)
                    one format a file
    target.py       `export`: all of it together

What was not measured is an empty cell in CSV, no key in JSON, a null in Parquet, and no point in TensorBoard. NaN and
Inf are values: they stand in CSV ("nan", "inf"), Parquet and TensorBoard as themselves. JSON has neither: there the
value is null, and the row's "nonfinite" says which it was, as in {"loss": null, "nonfinite": {"loss": "NaN"}}.
TensorBoard holds float32; the others hold every number as it was recorded.
"""
