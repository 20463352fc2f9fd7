"""Experiments of image segmentation."""
