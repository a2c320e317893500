"""What breaks in dashboards, datasources, alert rules and the configurations around them, found before it is deployed.

A pure core: documents in, findings out. ``run.lint`` is its entrance, ``command`` reads files and prints.
"""
