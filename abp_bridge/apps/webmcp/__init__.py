"""Tools that pages offer by WebMCP: `document.modelContext`, and forms with a `toolname`."""
