// Eigenvalues and vectors of small symmetric matrices, without the threads that a BLAS would start.
#pragma once

#include "arrays.hpp"

namespace maxsum {

// Replace the symmetric matrix u (n, n) by its eigenvectors, one a row, and d by the eigenvalues; e is work space.
//
// Householder reduction to a tridiagonal matrix and implicit QL iterations, as tred2 and tql2 of EISPACK, on the transposed matrix so that inner
// loops are contiguous.
void symmetric_eigen(double *u, i64 n, double *d, double *e);

} // namespace maxsum
