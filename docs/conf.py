"""The documentation site: ``sphinx-build -W docs docs/_build``.

Sphinx, because numpydoc docstrings, a gallery that runs and Markdown pages (MyST) meet in it without glue of our own.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec

import maxsum

logging.getLogger("maxsum").setLevel(logging.WARNING)

project, author, copyright = "maxsum", "the maxsum developers", "the maxsum developers"
release = version = maxsum.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "auto_examples/*.ipynb", "auto_examples/*.py", "auto_examples/*.zip"]
html_theme = "furo"
html_title = f"maxsum {release}"
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
autosummary_generate = True
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
suppress_warnings = ["ref.ref"]  # inherited docstrings name labels of the site of scikit-learn
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "show_memory": False,
    # Examples with networks are left out where PyTorch is not installed.
    "ignore_pattern": r"__init__\.py" if find_spec("torch") else r"__init__\.py|neural_\w+\.py",
}
