"""One curve of any length in bounded memory, drawn at any zoom in a time that does not depend on its length."""

from __future__ import annotations

import array
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import buckets
from .axis import Axis, AxisMaker, joined
from .buckets import COUNT, LAST, NONFINITE, SEGMENT, SUM, X_HI, X_LO, Buckets
from .pyramid import BASE, CAPACITY, Pyramid, in_range
from .ring import Ring, Table
from .tally import Tally

RAW_POINTS = 4096
"""Newest points that are kept one by one."""

_X, _Y, _T, _SEGMENT = range(4)
_PENDING_POINTS = 65_536
_PENDING_CHUNKS = 64
_PENDING_SINGLE = 256
_STRAY_POINTS = 4
_HELD = _STRAY_POINTS + 1
"""Newest points that are in no bucket yet, so that stray ones among them can still be put aside."""
_LEAP_STEPS = 1000.0
_LEAP_RANGES = 10.0
"""A stray point lies further ahead than both 1,000 steps and ten times all that its segment has covered, and within
four points the steps come back: no schedule does that, a corrupted counter or a time stamp logged as a step does."""
_BREAKS_AT_ONCE = 64

_USUAL = 64
"""Newest points by which the usual distance of two is told."""
_FEW = 16
"""Up to as many points at a time are copied: an array of each would take ten times the room of its numbers."""

_axes = AxisMaker()


