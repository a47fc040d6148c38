"""`abp-bridge install` and `uninstall`: what is meant, shown, agreed to and written."""
