// A page that could say nothing has no plots: once there is something to say again, it is loaded anew.
document.addEventListener("live:exchanged", () => document.getElementById("run-plots") && location.reload());
