"""Contract suites for parts of one's own: what every method, aggregator, selector and so on must do."""
