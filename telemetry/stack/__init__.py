"""``fleetglass stack``: Grafana, Loki, Tempo, VictoriaMetrics, vmalert and Alloy on this machine.

``parts``, ``layout`` and ``composed`` decide (which programs, ports, files, commands); ``processes``, ``native`` and
``engine`` do. Without a container engine the programs on PATH are run as they are, with what is there.
"""
