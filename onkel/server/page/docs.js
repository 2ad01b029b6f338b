"use strict";
// The API at /docs, drawn from openapi.json.

const add = (parent, tag, text) => { const made = document.createElement(tag); made.textContent = text; parent.append(made); return made; };

function shape(schema) {
  if (!schema) return "";
  if (schema.anyOf) return [...new Set(schema.anyOf.map(shape))].join(" | ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") return `[${shape(schema.items)}, ...]`;
  if (schema.type === "object" && schema.properties) return "{ " + Object.entries(schema.properties).map(([name, part]) =>
    `${JSON.stringify(name)}${(schema.required || []).includes(name) ? "" : "?"}: ${shape(part)}`).join(", ") + " }";
  if (schema.type === "object") return `{ name: ${shape(schema.additionalProperties)}, ... }`;
  return schema.format || schema.type || "";
}

fetch("/openapi.json").then((answer) => answer.json()).then((api) => {
  const place = document.getElementById("routes");
  for (const [path, methods] of Object.entries(api.paths)) for (const [method, route] of Object.entries(methods)) {
    add(place, "h2", `${method.toUpperCase()} ${path}`);
    add(place, "p", route.summary);
    const table = place.appendChild(document.createElement("table"));
    const row = (name, text) => { const line = table.insertRow(); add(line, "th", name).scope = "row"; add(line, "td", text); };
    for (const part of route.parameters || []) row(part.name, `${part.in}, ${shape(part.schema)}${part.required ? "" : ", may be left out"}`);
    for (const [kind, body] of Object.entries((route.requestBody || {}).content || {})) row(kind, shape(body.schema));
    row("answers", Object.keys(route.responses).join(", "));
  }
});
