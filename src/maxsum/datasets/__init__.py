"""Data to learn from: made at random, or read from files that nobody vouches for.

============================== ==================================================================
`make_noisy_blocks`            images of blocks under noise
`make_shapes`                  images of coloured pieces on a carpet
`make_shape_sorter`            photographs of such pieces, made up; `colour_codes` codes their colours
`load_sudoku`                  puzzles and solutions, from the folder ``MAXSUM_DATA`` or a file
`read_conll`, `conll_features` sentences of columns, and features of their tokens
`read_arff`                    multi-label data of Mulan and MEKA, dense or sparse
`read_libsvm_multilabel`       multi-label lines of LIBSVM
`read_image_folder`            images and masks
`download`                     scene, yeast, usps, letters and conll2000 from the net, checked
============================== ==================================================================

A broken or hostile file raises `ParseError` with the line or the file, within bounded memory.
"""

from __future__ import annotations

from .conll import conll_features, read_conll
from .fetch import download
from .generate import make_noisy_blocks, make_shapes
from .images import LabelledImages, read_image_folder
from .multilabel import MultiLabelData, read_arff, read_libsvm_multilabel
from .shape_sorter import colour_codes, make_shape_sorter
from .source import MissingDataError, data_folder
from .sudoku import load_sudoku

__all__ = [
    "LabelledImages",
    "MissingDataError",
    "MultiLabelData",
    "colour_codes",
    "conll_features",
    "data_folder",
    "download",
    "load_sudoku",
    "make_noisy_blocks",
    "make_shape_sorter",
    "make_shapes",
    "read_arff",
    "read_conll",
    "read_image_folder",
    "read_libsvm_multilabel",
]
