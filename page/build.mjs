// Bundles the page's script and the licences of what is in it: npm run build.
// The first line of the script says which sources it is of, so that a test can tell whether it is new.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const assets = "../wsched/explore/assets/";

const made = await build({
  entryPoints: ["src/main.tsx"],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  metafile: true,
  write: false,
});
// Inside of <script> nothing may look like the end of one, or like a comment of HTML.
const script = made.outputFiles[0].text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
writeFileSync(`${assets}page.js`, `// ${digest()}\n${script}`);
writeFileSync(`${assets}LICENSES.txt`, licences(Object.keys(made.metafile.inputs)));

/** What the script was made from, in one number: tests/explore/test_bundle.py computes it, too. */
function digest() {
  const sources = readdirSync("src").sort().map((name) => `src/${name}`);
  const hash = createHash("sha256");
  for (const path of ["build.mjs", "package.json", "package-lock.json", ...sources]) {
    hash.update(`${path}\n`).update(readFileSync(path));
  }
  return hash.digest("hex");
}

/** The licence texts of the packages whose files were bundled. */
function licences(inputs) {
  const folders = inputs.map((path) => /^node_modules\/(@[^/]+\/)?[^/]+/.exec(path)?.[0]);
  const parts = [...new Set(folders.filter(Boolean))].sort().map((folder) => {
    const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    if (!file) throw new Error(`${name} has no licence file`);
    return `${name} ${version}\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
  });
  return parts.join(`\n${"-".repeat(80)}\n\n`);
}
