// In the bundle, stands in for body-parser and multer, which Express and Nest load with their tables of character sets and media types.
// No operation reads a request body.

function unused() {
  throw new Error('The bundle has nothing to read request bodies with.');
}

export { unused as default, unused as json, unused as raw, unused as text, unused as urlencoded };
