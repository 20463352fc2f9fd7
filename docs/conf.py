"""The documentation site: ``sphinx-build -W docs docs/_build``.

Sphinx, because numpydoc docstrings, a gallery that runs and Markdown pages (MyST) meet in it without glue of our own.
"""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec
from pathlib import Path

import maxsum

logging.getLogger("maxsum").setLevel(logging.WARNING)
sys.path.insert(0, str(Path(__file__).parent))  # page_tools.py

project, author, copyright = "maxsum", "the maxsum developers", "the maxsum developers"
release = version = maxsum.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "page_tools",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "auto_examples/*.ipynb", "auto_examples/*.py", "auto_examples/*.zip"]
html_theme = "furo"
html_title = f"maxsum {release}"
html_math_renderer = "mathml"
html_static_path, html_css_files = ["_static"], ["site.css"]
templates_path = ["_templates"]
myst_enable_extensions = ["deflist", "dollarmath"]
math_eqref_format = "({number})"
myst_heading_anchors = 3
autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc says what parameters are
numpydoc_show_class_members = False
LEFT_OUT = (
    ""
    if find_spec("torch")
    else "The examples with networks are left out: PyTorch is not installed (pip install torch==2.13.0)."
)
suppress_warnings = ["ref.ref"]  # inherited docstrings name labels of the site of scikit-learn
if LEFT_OUT:
    print(LEFT_OUT)
    suppress_warnings.append("ref.doc")  # pages that name those examples
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "show_memory": False,
    "within_subsection_order": "page_tools.ByTrade",
    "ignore_pattern": r"neural_\w+\.py" if LEFT_OUT else "$^",
}
