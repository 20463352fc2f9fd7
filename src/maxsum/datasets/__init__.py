"""Data to learn from: made at random, or read from files that nobody vouches for.

============================== ==================================================================
`make_noisy_blocks`            images of blocks under noise
`make_shapes`                  images of coloured pieces on a carpet
`load_sudoku`                  puzzles and solutions, from the folder ``MAXSUM_DATA`` or a file
`read_conll`, `conll_features` sentences of columns, and features of their tokens
`read_arff`                    multi-label data of Mulan and MEKA, dense or sparse
`read_libsvm_multilabel`       multi-label lines of LIBSVM
`read_image_folder`            images and masks
============================== ==================================================================

A broken or hostile file raises `ParseError` with the line or the file, within bounded memory.
"""

from __future__ import annotations

from .conll import conll_features, read_conll
from .generate import make_noisy_blocks, make_shapes
from .images import LabelledImages, read_image_folder
from .multilabel import MultiLabelData, read_arff, read_libsvm_multilabel
from .source import MissingDataError, data_folder
from .sudoku import load_sudoku

__all__ = [
    "LabelledImages",
    "MissingDataError",
    "MultiLabelData",
    "conll_features",
    "data_folder",
    "load_sudoku",
    "make_noisy_blocks",
    "make_shapes",
    "read_arff",
    "read_conll",
    "read_image_folder",
    "read_libsvm_multilabel",
]
