"""The gate between plan and apply: reads the policy file, asks `model.policies`, and says what refuses, what warns, what is recorded."""
