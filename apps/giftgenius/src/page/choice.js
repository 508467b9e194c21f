/** Choosing a file and options, and starting the job: once per press, however often it takes to get through. */
import { bytes, errorNotice, part, write } from "./element.js";
import { patiently } from "./server.js";

const EXAMPLE = "/examples/employees-2000.csv";

/**
 * Brings the form to life.
 *
 * @param onJob - Called with the id of the job that Start led to.
 */
export function wireChoice(server, onJob) {
  let file;
  /** One press of Start with what was chosen: its key stays until it has led to a job. */
  let press;
  let starting = false;

  const choose = (chosen) => {
    if (chosen === undefined || starting) return;
    file = chosen;
    press = undefined;
    write(part("file-name"), file.name);
    write(part("file-size"), `${bytes(file.size)} · choose another`);
    part("drop").dataset.filled = "";
    part("start").disabled = false;
    part("start-error").replaceChildren();
  };

  const start = async () => {
    if (starting || file === undefined) return;
    starting = true;
    part("start").disabled = true;
    part("start-error").replaceChildren();
    const options = chosenOptions();
    const chosen = JSON.stringify(options);
    if (press?.chosen !== chosen) press = { chosen, key: newKey(), uploadId: press?.uploadId };
    try {
      press.uploadId ??= await upload(server, file);
      const args = { ...options, uploadId: press.uploadId, idempotencyKey: press.key };
      const { jobId } = await patiently(() => server.call("start_bulk_gift_analysis", args));
      press = undefined;
      onJob(jobId);
    } catch (error) {
      if (error.code === "UPLOAD_NOT_FOUND") press = undefined;
      part("start-error").replaceChildren(errorNotice(error));
    }
    starting = false;
    part("start").disabled = false;
    part("upload").hidden = true;
  };

  const useExample = async () => {
    part("example").disabled = true;
    try {
      choose(await server.file(EXAMPLE));
      part("start").focus();
    } catch (error) {
      part("start-error").replaceChildren(errorNotice(error));
    }
    part("example").disabled = false;
  };

  part("file").addEventListener("change", ({ target }) => choose(target.files[0]));
  part("example").addEventListener("click", useExample);
  part("start-form").addEventListener("submit", (event) => {
    event.preventDefault();
    void start();
  });
  for (const type of ["dragover", "dragleave", "drop"]) {
    window.addEventListener(type, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      part("drop").toggleAttribute("data-over", type === "dragover");
      if (type === "drop" && !part("choose").hidden) choose(event.dataTransfer.files[0]);
    });
  }
  void server.exists(EXAMPLE).then((exists) => {
    part("example").hidden = !exists;
  });
}

async function upload(server, file) {
  part("upload").hidden = false;
  const { uploadId } = await server.upload(file, (fraction) => {
    const percent = Math.floor(fraction * 100);
    part("upload-bar").value = percent;
    write(part("upload-text"), percent < 100 ? `Uploading, ${percent}%` : "Uploaded, starting…");
  });
  return uploadId;
}

function chosenOptions() {
  const budget = part("budget").value;
  return {
    ...(budget === "" ? {} : { defaultBudget: Number(budget) }),
    currency: part("currency").value,
    giftsPerEmployee: Number(part("start-form").elements.gifts.value),
    locale: part("locale").value,
  };
}

/** Works on pages without a secure context too, where `randomUUID` is missing. */
function newKey() {
  const random = crypto.getRandomValues(new Uint8Array(18));
  return [...random].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
