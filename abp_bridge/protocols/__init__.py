"""Pure codecs: what each protocol says, to and from the words of `core`."""
