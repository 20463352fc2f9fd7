"""Slow, independent code that the library is judged by."""
