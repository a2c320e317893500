"""``fleetglass probe``: one trace, one line and one metric through the configured path, and back.

What was seen is kept in frozen records (``records``); what it means is decided by pure functions over
them (``plan``, ``answers``, ``verdicts``, ``report``); ``wire``, ``send`` and ``read`` only do.
"""
