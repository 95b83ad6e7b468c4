// A page that could say nothing has no plots: once there is something to say again, it is loaded anew.
document.addEventListener("live:exchanged", () => document.querySelector("#run-plots, #worker-plots") && location.reload());
