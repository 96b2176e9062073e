"""The one contract between the probe and everything that reads it: records, columns and frames.

A *frame* (`frames`) carries a batch of *records* (`records`); numbers inside records travel as packed *columns*
(`columns`). The file, the socket and a pipe carry the same frames, so live, late attach and replay are one code path.
"""

from .columns import ITEM_SIZES, Column, pack, unpack
from .frames import (
    HEADER_SIZE,
    MAGIC,
    MAX_PAYLOAD,
    STREAM_CORE,
    STREAM_LAYERS,
    Frame,
    FrameReader,
    decode_frame,
    encode_frame,
    stream_prefix,
)
from .records import (
    PROTOCOL,
    Allocator,
    Compiler,
    Device,
    Event,
    Heartbeat,
    Hello,
    Host,
    Layers,
    Manifest,
    ProbeStatus,
    Record,
    ScalarBlock,
    Scalars,
    Schema,
    Stack,
    Steps,
    decode_batch,
    encode_batch,
)
from .scalars import in_blocks, rows_of

__all__ = [
    "HEADER_SIZE",
    "ITEM_SIZES",
    "MAGIC",
    "MAX_PAYLOAD",
    "PROTOCOL",
    "STREAM_CORE",
    "STREAM_LAYERS",
    "Allocator",
    "Column",
    "Compiler",
    "Device",
    "Event",
    "Frame",
    "FrameReader",
    "Heartbeat",
    "Hello",
    "Host",
    "Layers",
    "Manifest",
    "ProbeStatus",
    "Record",
    "ScalarBlock",
    "Scalars",
    "Schema",
    "Stack",
    "Steps",
    "decode_batch",
    "decode_frame",
    "encode_batch",
    "encode_frame",
    "in_blocks",
    "pack",
    "rows_of",
    "stream_prefix",
    "unpack",
]
