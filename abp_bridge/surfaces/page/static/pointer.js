// `released` is over when no pointer is down: what moves under one takes its click away.
let released = Promise.resolve();
window.addEventListener('pointerdown', () => {
  released = new Promise((resolve) => {
    const wait = { once: true };
    window.addEventListener('pointercancel', resolve, wait);
    window.addEventListener('pointerup', () => setTimeout(resolve), wait);
  });
});
