"""Tables of labels: how they are read, what wrong cells cost, and columns with classes of their own."""
