// A plan file. What is read can be written again, and is then the same to the byte.
#include <cstdio>
#include <cstdlib>

#include "files/json.h"
#include "files/plan_reader.h"
#include "mutate.h"
#include "report/plan_json.h"
#include "target.h"

using namespace meshwright;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const Result<Plan> plan = host::parse_plan(input, "plan.json", fuzz::ops());
  if (!plan) {
    fuzz::expect_refusal(plan.error());
    return 0;
  }
  fuzz::exercise(plan->graph());
  const std::string written = host::write_json(host::plan_json(*plan));
  const Result<Plan> again = host::parse_plan(written, "plan.json", fuzz::ops());
  if (again && host::write_json(host::plan_json(*again)) == written) return 0;
  std::fprintf(stderr, "fuzz: a plan that was read is not read again: %s\n",
               again ? "other bytes" : again.error().message.c_str());
  std::abort();
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return fuzz::mutate_json(data, size, most, seed);
}
