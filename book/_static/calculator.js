// The occupancy calculator of the player that has sliders for what a block takes: model/occupancy.py again, for pages.
// Tests hold the two against each other, for every kernel of the book on every GPU.
"use strict";

// Given lists of what the controls can be set to, and the places of their values, return how many blocks of a kernel fit
// on an SM, and what each resource allows. Numbers have the names that draw/calculator.py gives them.
function calculator({gpus, threads, registers, shared, warp, drawn}, [, gpu, ...places]) {
  const up = (value, granularity) => Math.ceil(value / granularity) * granularity;
  const limits = gpus[gpu];
  const most = limits.max_shared_per_block;
  if (shared[places[2]] > most) return {"too much": 1, "most shared": most};

  const warps = Math.ceil(threads[places[0]] / warp);
  const warpRegisters = up(registers[places[1]] * warp, limits.register_granularity);
  const takes = {
    "threads": warps * warp,
    "registers": warps * warpRegisters,
    "shared memory": up(shared[places[2]] + limits.shared_reserved_per_block, limits.shared_granularity),
    "block slots": 1,
  };
  const has = {
    "threads": limits.max_threads_per_sm,
    "registers": limits.registers_per_sm,
    "shared memory": limits.shared_per_sm,
    "block slots": limits.max_blocks_per_sm,
  };
  const allowed = {};
  for (const name in takes) allowed[name] = takes[name] ? Math.floor(has[name] / takes[name]) : has["block slots"];
  // A warp's registers come from the one part of the SM that runs it.
  const part = limits.registers_per_sm / limits.warp_granularity;
  allowed["registers"] = Math.floor(Math.floor(part / warpRegisters) * limits.warp_granularity / warps);

  const blocks = Math.min(...Object.values(allowed));
  const numbers = {"blocks": blocks, "warps": blocks * warps, "block warps": warps};
  numbers["most warps"] = limits.max_threads_per_sm / warp;
  for (const name in allowed) {
    numbers[name] = allowed[name];
    numbers[`${name} drawn`] = Math.min(allowed[name], drawn);
    numbers[`${name} taken`] = takes[name];
    numbers[`${name} there`] = has[name];
    numbers[`${name} bind`] = Number(allowed[name] === blocks && takes[name] > 0);
  }
  return numbers;
}
