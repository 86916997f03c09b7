// Tensors made from nothing.
#include <cmath>

#include "infer.h"

namespace meshwright::aten {

namespace {

Result<Shapes> sized(const Call& call) {
  const Shape size = call.list("size");
  for (const std::int64_t each : size) {
    if (each < 0) return bad_input("its size " + text(size) + " is negative");
  }
  return Shapes{size};
}

Result<Shapes> arange(const Call& call) {
  const double start = call.node().number("start", 0), end = call.node().number("end", 0),
               step = call.node().number("step", 1);
  const double count = std::ceil((end - start) / step);
  if (!(count >= 0 && count < static_cast<double>(kMostElements)) || step == 0)
    return bad_input("from its start to its end there are no steps");
  return Shapes{{static_cast<std::int64_t>(count)}};
}

Result<Shapes> counted(const Call& call) {
  const std::int64_t rows = call.integer(call.op() == "aten.linspace" ? "steps" : "n", 0);
  if (rows < 0) return bad_input("its size is negative");
  if (call.op() != "aten.eye" && call.op() != "aten.eye.m") return Shapes{{rows}};
  const std::int64_t columns = call.integer("m", rows);
  if (columns < 0) return bad_input("its size is negative");
  return Shapes{{rows, columns}};
}

Result<Shapes> scalar(const Call&) { return Shapes{Shape{}}; }

}  // namespace

Table factory_table() {
  return {
      {"empty.memory_format empty_strided full new_empty new_full new_ones new_zeros ones rand randint randint.low "
       "randn zeros",
       sized},
      {"arange arange.start arange.start_step", arange},
      {"eye eye.m linspace randperm", counted},
      {"scalar_tensor", scalar},
  };
}

}  // namespace meshwright::aten
