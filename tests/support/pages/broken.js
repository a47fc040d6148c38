// A page whose author has forgotten a word.
window.abp = {
  initialize async () => {},
};
