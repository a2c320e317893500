"""The demo: the example platform, a shop with a page, and a receiver of what all of them tell, on loopback."""
