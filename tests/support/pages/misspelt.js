// Tools that the browser refuses, or in which it passes over what is meant.
'use strict';
const tool = (more) =>
  document.modelContext.registerTool({ name: 'read', description: 'Reads', execute: () => 1, ...more });
tool({ annotations: { readonlyHint: true, destructiveHint: false } });
tool({ desciption: 'Reads again' }).catch(() => {});
