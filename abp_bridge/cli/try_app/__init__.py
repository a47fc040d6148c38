"""`abp-bridge try`: an app of yours."""
