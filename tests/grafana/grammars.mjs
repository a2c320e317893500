// Reads queries as JSON from stdin, [language, text] each, and writes where each stops making sense: null, or the
// offset of the first error. The grammars are those that Grafana's own editors parse with.
import { parser as logql } from "@grafana/lezer-logql";
import { parser as traceql } from "@grafana/lezer-traceql";
import { parser as promql } from "@prometheus-io/lezer-promql";
import { readFileSync } from "node:fs";

const PARSERS = { logql, promql, traceql };

/** @param {string} language @param {string} text */
function firstError(language, text) {
  let found = null;
  PARSERS[language].parse(text).iterate({
    enter(node) {
      if (node.type.isError && found === null) found = node.from;
    },
  });
  return found;
}

const queries = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(queries.map(([language, text]) => firstError(language, text))));
