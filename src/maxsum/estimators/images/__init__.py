"""Calls for images beside `GridLabeler`."""
