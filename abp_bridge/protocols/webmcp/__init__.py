"""WebMCP's words as a browser reports them: tools, the forms that some of them are, and results."""
