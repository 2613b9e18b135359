"use strict";
// Dark or light: the system's choice until the reader makes one.
const eigenview = { data: JSON.parse(document.getElementById("data").textContent), redraws: [] };
{
  const root = document.documentElement, button = document.getElementById("theme"), key = "eigenview-theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const remembered = () => { try { return localStorage.getItem(key); } catch { return null; } };
  const remember = (name) => { try { localStorage.setItem(key, name); } catch { /* a file without storage */ } };
  const refresh = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    eigenview.redraws.forEach((redraw) => redraw());
  };
  if (["dark", "light"].includes(remembered())) root.dataset.theme = remembered();
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    refresh();
  });
  system.addEventListener("change", refresh);
  button.textContent = isDark() ? "Light" : "Dark";
  eigenview.isDark = isDark;
  eigenview.colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  const links = [...document.querySelectorAll(".contents a")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) links.forEach((link) => link.classList.toggle("here", link.hash === `#${entry.target.id}`));
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("main > section").forEach((section) => seen.observe(section));
}
