"use strict";

// Send the request of a form on the page of the REST interface, and show the answer below it.
async function sendRequest(form) {
  const { method, path, csrf } = form.dataset;
  const query = new URLSearchParams();
  let address = path;
  for (const input of form.querySelectorAll("input[data-in]")) {
    if (input.dataset.in === "path") address = address.replace(`{${input.name}}`, encodeURIComponent(input.value));
    else if (input.value !== "") query.append(input.name, input.value);
  }
  const headers = csrf && method !== "GET" ? { "X-CSRF-Token": csrf } : {};
  const body = form.elements.body;
  if (body) headers["Content-Type"] = "application/json";
  const asked = query.size ? `${address}?${query}` : address;
  const answer = await fetch(asked, { method, headers, body: body ? body.value : undefined });
  const text = await answer.text();
  const isJson = (answer.headers.get("content-type") || "").includes("json");
  return [`${method} ${asked}: ${answer.status} ${answer.statusText}`, isJson ? JSON.stringify(JSON.parse(text), null, 2) : text];
}

document.querySelectorAll("form.try").forEach((form) => form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const output = form.querySelector("output");
  const shown = await sendRequest(form).catch((error) => ["The service did not answer", String(error)]);
  output.querySelector(".asked").textContent = shown[0];
  output.querySelector("pre").textContent = shown[1];
  output.hidden = false;
}));
