// How a plot asks for another range: by step, or by time. The range decides, and all plots follow.

// Step n takes the room from n - 0.5 to n + 0.5.
export function stepAxis(range) {
  return {
    unit: "step",
    show: (low, high) => range.setSteps(Math.floor(low + 0.5), Math.ceil(high - 0.5)),
    reset: () => range.reset(),
  };
}

export function timeAxis(range) {
  return { unit: "time", show: (low, high) => range.setTimes(low, high), reset: () => range.reset() };
}
