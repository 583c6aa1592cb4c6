/** The version of this software, as in `package.json`, which the image does not have at the same place. */
export const VERSION = '1.2.0-dev';
