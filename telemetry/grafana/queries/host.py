"""The machine under it all, by node_exporter: for each resource its use, how much waits for it, and its errors."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.queries.selectors import MINE, NEVER, increase, now, rate, series

_HOST = "job, instance"
# What no disk stands behind, and the layers of containers: full or not, nobody has to do anything.
_DISK_BACKED = 'fstype!~"tmpfs|ramfs|squashfs|iso9660|nsfs|fuse.*"'
_DEVICE = 'device!~"lo|veth.*|cali.*|cni.*|docker.*|br-.*"'
_USED = f"1 - node_memory_MemAvailable_bytes{{{MINE}}} / clamp_min(node_memory_MemTotal_bytes{{{MINE}}}, 1)"
_FULL = (
    f"1 - node_filesystem_avail_bytes{{{MINE}, {_DISK_BACKED}}}"
    f" / clamp_min(node_filesystem_size_bytes{{{MINE}, {_DISK_BACKED}}}, 1)"
)
_IDLE = 'mode="idle"'
_WORKING = 'mode!="idle"'
_BUSY = f"1 - avg by ({_HOST}) ({rate('node_cpu_seconds_total', _IDLE)})"
_CORES = f"count by ({_HOST}) (node_cpu_seconds_total{{{MINE}, {_IDLE}}})"


def _wrong(how: str) -> str:
    """Errors and drops of the network, both ways; ``how`` is rate or increase."""
    take = rate if how == "rate" else increase
    kinds = ("receive_errs", "transmit_errs", "receive_drop", "transmit_drop")
    return " + ".join(f"sum by ({_HOST}) ({take(f'node_network_{kind}_total', _DEVICE)})" for kind in kinds)


HOSTS_DOWN: Final = now(
    "hosts_down", f"sum(1 - up{{{MINE}}})", "down", "Hosts whose exporter can't be scraped.", rests_at_zero=True
)
CPU_NOW: Final = now("cpu_now", f"max({_BUSY})", "busiest", "How busy the cores of the busiest host are.")
MEMORY_NOW: Final = now("memory_now", f"max({_USED})", "fullest", "How much memory of the fullest host is in use.")
DISK_NOW: Final = now("disk_now", f"max({_FULL})", "fullest", "How full the fullest file system is.")
OOM_NOW: Final = now(
    "oom_now",
    f"sum({increase('node_vmstat_oom_kill')})",
    "killed",
    "Processes that the kernel killed for want of memory in the time shown.",
    rests_at_zero=True,
)
WRONG_NOW: Final = now(
    "wrong_now",
    f"sum({_wrong('increase')})",
    "packets",
    "Packets that were faulty or dropped in the time shown.",
    rests_at_zero=True,
)
CPU_BY_MODE: Final = series(
    "cpu_by_mode",
    f"sum by ({_HOST}, mode) ({rate('node_cpu_seconds_total', _WORKING)})"
    f" / on ({_HOST}) group_left () clamp_min({_CORES}, 1)",
    "{{instance}} {{mode}}",
    "What the cores do, as a share of all of them.",
)
LOAD_PER_CORE: Final = series(
    "load_per_core",
    f"sum by ({_HOST}) (node_load1{{{MINE}}}) / clamp_min({_CORES}, 1)",
    "{{instance}}",
    "Processes that run or want to, for each core.",
)
CPU_WAITING: Final = series(
    "cpu_waiting",
    f"sum by ({_HOST}) ({rate('node_pressure_cpu_waiting_seconds_total')})",
    "{{instance}} cpu",
    "The share of time in which some process waited for a core.",
)
MEMORY_WAITING: Final = series(
    "memory_waiting",
    f"sum by ({_HOST}) ({rate('node_pressure_memory_waiting_seconds_total')})",
    "{{instance}} memory",
    "The share of time in which some process waited for memory.",
)
IO_WAITING: Final = series(
    "io_waiting",
    f"sum by ({_HOST}) ({rate('node_pressure_io_waiting_seconds_total')})",
    "{{instance}} disk",
    "The share of time in which some process waited for a disk.",
)
MEMORY_USED: Final = series(
    "memory_used",
    f"max by ({_HOST}) ({_USED})",
    "{{instance}}",
    "The share of memory that can't be had without swapping.",
)
MEMORY_AVAILABLE: Final = series(
    "memory_available",
    f"max by ({_HOST}) (node_memory_MemAvailable_bytes{{{MINE}}})",
    "{{instance}}",
    "Memory that can be had without swapping.",
)
SWAPPED: Final = series(
    "swapped",
    f"sum by ({_HOST}) ({rate('node_vmstat_pswpin')}) + sum by ({_HOST}) ({rate('node_vmstat_pswpout')})",
    "{{instance}} swapped",
    "Pages swapped in and out, a second.",
)
MAJOR_FAULTS: Final = series(
    "major_faults",
    f"sum by ({_HOST}) ({rate('node_vmstat_pgmajfault')})",
    "{{instance}} read back",
    "Pages that had to be read from a disk, a second.",
)
DISK_FULL: Final = series(
    "disk_full", f"max by ({_HOST}, mountpoint) ({_FULL})", "{{instance}} {{mountpoint}}", "How full a file system is."
)
INODES_USED: Final = series(
    "inodes_used",
    f"max by ({_HOST}, mountpoint) (1 - node_filesystem_files_free{{{MINE}, {_DISK_BACKED}}}"
    f" / clamp_min(node_filesystem_files{{{MINE}, {_DISK_BACKED}}}, 1))",
    "{{instance}} {{mountpoint}}",
    "The share of inodes that are taken.",
)
DISK_BUSY: Final = series(
    "disk_busy",
    f"sum by ({_HOST}, device) ({rate('node_disk_io_time_seconds_total')})",
    "{{instance}} {{device}}",
    "The share of time in which a disk was at work.",
)
DISK_READ: Final = series(
    "disk_read",
    f"sum by ({_HOST}) ({rate('node_disk_read_bytes_total')})",
    "{{instance}} read",
    "Bytes read, a second.",
)
DISK_WRITTEN: Final = series(
    "disk_written",
    f"sum by ({_HOST}) ({rate('node_disk_written_bytes_total')})",
    "{{instance}} written",
    "Bytes written, a second.",
)
NETWORK_RECEIVED: Final = series(
    "network_received",
    f"sum by ({_HOST}) ({rate('node_network_receive_bytes_total', _DEVICE)})",
    "{{instance}} received",
    "Bytes received, a second.",
)
NETWORK_SENT: Final = series(
    "network_sent",
    f"sum by ({_HOST}) ({rate('node_network_transmit_bytes_total', _DEVICE)})",
    "{{instance}} sent",
    "Bytes sent, a second.",
)
NETWORK_WRONG: Final = series(
    "network_wrong",
    _wrong("rate"),
    "{{instance}}",
    "Packets that were faulty or dropped, a second.",
    rests_at_zero=True,
)
RETRANSMITTED: Final = series(
    "retransmitted",
    f"sum by ({_HOST}) ({rate('node_netstat_Tcp_RetransSegs')})"
    f" / clamp_min(sum by ({_HOST}) ({rate('node_netstat_Tcp_OutSegs')}), {NEVER})",
    "{{instance}}",
    "The share of TCP segments that had to be sent again.",
)
DESCRIPTORS: Final = series(
    "descriptors",
    f"max by ({_HOST}) (node_filefd_allocated{{{MINE}}} / clamp_min(node_filefd_maximum{{{MINE}}}, 1))",
    "{{instance}}",
    "The share of file descriptors that the kernel may hand out and has.",
)
CLOCK_OFF: Final = series(
    "clock_off",
    f"max by ({_HOST}) (abs(node_timex_offset_seconds{{{MINE}}}))",
    "{{instance}}",
    "How far the clock is from what it is kept by.",
)
UPTIME: Final = now(
    "uptime", f"max by ({_HOST}) (time() - node_boot_time_seconds{{{MINE}}})", "", "How long ago the host started."
)
CPU_OF_HOST: Final = now("cpu_of_host", _BUSY, "", "How busy the cores are.")
MEMORY_OF_HOST: Final = now("memory_of_host", MEMORY_USED.expression, "", "How much memory is in use.")
DISK_OF_HOST: Final = now("disk_of_host", f"max by ({_HOST}) ({_FULL})", "", "How full the fullest file system is.")
LOAD_OF_HOST: Final = now("load_of_host", LOAD_PER_CORE.expression, "", "Processes that run or want to, by core.")
