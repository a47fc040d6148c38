// Tools that the browser refuses, or in which it passes over what is meant.
'use strict';
const tool = (more) =>
  document.modelContext.registerTool({
    name: 'read',
    description: 'Reads',
    execute: () => 1,
    ...more,
  });
tool({ annotations: { readonlyHint: true, destructiveHint: false } });
const broken = { name: 'broken', description: 'Throws', execute: () => 1 };
const annotations = () => {
  throw new Error('Not to be looked at');
};
document.modelContext
  .registerTool(
    Object.defineProperty(broken, 'annotations', { get: annotations, enumerable: true }),
  )
  .catch(() => {});
tool({ desciption: 'Reads again' }).catch(() => {});
// More than is looked at.
const many = { description: 'One of many', execute: () => 1 };
for (let n = 0; n < 502; n++) document.modelContext.registerTool({ name: `tool${n}`, ...many });
const long = document.forms[0];
for (let n = 0; n < 500; n++)
  long.append(Object.assign(document.createElement('input'), { name: `field${n}` }));
for (let n = 0; n < 501; n++) document.body.append(document.createElement('form'));
