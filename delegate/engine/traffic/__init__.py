"""Who shifts load between two versions: routers, one module each, and the shares that pods make by themselves."""
