"""The alerts, as records; rule files are made from them."""
