"""The bridge under real hosts from npm, with a scripted model (`make hosts`)."""
