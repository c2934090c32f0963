"""What is learned and from what: federated data, models and local training."""
