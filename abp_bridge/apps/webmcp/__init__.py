"""Pages that offer tools by WebMCP (`document.modelContext`, forms with a `toolname`): listed,
called, and put to the person where they wait for one.
"""
