"""Read by Python as it starts, where this folder is on its path: a wall clock that is off by CLOCK_IS_OFF_BY seconds.

Debian's faketime can't stand in for it: what Python 3.11 waits by breaks under it, by one of its settings or the other.
"""

import os
import time

_off = float(os.environ.get("CLOCK_IS_OFF_BY", "0"))
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + _off
time.time_ns = lambda: _time_ns() + int(_off * 1e9)
