// Tools that the browser refuses, or in which it passes over what is meant.
'use strict';
const tool = (more) =>
  document.modelContext.registerTool({ name: 'read', description: 'Reads', execute: () => 1, ...more });
tool({ annotations: { readonlyHint: true, destructiveHint: false } });
const broken = { name: 'broken', description: 'Throws', execute: () => 1 };
const annotations = () => {
  throw new Error('Not to be looked at');
};
document.modelContext
  .registerTool(Object.defineProperty(broken, 'annotations', { get: annotations, enumerable: true }))
  .catch(() => {});
tool({ desciption: 'Reads again' }).catch(() => {});
