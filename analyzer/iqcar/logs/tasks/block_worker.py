"""Decodes the tasks of blocks in a process of its own, in memory shared with the reading process.

It is imported by nothing but that process, and must be quick to import.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys

import msgspec

from iqcar.logs.tasks.task_lines import TaskDecoder

ORDER = struct.Struct("<qq")
"""Where a block starts in the shared memory, and its length."""
ANSWER = struct.Struct("<q")
"""Length of the decoded tasks, which have replaced the block; −1 if they do not fit there. One
answer comes before the first order: it tells that the process has started."""


def main() -> None:
    """Decode blocks until standard input is closed."""
    memory = mmap.mmap(int(sys.argv[1]), 0)
    decoder, encode = TaskDecoder(), msgspec.msgpack.Encoder().encode
    os.write(1, ANSWER.pack(0))
    while len(order := os.read(0, ORDER.size)) == ORDER.size:
        start, length = ORDER.unpack(order)
        answer = encode(decoder.decode(memory[start : start + length]))
        fits = len(answer) <= length
        if fits:
            memory[start : start + len(answer)] = answer
        os.write(1, ANSWER.pack(len(answer) if fits else -1))


if __name__ == "__main__":
    main()
