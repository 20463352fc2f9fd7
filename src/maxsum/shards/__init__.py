"""Training sets larger than memory: folders of shards, objectives over them, and dual ascent whose workers see nothing but their shard."""
