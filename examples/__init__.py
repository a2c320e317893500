"""Programs that show the library at work; they use its public names only."""
