#!/bin/sh
echo "bad key: $2" >&2; exit 1
