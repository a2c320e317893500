"""Browser errors: report bytes + principal + clock -> one line, and the route that feeds it.

``report`` reads, ``urls`` removes what an address may hide, ``line`` writes; all three are pure. ``route`` is
the only part that knows HTTP, ``document`` describes it in OpenAPI.
"""
