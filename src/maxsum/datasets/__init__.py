"""Data to learn from: made at random, small and at hand, published and fetched, or read from files that nobody vouches for.

=================================================== ==================================================================
`load_noisy_blocks`, `load_shapes`, `load_digits`,  small data, the same for everybody, nothing to download
`load_sudoku`
`make_noisy_blocks`                                 images of blocks under noise
`make_shapes`                                       images of coloured pieces on a carpet
`make_shape_sorter`                                 photographs of such pieces, made up; `colour_codes` codes their colours
`make_snakes`                                       chains of cells on small grids; `snake_sample` makes their features
`make_sudoku`                                       puzzles with one solution
`make_citations`                                    one graph of papers with words, some of whose topics are hidden
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
`read_image_folder`, `MaskCode`                     images and masks; how masks mean labels
`read_table`, `write_table`, `Table`, `ColumnCoder` CSV and Parquet, and features of their columns
`read_graph_tables`, `read_graphml`,                graphs as tables of nodes and edges, or GraphML
`write_graphml`, `GraphTables`
`column_features`, `default_templates`,             features of tokens by templates, and of pixels
`pixel_features`
`write_arff`, `write_libsvm_multilabel`             multi-label data, written
`read_linked_pages`                                 pages with words, classes and links
`read_sudoku`                                       puzzles and solutions
`write_shards`, `ShardedDataset`                    training sets larger than memory, as folders of files
=================================================== ==================================================================

``fetch_`` functions take what is in the folder that ``MAXSUM_DATA`` names, else what is in the cache (``MAXSUM_DATA_CACHE``, or
``~/.cache/maxsum``), and else ask the net. A broken or hostile file raises `ParseError` with the line or the file, within bounded
memory.
"""

from __future__ import annotations

from ..shards.writer import ShardedDataset, write_shards
from .conll import conll_features, read_conll
from .graph_tables import read_graph_tables, read_graphml
from .images import read_image_folder
from .made.citations import make_citations
from .made.generate import make_noisy_blocks, make_shapes, make_snakes
from .made.landscape import make_landscape
from .made.shape_sorter import make_shape_sorter
from .multilabel import read_arff, read_libsvm_multilabel
from .pixels import pixel_features
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
from .small import load_digits, load_noisy_blocks, load_shapes, load_sudoku
from .sudoku_puzzles import make_sudoku
from .tables import read_table

__all__ = [
    "ShardedDataset",
    "conll_features",
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
    "make_citations",
    "make_landscape",
    "make_noisy_blocks",
    "make_shape_sorter",
    "make_shapes",
    "make_snakes",
    "make_sudoku",
    "pixel_features",
    "read_arff",
    "read_conll",
    "read_graph_tables",
    "read_graphml",
    "read_image_folder",
    "read_libsvm_multilabel",
    "read_table",
    "write_shards",
]
