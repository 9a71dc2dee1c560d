"""Health of Kubernetes objects: pure rules, one file per kind group, over what the cluster says of an object."""
