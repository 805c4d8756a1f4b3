"""A process of root's opens what others may not; tests of permissions give that up, on whatever paths they run."""

from __future__ import annotations

import ctypes
import os
import struct

LINUX_CAPABILITY_VERSION_3 = 0x20080522


def give_up_capabilities() -> None:
    """capset(2) with empty sets: from here on this process may do to a file what its owner may, and no more.

    Another user would not do: the interpreter and the checkout may lie in folders that only root enters.
    """
    header = struct.pack("Ii", LINUX_CAPABILITY_VERSION_3, 0)  # 0: this process
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, bytes(24)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"capset: {os.strerror(error)}")