class Series:
    """A curve: `x` the step, `y` the value (NaN and Inf are values), `t` the writer's monotonic seconds.

    Keeps the newest 4,096 points one by one and a pyramid of buckets over all of them: at most 1.03 MB however long the
    run, more than half of it shared with the other curves on the same steps, beside up to 65,536 points that wait (as
    the arrays they came in) until somebody looks or they are that many.

    Where `x` goes backwards (a resume from a checkpoint) a new segment begins: no bucket straddles the border, except
    that where thousands of segments begin (a counter that restarts with every epoch) only the longest ways back count.
    Up to four points far ahead of everything, rising or falling, from which the steps come back, are segments of their
    own that `x_range` leaves out, so an absurd step neither hides what follows nor stretches the axis. Points without
    a finite `x` cannot be placed and are left out. Not thread-safe: even reading settles what waits.
    """

    def __init__(self, name: str = "", *, points: int = RAW_POINTS, buckets: int = CAPACITY) -> None:
        """`points` are kept one by one, and as many `buckets` a level of the pyramid: less where there are thousands
        of curves that nobody zooms into."""
        self.name = name
        self._points = points
        self._chunks: list[tuple[ArrayLike, ArrayLike, ArrayLike]] = []
        self._chunk_points = 0
        self._single = _no_points()
        """Points that came one by one, or a few at a time."""
        self._raw = Ring(4, points, (_X, _T, _SEGMENT))
        self._pyramid = Pyramid(buckets)
        self._held = 0
        self._tally = Tally()
        self._segment = 0
        self._segments = 1
        self._segment_start = math.nan
        self._segment_end = math.nan
        """The last step of the open segment that is in a bucket and not stray."""
        self._low, self._high = math.inf, -math.inf

    def append(self, x: float, y: float, t: float) -> None:
        """Add one point."""
        xs, ys, ts = self._single
        xs.append(x)
        ys.append(y)
        ts.append(t)
        if len(xs) >= _PENDING_SINGLE:
            self._settle()

    def extend(self, x: NDArray[np.generic], y: NDArray[np.generic], t: NDArray[np.generic]) -> None:
        """Add points in order. The arrays, of one length and any numeric type, are kept: do not change them after."""
        if len(x) <= _FEW:
            for column, values in zip(self._single, (x, y, t), strict=True):
                column.extend(values.tolist())
            if len(self._single[0]) >= _PENDING_SINGLE:
                self._settle()
            return
        if self._single[0]:
            self._chunk_single()
        self._chunks.append((x, y, t))
        self._chunk_points += len(x)
        if self._chunk_points >= _PENDING_POINTS or len(self._chunks) >= _PENDING_CHUNKS:
            self._settle()

    @property
    def count(self) -> int:
        """Points in all, the nonfinite ones among them."""
        self._settle()
        return self._tally.count

    def __len__(self) -> int:
        return self.count

    @property
    def nonfinite(self) -> int:
        """Points that are NaN or Inf."""
        self._settle()
        return self._tally.nonfinite

    @property
    def first_nonfinite_x(self) -> float | None:
        """Step of the first NaN or Inf; None when there is none."""
        self._settle()
        return self._tally.first_nonfinite_x

    @property
    def first_y(self) -> float | None:
        """The first value that is finite; None where none is."""
        self._settle()
        return self._tally.first_y

    @property
    def highest(self) -> tuple[float, float] | None:
        """The step that came first to the highest finite value, and that value; None where none is finite."""
        self._settle()
        return self._tally.highest

    @property
    def last_x(self) -> float | None:
        """Step of the newest point; None for an empty series."""
        return self._newest(_X)

    @property
    def last_y(self) -> float | None:
        """The newest value, NaN and Inf included; None for an empty series."""
        return self._newest(_Y)

    @property
    def last_t(self) -> float | None:
        """Monotonic seconds of the newest point; None for an empty series."""
        return self._newest(_T)

    @property
    def x_range(self) -> tuple[float, float] | None:
        """First and last step of all points but the stray ones; None for an empty series."""
        self._settle()
        if not self._tally.count:
            return None
        low, high = self._low, self._high
        held = self._raw.last(self._held)[_X]
        if len(held):
            # Absurd steps from which nothing has come back yet are left out too, once there is something to compare.
            end = self._leap(held, len(held), self._segment_start, before_first=self._segment_end)
            if end is not None and self._tally.count - len(held) + end > _STRAY_POINTS:
                held = held[:end]
        if len(held):
            low, high = min(low, float(held.min())), max(high, float(held.max()))
        return low, high

    @property
    def nbytes(self) -> int:
        """Bytes of what is settled, those that it shares with other curves among them."""
        return self._raw.nbytes + self._pyramid.nbytes

    def recent(self, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """(x, y, t) of the newest `count` points, at most those kept (4,096), oldest first; copies."""
        self._settle()
        points = self._raw.last(count)
        return points[_X].copy(), points[_Y].copy(), points[_T].copy()

    @property
    def spacing(self) -> float:
        """Usual distance of the newest points, in steps; 0 where there is one at most."""
        self._settle()
        apart = np.abs(np.diff(self._raw.last(_USUAL)[_X]))
        return float(np.sort(apart)[len(apart) // 2]) if len(apart) else 0.0

    def y_at(self, x: float) -> float | None:
        """The value at `x`, or the nearest one before it, of the latest attempt that has one; None before the first.

        Where the points are gone, the mean of the bucket around `x`.
        """
        point = self.point_at(x)
        return None if point is None else point[1]

    def point_at(self, x: float) -> tuple[float, float] | None:
        """The step that `y_at` is of, `x` itself for the mean of the bucket around it, and that value."""
        self._settle()
        if (point := self._raw.newest_at_most(_X, x)) is not None:
            return float(point[_X]), float(point[_Y])
        bucket = self._pyramid.bucket_at(x)
        return None if bucket is None else (min(float(bucket[X_HI]), x), _value(bucket, x))

    def window(self, x0: float, x1: float, width: int, *, edges: bool = False) -> Buckets:
        """The points with x0 <= x <= x1 in at most about 2 × `width` columns for every segment in view.

        Points one by one where few enough of them are in the range and still there, else the finest buckets that
        the range needs; a bucket at the border may reach over it. The columns lie on a grid that does not move with
        `x0`, so a view that follows the tail does not shimmer. With `edges`, also the next bucket on either side of
        the range within a segment, so that a line can enter and leave. Microseconds to 1 ms, whatever the length.
        """
        self._settle()
        columns = max(2, 2 * width)
        points = self._raw.all()
        block = self._pyramid.collect(x0, x1, columns, _as_buckets(points), self._tally.count - points.shape[1])
        wanted = in_range(block[X_LO], block[X_HI], x0, x1)
        if edges and block.shape[1] > 1:
            wanted |= _neighbours(block, x0, x1)
        block = block[:, wanted]
        if block.shape[1] > columns:
            block = _to_columns(block, (x1 - x0) / columns)
        return Buckets.of(block)

    def _newest(self, row: int) -> float | None:
        self._settle()
        return float(self._raw.last(1)[row, 0]) if self._tally.count else None

    def _chunk_single(self) -> None:
        xs, ys, ts = self._single
        self._chunks.append((xs, ys, ts))
        self._chunk_points += len(xs)
        self._single = _no_points()

    def _settle(self) -> None:
        """Put the points that wait into the ring and the pyramid."""
        if self._single[0]:
            self._chunk_single()
        if not self._chunks:
            return
        held = self._raw.last(self._held)
        axis = _axes.make(held[_X], held[_T], self._chunks)
        y = joined(held[_Y], [chunk[_Y] for chunk in self._chunks])
        self._chunks, self._chunk_points = [], 0
        if axis.rising:
            self._settle_rising(axis, y)
            return
        points = np.empty((4, len(y)))
        points[_X], points[_Y], points[_T] = axis.x, y, axis.t
        placed = np.isfinite(points[_X])
        if not placed.all():
            points = points[:, placed]
        self._tally.add(points[_X, self._held :], points[_Y, self._held :])
        self._raw.drop_last(self._held)
        self._split(points)
        self._raw.append(points)

    def _settle_rising(self, axis: Axis, y: NDArray[np.float64]) -> None:
        """Settle points that all belong to the segment that is open, as nearly all points do."""
        finite = bool(np.isfinite(y[: self._held]).all())
        finite &= self._tally.add(axis.x[self._held :], y[self._held :])
        if not len(y):
            return
        self._raw.drop_last(self._held)
        if math.isnan(self._segment_start):
            self._segment_start = float(axis.x[0])
        whole = max(0, len(y) - _HELD) // BASE * BASE
        if whole:
            part = slice(0, whole)
            self._pyramid.push(
                buckets.fold_rising(axis.x[part], y[part], axis.t[part], self._segment, BASE, finite=finite)
            )
            self._low = min(self._low, float(axis.x[0]))
            self._high = max(self._high, float(axis.x[whole - 1]))
            self._segment_end = float(axis.x[whole - 1])
        self._held = len(y) - whole
        newest = slice(max(0, len(y) - self._points), None)
        points = np.empty((4, len(y[newest])))
        points[_X], points[_Y], points[_T], points[_SEGMENT] = axis.x[newest], y[newest], axis.t[newest], self._segment
        self._raw.append(points)

    def _split(self, points: Table) -> None:
        """Cut `points` into runs of rising steps and bucket each; number them in their segment row."""
        x = points[_X]
        ways = x[1:] - x[:-1]
        breaks = np.flatnonzero(ways < 0) + 1
        if len(breaks) > _BREAKS_AT_ONCE:
            breaks = np.sort(breaks[np.argsort(ways[breaks - 1], kind="stable")[:_BREAKS_AT_ONCE]])
        start = 0
        for stop in breaks.tolist():
            run = x[start:stop]
            leap = self._leap(run, len(run), self._segment_start, float(x[stop]), self._segment_end)
            if leap is None:
                self._bucket(points[:, start:stop], closed=True)
                self._begin_segment()
            else:
                self._put_aside(points[:, start:stop], leap, float(x[stop]))
            start = stop
        self._bucket(points[:, start:], closed=False)

    def _leap(
        self, x: Table, stop: int, segment_start: float, back_to: float = -math.inf, before_first: float = math.nan
    ) -> int | None:
        """Index in `x` of the first of at most four points before `stop` that are far ahead of their segment.

        `before_first` is the step before `x`, NaN where the segment begins with it.
        """
        if math.isnan(segment_start) and stop:
            segment_start = float(x[0])
        for index in range(max(0, stop - _STRAY_POINTS), stop):
            before, here = float(x[index - 1]) if index else before_first, float(x[index])
            leap = here - before
            if leap > max(_LEAP_STEPS, _LEAP_RANGES * (before - segment_start)) and back_to < here - leap / 2:
                return index
        return None

    def _put_aside(self, run: Table, leap: int, back_to: float) -> None:
        """Bucket a run whose last points, from index `leap`, are stray; the steps then come back to `back_to`."""
        self._bucket(run[:, :leap], closed=True)
        segment, start, end = self._segment, self._segment_start, self._segment_end
        low, high = self._low, self._high
        self._begin_segment()
        self._bucket(run[:, leap:], closed=True)
        self._low, self._high = low, high
        if back_to >= end:
            self._segment, self._segment_start, self._segment_end = segment, start, end
        else:
            self._begin_segment()

    def _begin_segment(self) -> None:
        self._segment, self._segments = self._segments, self._segments + 1
        self._segment_start = self._segment_end = math.nan

    def _bucket(self, run: Table, *, closed: bool) -> None:
        """Put a run of one segment into the pyramid, all of it when `closed`, else all but the newest points."""
        count = run.shape[1]
        run[_SEGMENT] = self._segment
        if count and math.isnan(self._segment_start):
            self._segment_start = float(run[_X, 0])
        whole = max(0, count if closed else count - _HELD) // BASE * BASE
        if whole:
            x, y, t = run[_X, :whole], run[_Y, :whole], run[_T, :whole]
            self._pyramid.push(buckets.fold_points(x, y, t, self._segment, BASE))
        rest = run[:, whole:]
        self._held = rest.shape[1]
        if closed:
            if self._held:
                self._pyramid.push(buckets.fold_all(_as_buckets(rest)))
            self._pyramid.close_segment()
            self._held = 0
        settled = run if closed else run[:, :whole]
        if settled.shape[1]:
            self._low = min(self._low, float(settled[_X].min()))
            self._high = max(self._high, float(settled[_X].max()))
            self._segment_end = float(settled[_X, -1])


def _no_points() -> tuple[array.array[float], array.array[float], array.array[float]]:
    return array.array("d"), array.array("d"), array.array("d")


def _as_buckets(points: Table) -> Table:
    return buckets.points_to_buckets(points[_X], points[_Y], points[_T], points[_SEGMENT])


def _value(bucket: Table, x: float) -> float:
    finite = bucket[COUNT] - bucket[NONFINITE]
    if bucket[X_HI] <= x or not finite:
        return float(bucket[LAST])
    return float(bucket[SUM] / finite)


def _neighbours(block: Table, x0: float, x1: float) -> NDArray[np.bool_]:
    """The buckets next to the range within their segment, where a line crosses its borders."""
    before, after = block[X_HI] < x0, block[X_LO] > x1
    joined = block[SEGMENT, 1:] == block[SEGMENT, :-1]
    wanted = np.zeros(block.shape[1], np.bool_)
    wanted[:-1] |= before[:-1] & ~before[1:] & joined
    wanted[1:] |= after[1:] & ~after[:-1] & joined
    return wanted


def _to_columns(block: Table, step: float) -> Table:
    """Fold the neighbours of one segment whose middles share a column `step` wide."""
    column = np.floor((block[X_LO] + block[X_HI]) / (2 * step)) if step > 0 else np.zeros(block.shape[1])
    begins = (column[1:] != column[:-1]) | (block[SEGMENT, 1:] != block[SEGMENT, :-1])
    return buckets.fold_groups(block, np.concatenate(([0], np.flatnonzero(begins) + 1)))
