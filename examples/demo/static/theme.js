// Runs before the first paint, so that a chosen theme doesn't flash the other one.
const theme = (() => {
  try {
    return localStorage.getItem("fleetglass-theme");
  } catch {
    return null; // storage refused: the system's choice holds
  }
})();
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
