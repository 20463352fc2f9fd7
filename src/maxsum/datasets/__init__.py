"""Data to learn from: made at random, small and at hand, published and fetched, or read from files that nobody vouches for.

=================================================== ==================================================================
`load_noisy_blocks`, `load_shapes`, `load_digits`,  small data, the same for everybody, nothing to download
`load_sudoku`
`make_noisy_blocks`                                 images of blocks under noise
`make_shapes`                                       images of coloured pieces on a carpet
`make_shape_sorter`                                 photographs of such pieces, made up; `colour_codes` codes their colours
`make_sudoku`                                       puzzles with one solution
`fetch_scene`, `fetch_yeast`                        multi-label data
`fetch_letters`, `fetch_conll2000`                  sequences
`fetch_msrc`                                        images with the class of each pixel
`fetch_webkb`, `fetch_reuters`                      web pages with links; newswire stories
`fetch_usps`                                        handwritten digits
`fetch_sudoku`                                      Norvig's puzzles
`download`, `SOURCES`                               the files of these and other datasets, checked; where they come from
`read_conll`, `conll_features`                      sentences of columns, and features of their tokens
`read_arff`                                         multi-label data of Mulan and MEKA, dense or sparse
`read_libsvm_multilabel`                            multi-label lines of LIBSVM
`read_image_folder`                                 images and masks
`read_linked_pages`                                 pages with words, classes and links
`read_sudoku`                                       puzzles and solutions
`write_shards`, `ShardedDataset`                    training sets larger than memory, as folders of files
=================================================== ==================================================================

``fetch_`` functions take what is in the folder that ``MAXSUM_DATA`` names, else what is in the cache (``MAXSUM_DATA_CACHE``, or
``~/.cache/maxsum``), and else ask the net. A broken or hostile file raises `ParseError` with the line or the file, within bounded
memory.
"""

from __future__ import annotations

from .conll import conll_features, read_conll
from .fetch import download
from .generate import make_noisy_blocks, make_shapes
from .images import LabelledImages, read_image_folder
from .multilabel import MultiLabelData, read_arff, read_libsvm_multilabel
from .published import (
    fetch_conll2000,
    fetch_letters,
    fetch_msrc,
    fetch_reuters,
    fetch_scene,
    fetch_sudoku,
    fetch_usps,
    fetch_webkb,
    fetch_yeast,
)
from .shape_sorter import colour_codes, make_shape_sorter
from .shards import ShardedDataset, write_shards
from .small import load_digits, load_noisy_blocks, load_shapes, load_sudoku
from .source import MissingDataError, cache_folder, data_folder
from .sources import SOURCES
from .sudoku import read_sudoku
from .sudoku_puzzles import make_sudoku
from .webkb import LinkedPages, read_linked_pages

__all__ = [
    "SOURCES",
    "LabelledImages",
    "LinkedPages",
    "MissingDataError",
    "MultiLabelData",
    "ShardedDataset",
    "cache_folder",
    "colour_codes",
    "conll_features",
    "data_folder",
    "download",
    "fetch_conll2000",
    "fetch_letters",
    "fetch_msrc",
    "fetch_reuters",
    "fetch_scene",
    "fetch_sudoku",
    "fetch_usps",
    "fetch_webkb",
    "fetch_yeast",
    "load_digits",
    "load_noisy_blocks",
    "load_shapes",
    "load_sudoku",
    "make_noisy_blocks",
    "make_shape_sorter",
    "make_shapes",
    "make_sudoku",
    "read_arff",
    "read_conll",
    "read_image_folder",
    "read_libsvm_multilabel",
    "read_linked_pages",
    "read_sudoku",
    "write_shards",
]
