"""Where work runs: threads around kernels, and executors of tasks (here, threads, processes, a Dask cluster) with the transport between them."""
