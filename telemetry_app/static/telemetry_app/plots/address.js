// What of a page's look stands in its address.

export function readAddress() {
  return new URLSearchParams(location.search);
}

// Sets parameters, and takes out those without a value; the page is not loaded again.
export function writeAddress(parameters) {
  const query = readAddress();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
}

// An address of the site with parameters; those without a value are left out.
export function withQuery(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

// The page of a run or a worker: ids as the admin's addresses write them.
export function pageOf(kind, id) {
  const quoted = id.replace(/[":/_#?;@&=+$,[\]<>%\n\\]/g, (letter) => `_${letter.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);
  return `/admin/telemetry_app/${kind}/${encodeURIComponent(quoted)}/change/`;
}
