"""Other packages, where they are installed, beside ours in one run."""
