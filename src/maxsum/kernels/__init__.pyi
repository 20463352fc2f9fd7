# Made by tools/build/stubs.py; one stub for each source file.
from types import ModuleType

from . import assignment as assignment
from . import augmenting_dag as augmenting_dag
from . import block_ascent as block_ascent
from . import box as box
from . import chain_batch as chain_batch
from . import cholesky as cholesky
from . import cone as cone
from . import conjugate_gradients as conjugate_gradients
from . import consistency as consistency
from . import convex_bp as convex_bp
from . import counting as counting
from . import cycle_search as cycle_search
from . import cycles as cycles
from . import decomposition as decomposition
from . import definite as definite
from . import design as design
from . import distance as distance
from . import dual_bound as dual_bound
from . import eigen as eigen
from . import elimination as elimination
from . import elimination_order as elimination_order
from . import elimination_proof as elimination_proof
from . import enumeration as enumeration
from . import expansion as expansion
from . import factor_ascent as factor_ascent
from . import factor_decode as factor_decode
from . import factor_moves as factor_moves
from . import factor_passes as factor_passes
from . import factor_support as factor_support
from . import factors as factors
from . import height as height
from . import icm as icm
from . import limited_memory as limited_memory
from . import local_polytope as local_polytope
from . import local_search as local_search
from . import log_sum as log_sum
from . import matting as matting
from . import maxflow as maxflow
from . import maxflow_build as maxflow_build
from . import moments as moments
from . import multilabel as multilabel
from . import net as net
from . import penalised as penalised
from . import perceptron as perceptron
from . import persistency as persistency
from . import planes as planes
from . import qp as qp
from . import records as records
from . import region_planes as region_planes
from . import regions as regions
from . import search as search
from . import second_order as second_order
from . import simplex as simplex
from . import simplex_blocks as simplex_blocks
from . import smoothed as smoothed
from . import subgraph as subgraph
from . import subset_ascent as subset_ascent
from . import tree as tree
from . import trws as trws
from . import trws_uniform as trws_uniform
from . import vectors as vectors

variant: str
_library: ModuleType

def is_new_processor() -> bool: ...
