"""What `make packages` builds besides the product: packages, and entries for registries."""
