"""The machine under it all, by node_exporter: for each resource its use, how much waits for it, and its errors."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.queries.selectors import MINE, NEVER, increase, rate
from telemetry.grafana.records import Query

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


def _series(name: str, expression: str, about: str, legend: str = "{{instance}}", *, zero: bool = False) -> Query:
    return Query(
        name=name,
        language="promql",
        expression=expression,
        shape="series",
        legend=legend,
        about=about,
        rests_at_zero=zero,
    )


def _now(name: str, expression: str, about: str, legend: str, *, zero: bool = False) -> Query:
    return Query(
        name=name,
        language="promql",
        expression=expression,
        shape="table",
        legend=legend,
        about=about,
        rests_at_zero=zero,
    )


HOSTS_DOWN: Final = _now(
    "hosts_down",
    f"sum(1 - up{{{MINE}}})",
    "Hosts whose exporter can't be scraped.",
    "down",
    zero=True,
)
CPU_NOW: Final = _now("cpu_now", f"max({_BUSY})", "How busy the cores of the busiest host are.", "busiest")
MEMORY_NOW: Final = _now("memory_now", f"max({_USED})", "How much memory of the fullest host is in use.", "fullest")
DISK_NOW: Final = _now("disk_now", f"max({_FULL})", "How full the fullest file system is.", "fullest")
OOM_NOW: Final = _now(
    "oom_now",
    f"sum({increase('node_vmstat_oom_kill')})",
    "Processes that the kernel killed for want of memory in the time shown.",
    "killed",
    zero=True,
)
WRONG_NOW: Final = _now(
    "wrong_now",
    f"sum({_wrong('increase')})",
    "Packets that were faulty or dropped in the time shown.",
    "packets",
    zero=True,
)
CPU_BY_MODE: Final = _series(
    "cpu_by_mode",
    f"sum by ({_HOST}, mode) ({rate('node_cpu_seconds_total', _WORKING)})"
    f" / on ({_HOST}) group_left () clamp_min({_CORES}, 1)",
    "What the cores do, as a share of all of them.",
    "{{instance}} {{mode}}",
)
LOAD_PER_CORE: Final = _series(
    "load_per_core",
    f"sum by ({_HOST}) (node_load1{{{MINE}}}) / clamp_min({_CORES}, 1)",
    "Processes that run or want to, for each core.",
)
CPU_WAITING: Final = _series(
    "cpu_waiting",
    f"sum by ({_HOST}) ({rate('node_pressure_cpu_waiting_seconds_total')})",
    "The share of time in which some process waited for a core.",
    "{{instance}} cpu",
)
MEMORY_WAITING: Final = _series(
    "memory_waiting",
    f"sum by ({_HOST}) ({rate('node_pressure_memory_waiting_seconds_total')})",
    "The share of time in which some process waited for memory.",
    "{{instance}} memory",
)
IO_WAITING: Final = _series(
    "io_waiting",
    f"sum by ({_HOST}) ({rate('node_pressure_io_waiting_seconds_total')})",
    "The share of time in which some process waited for a disk.",
    "{{instance}} disk",
)
MEMORY_USED: Final = _series(
    "memory_used", f"max by ({_HOST}) ({_USED})", "The share of memory that can't be had without swapping."
)
MEMORY_AVAILABLE: Final = _series(
    "memory_available",
    f"max by ({_HOST}) (node_memory_MemAvailable_bytes{{{MINE}}})",
    "Memory that can be had without swapping.",
)
SWAPPED: Final = _series(
    "swapped",
    f"sum by ({_HOST}) ({rate('node_vmstat_pswpin')}) + sum by ({_HOST}) ({rate('node_vmstat_pswpout')})",
    "Pages swapped in and out, a second.",
    "{{instance}} swapped",
)
MAJOR_FAULTS: Final = _series(
    "major_faults",
    f"sum by ({_HOST}) ({rate('node_vmstat_pgmajfault')})",
    "Pages that had to be read from a disk, a second.",
    "{{instance}} read back",
)
DISK_FULL: Final = _series(
    "disk_full",
    f"max by ({_HOST}, mountpoint) ({_FULL})",
    "How full a file system is.",
    "{{instance}} {{mountpoint}}",
)
INODES_USED: Final = _series(
    "inodes_used",
    f"max by ({_HOST}, mountpoint) (1 - node_filesystem_files_free{{{MINE}, {_DISK_BACKED}}}"
    f" / clamp_min(node_filesystem_files{{{MINE}, {_DISK_BACKED}}}, 1))",
    "The share of inodes that are taken.",
    "{{instance}} {{mountpoint}}",
)
DISK_BUSY: Final = _series(
    "disk_busy",
    f"sum by ({_HOST}, device) ({rate('node_disk_io_time_seconds_total')})",
    "The share of time in which a disk was at work.",
    "{{instance}} {{device}}",
)
DISK_READ: Final = _series(
    "disk_read",
    f"sum by ({_HOST}) ({rate('node_disk_read_bytes_total')})",
    "Bytes read, a second.",
    "{{instance}} read",
)
DISK_WRITTEN: Final = _series(
    "disk_written",
    f"sum by ({_HOST}) ({rate('node_disk_written_bytes_total')})",
    "Bytes written, a second.",
    "{{instance}} written",
)
NETWORK_RECEIVED: Final = _series(
    "network_received",
    f"sum by ({_HOST}) ({rate('node_network_receive_bytes_total', _DEVICE)})",
    "Bytes received, a second.",
    "{{instance}} received",
)
NETWORK_SENT: Final = _series(
    "network_sent",
    f"sum by ({_HOST}) ({rate('node_network_transmit_bytes_total', _DEVICE)})",
    "Bytes sent, a second.",
    "{{instance}} sent",
)
NETWORK_WRONG: Final = _series(
    "network_wrong", _wrong("rate"), "Packets that were faulty or dropped, a second.", zero=True
)
RETRANSMITTED: Final = _series(
    "retransmitted",
    f"sum by ({_HOST}) ({rate('node_netstat_Tcp_RetransSegs')})"
    f" / clamp_min(sum by ({_HOST}) ({rate('node_netstat_Tcp_OutSegs')}), {NEVER})",
    "The share of TCP segments that had to be sent again.",
)
DESCRIPTORS: Final = _series(
    "descriptors",
    f"max by ({_HOST}) (node_filefd_allocated{{{MINE}}} / clamp_min(node_filefd_maximum{{{MINE}}}, 1))",
    "The share of file descriptors that the kernel may hand out and has.",
)
CLOCK_OFF: Final = _series(
    "clock_off",
    f"max by ({_HOST}) (abs(node_timex_offset_seconds{{{MINE}}}))",
    "How far the clock is from what it is kept by.",
)
UPTIME: Final = _now(
    "uptime", f"max by ({_HOST}) (time() - node_boot_time_seconds{{{MINE}}})", "How long ago the host started.", ""
)
CPU_OF_HOST: Final = _now("cpu_of_host", _BUSY, "How busy the cores are.", "")
MEMORY_OF_HOST: Final = _now("memory_of_host", MEMORY_USED.expression, "How much memory is in use.", "")
DISK_OF_HOST: Final = _now("disk_of_host", f"max by ({_HOST}) ({_FULL})", "How full the fullest file system is.", "")
LOAD_OF_HOST: Final = _now("load_of_host", LOAD_PER_CORE.expression, "Processes that run or want to, by core.", "")
