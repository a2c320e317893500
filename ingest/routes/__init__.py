"""Routes that are small enough to be one function each."""
