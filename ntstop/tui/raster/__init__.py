"""Arrays to rows of character cells: pure numpy, no terminal library, so a picture can be made and tested in a REPL.

from ntstop.tui.raster.chart import plot
from ntstop.tui.raster.spec import ChartSpec, Trace
print(plot(ChartSpec(traces=(Trace(x, y, label="train"),), width=80, height=20)).text())
"""
