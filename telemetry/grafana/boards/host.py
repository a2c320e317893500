"""The *Host* dashboard: use, saturation and errors of each resource of the machines, by node_exporter."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.boards.common import ANY_IS_BAD, METRICS, SHARE_USED, instance, job
from telemetry.grafana.queries.host import (
    CLOCK_OFF,
    CPU_BY_MODE,
    CPU_NOW,
    CPU_OF_HOST,
    CPU_WAITING,
    DESCRIPTORS,
    DISK_BUSY,
    DISK_FULL,
    DISK_NOW,
    DISK_OF_HOST,
    DISK_READ,
    DISK_WRITTEN,
    HOSTS_DOWN,
    INODES_USED,
    IO_WAITING,
    LOAD_OF_HOST,
    LOAD_PER_CORE,
    MAJOR_FAULTS,
    MEMORY_AVAILABLE,
    MEMORY_NOW,
    MEMORY_OF_HOST,
    MEMORY_USED,
    MEMORY_WAITING,
    NETWORK_RECEIVED,
    NETWORK_SENT,
    NETWORK_WRONG,
    OOM_NOW,
    RETRANSMITTED,
    SWAPPED,
    UPTIME,
    WRONG_NOW,
)
from telemetry.grafana.records import Column, Dashboard, Jump, Panel, Row, Step

_METRIC = "node_uname_info"
_WAITS = (Step("green"), Step("yellow", 0.2), Step("red", 0.5))


def _alone(host: str) -> Jump:
    return Jump("This host alone", "fleetglass-host", {"metrics": "${metrics}", "instance": host})


TO_HOST: Final = _alone("${__field.labels.instance}")

DASHBOARD: Final = Dashboard(
    uid="fleetglass-host",
    title="Host",
    description="Which resource of which machine is full, is waited for, or fails?",
    tags=("fleetglass", "host"),
    variables=(METRICS, job(_METRIC), instance(_METRIC)),
    rows=(
        Row(
            title="Is it OK?",
            about="The worst of all chosen hosts: down, busy, full, killing, losing packets.",
            panels=(
                Panel(
                    id=1,
                    title="Hosts down",
                    kind="stat",
                    description="Hosts whose exporter can't be scraped. Normal: 0. More: is the host gone, or its "
                    "exporter?",
                    queries=(HOSTS_DOWN,),
                    unit="none",
                    no_value="no exporter",
                    steps=ANY_IS_BAD,
                    width=4,
                ),
                Panel(
                    id=2,
                    title="CPU, busiest host",
                    kind="stat",
                    description="How busy its cores are. Normal: below 80 %. More for long: work waits; see what "
                    "waits below.",
                    queries=(CPU_NOW,),
                    unit="percentunit",
                    decimals=0,
                    no_value="no exporter",
                    most=1,
                    steps=SHARE_USED,
                    width=4,
                ),
                Panel(
                    id=3,
                    title="Memory, fullest host",
                    kind="stat",
                    description="How much of it is in use. Normal: below 80 %. More: the kernel will swap or kill; "
                    "find the process that grows.",
                    queries=(MEMORY_NOW,),
                    unit="percentunit",
                    decimals=0,
                    no_value="no exporter",
                    most=1,
                    steps=SHARE_USED,
                    width=4,
                ),
                Panel(
                    id=4,
                    title="Fullest file system",
                    kind="stat",
                    description="Normal: below 80 %. More: databases and log stores stop at 100 %; make room before.",
                    queries=(DISK_NOW,),
                    unit="percentunit",
                    decimals=0,
                    no_value="no exporter",
                    most=1,
                    steps=SHARE_USED,
                    width=4,
                ),
                Panel(
                    id=5,
                    title="Killed for memory",
                    kind="stat",
                    description="Processes that the kernel killed in the time shown. Normal: 0. More: its log names "
                    "them; give memory, or set limits.",
                    queries=(OOM_NOW,),
                    unit="none",
                    decimals=0,
                    no_value="no exporter",
                    steps=ANY_IS_BAD,
                    width=4,
                ),
                Panel(
                    id=6,
                    title="Packets lost",
                    kind="stat",
                    description="Packets faulty or dropped in the time shown. Normal: near 0. More: a cable, a "
                    "driver, or queues too short for the load.",
                    queries=(WRONG_NOW,),
                    unit="none",
                    decimals=0,
                    no_value="no exporter",
                    steps=(Step("green"), Step("yellow", 1), Step("red", 1000)),
                    width=4,
                ),
            ),
        ),
        Row(
            title="Hosts and pressure",
            about="Each host in a table, and the share of time in which something waited for CPU, memory or disk.",
            panels=(
                Panel(
                    id=7,
                    title="Hosts",
                    kind="table",
                    description="Each host now. Normal: no red. A click on a host shows it alone.",
                    queries=(CPU_OF_HOST, LOAD_OF_HOST, MEMORY_OF_HOST, DISK_OF_HOST, UPTIME),
                    no_value="-",
                    columns=(
                        Column(
                            field="instance",
                            title="Host",
                            links=(_alone("${__data.fields.Host}"),),
                        ),
                        Column(field="cpu_of_host", title="CPU", unit="percentunit", decimals=0, steps=SHARE_USED),
                        Column(field="load_of_host", title="Load", unit="none", decimals=2),
                        Column(
                            field="memory_of_host", title="Memory", unit="percentunit", decimals=0, steps=SHARE_USED
                        ),
                        Column(field="disk_of_host", title="Disk", unit="percentunit", decimals=0, steps=SHARE_USED),
                        Column(field="uptime", title="Up for", unit="s", decimals=0),
                    ),
                    sorted_by="CPU",
                ),
                Panel(
                    id=8,
                    title="Waiting",
                    kind="timeseries",
                    description="The share of time in which some process waited (pressure stall information). "
                    "Normal: below 0.2. More: that resource is what slows you down. Empty: a kernel without it.",
                    queries=(CPU_WAITING, MEMORY_WAITING, IO_WAITING),
                    unit="percentunit",
                    no_value="not told by this kernel",
                    most=1,
                    steps=_WAITS,
                    links=(TO_HOST,),
                ),
            ),
        ),
        Row(
            title="CPU and memory",
            about="What the cores do and how long the queue for them is; memory in use, and what is moved to disk.",
            panels=(
                Panel(
                    id=9,
                    title="CPU by mode",
                    kind="timeseries",
                    description="What the cores do. Normal: mostly user. iowait: a disk; steal: the hypervisor gives "
                    "to others; system: many small calls.",
                    queries=(CPU_BY_MODE,),
                    unit="percentunit",
                    no_value="no exporter",
                    links=(TO_HOST,),
                    stacked=True,
                ),
                Panel(
                    id=10,
                    title="Load per core",
                    kind="timeseries",
                    description="Processes that run or want to, by core, over a minute. Normal: below 1. More: they "
                    "wait for cores, or for disks.",
                    queries=(LOAD_PER_CORE,),
                    unit="none",
                    decimals=2,
                    no_value="no exporter",
                    links=(TO_HOST,),
                ),
                Panel(
                    id=11,
                    title="Memory in use",
                    kind="timeseries",
                    description="The share that can't be had without swapping. Normal: flat. A ramp: a leak; it ends "
                    "with a kill.",
                    queries=(MEMORY_USED,),
                    unit="percentunit",
                    no_value="no exporter",
                    most=1,
                    steps=SHARE_USED,
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=12,
                    title="Memory available",
                    kind="timeseries",
                    description="What can be had without swapping. Normal: what your largest process needs, and more.",
                    queries=(MEMORY_AVAILABLE,),
                    unit="bytes",
                    no_value="no exporter",
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=13,
                    title="Swapped and read back",
                    kind="timeseries",
                    description="Pages a second: swapped, and read from disk on a fault. Normal: near 0 after a "
                    "start. More: memory is too small for what runs.",
                    queries=(
                        SWAPPED,
                        MAJOR_FAULTS,
                    ),
                    unit="ops",
                    no_value="no exporter",
                    links=(TO_HOST,),
                    width=8,
                ),
            ),
        ),
        Row(
            title="Disks and network",
            about="How full, how busy, how much is moved, what fails.",
            panels=(
                Panel(
                    id=14,
                    title="File systems",
                    kind="timeseries",
                    description="How full each is. Normal: below 0.8. A ramp: when does it reach 1? Make room before.",
                    queries=(DISK_FULL,),
                    unit="percentunit",
                    no_value="no exporter",
                    most=1,
                    steps=SHARE_USED,
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=15,
                    title="Disks busy",
                    kind="timeseries",
                    description="The share of time in which a disk was at work. Normal: below 0.9. At 1: what it "
                    "serves waits; an SSD may still take more.",
                    queries=(DISK_BUSY,),
                    unit="percentunit",
                    no_value="no disk",
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=16,
                    title="Read and written",
                    kind="timeseries",
                    description="Bytes a second from and to disks. Normal: the shape of the load. Reads that rise "
                    "with flat requests: caches no longer hold.",
                    queries=(DISK_READ, DISK_WRITTEN),
                    unit="Bps",
                    no_value="no disk",
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=17,
                    title="Received and sent",
                    kind="timeseries",
                    description="Bytes a second over the network. Normal: the shape of the load. Flat at the top: the "
                    "link is full.",
                    queries=(NETWORK_RECEIVED, NETWORK_SENT),
                    unit="Bps",
                    no_value="no network",
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=18,
                    title="Packets lost",
                    kind="timeseries",
                    description="Packets faulty or dropped, a second. Normal: 0. Drops under load: longer queues or "
                    "more hosts; errors: hardware.",
                    queries=(NETWORK_WRONG,),
                    unit="pps",
                    no_value="no network",
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=19,
                    title="Sent again",
                    kind="timeseries",
                    description="The share of TCP segments sent again. Normal: below 0.01. More: packets are lost on "
                    "the way, and everything waits for timeouts.",
                    queries=(RETRANSMITTED,),
                    unit="percentunit",
                    no_value="no network",
                    links=(TO_HOST,),
                    width=8,
                ),
            ),
        ),
        Row(
            title="Limits of the kernel, and the clock",
            about="What runs out more rarely, and whether time is right.",
            collapsed=True,
            panels=(
                Panel(
                    id=20,
                    title="Inodes",
                    kind="timeseries",
                    description="The share that is taken. Normal: below 0.8. At 1 no file can be made, with room "
                    "left: many small files somewhere.",
                    queries=(INODES_USED,),
                    unit="percentunit",
                    no_value="no exporter",
                    most=1,
                    steps=SHARE_USED,
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=21,
                    title="File descriptors",
                    kind="timeseries",
                    description="The share of what the kernel may hand out. Normal: below 0.8. More: a process that "
                    "closes nothing.",
                    queries=(DESCRIPTORS,),
                    unit="percentunit",
                    no_value="no exporter",
                    most=1,
                    steps=SHARE_USED,
                    links=(TO_HOST,),
                    width=8,
                ),
                Panel(
                    id=22,
                    title="Clock",
                    kind="timeseries",
                    description="How far the clock is off. Normal: a few milliseconds. More: lines and spans of "
                    "different hosts are out of order; look after its time service.",
                    queries=(CLOCK_OFF,),
                    unit="s",
                    no_value="no exporter",
                    steps=(Step("green"), Step("yellow", 0.1), Step("red", 1)),
                    links=(TO_HOST,),
                    width=8,
                ),
            ),
        ),
    ),
)
