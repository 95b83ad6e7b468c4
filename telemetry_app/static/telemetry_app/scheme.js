// An open page follows the system from light to dark and back, as long as nobody chose one by hand: the theme looks only
// when it loads. A classic script, as the theme wants its own.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", ({ matches }) => {
  const chosen = localStorage.getItem("_x_adminTheme") ?? '"auto"'; // as Alpine keeps it
  if (chosen === '"auto"') document.documentElement.classList.toggle("dark", matches);
});
