"""A small Flower app: softmax regression in plain numpy, on nodes of two hidden groups."""
