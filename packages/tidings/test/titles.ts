/** The titles of tests that run, for documents that cite them. */
import ts from "typescript";

/** The titles of the tests that a file runs: none that stands in a comment, is skipped, or is still to be written. */
export function titlesOf(source: string): ReadonlySet<string> {
  const titles = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node)) {
      const name = nameOf(node.expression);
      if (/\.(skip|todo|fails)\b/.test(name)) return;
      const [title] = node.arguments;
      if (
        /^(test|it|describe)(\.each|\.for|\.concurrent|\.sequential)?$/.test(name) &&
        title &&
        ts.isStringLiteralLike(title)
      )
        titles.add(title.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile("test.ts", source, ts.ScriptTarget.Latest));
  return titles;
}

/** `test`, or `test.each` of `test.each([…])`. */
function nameOf(callee: ts.Expression): string {
  if (ts.isIdentifier(callee)) return callee.text;
  if (ts.isPropertyAccessExpression(callee)) return `${nameOf(callee.expression)}.${callee.name.text}`;
  if (ts.isCallExpression(callee)) return nameOf(callee.expression);
  return ts.isTaggedTemplateExpression(callee) ? nameOf(callee.tag) : "";
}
