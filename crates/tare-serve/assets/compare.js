// The comparison as text for an issue. Without this script it can be selected on the page.
// @ts-check

const button = document.getElementById("copy");
const text = document.getElementById("markdown");
const copied = document.getElementById("copied");

if (button && text && copied) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent ?? "");
      copied.textContent = "Copied.";
    } catch {
      /** @type {HTMLDetailsElement} */ (text.parentElement).open = true;
      getSelection()?.selectAllChildren(text);
      copied.textContent = "Select and copy the text below.";
    }
  });
}
