"""The checker of one file, and files that were tampered with."""
