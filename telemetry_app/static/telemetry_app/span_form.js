// A form that asks for a time: its fields hold UTC, and are shown and taken in the reader's own time zone.

for (const form of document.querySelectorAll("form[data-span]")) {
  const fields = [...form.querySelectorAll("input[type=datetime-local]")];
  const zone = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" }).formatToParts().find((part) => part.type === "timeZoneName");
  for (const said of form.querySelectorAll("[data-zone]")) said.textContent = `(${zone.value})`;
  for (const field of fields) if (field.value) field.value = localText(new Date(`${field.value}Z`));
  form.addEventListener("formdata", ({ formData }) => {
    for (const { name, value } of fields) {
      if (value) formData.set(name, new Date(value).toISOString());
      else formData.delete(name);
    }
  });
}

function localText(moment) {
  return new Date(moment - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
