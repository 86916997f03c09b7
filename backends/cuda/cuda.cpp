// Runs a training step on GPUs, one for each rank, all of one machine (docs/gpu.md).
#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device_rank.h"
#include "devices.h"
#include "execution.h"
#include "loaded_driver.h"
#include "loopback_driver.h"
#include "meshwright/backend.h"
#include "meshwright/plugin.h"
#include "recording_driver.h"
#include "run_ranks.h"
#include "step_builder.h"

namespace meshwright::cuda {
namespace {

constexpr meshwright_config_key_v1 kSchema[] = {
    {"driver", "text", "", "\"nvidia\"",
     "\"nvidia\": the GPUs of this machine. \"recording\", for tests: kernels run on the host, in an order that only "
     "streams and events bind, and each step is proven free of races"},
    {"loopback", "boolean", "", "false",
     "all ranks share the first GPU, and what NCCL would move between GPUs is copied on it: for a machine with fewer "
     "GPUs than the plan has ranks. What is computed is the same; the times say nothing"},
    {"seed", "integer", "", "0", "of the recording driver: of that order"},
    {"failures", "texts", "", "[]",
     "of the recording driver: each \"ENTRY:CALL:CODE\", for instance \"cudaMemcpyAsync:3:2\": which call of an entry "
     "point fails, and with which code"},
    {"omitted_wait", "integer", "", "0",
     "of the recording driver: the wait for an event that each device leaves out, counted from 1, so that the proof "
     "finds it; 0: none"},
    {"precision", "text", "", "\"plan\"",
     "\"plan\": numbers are of the types that the plan says, bfloat16 too; \"float32\": what is less than float32 is "
     "computed, kept and reduced in float32, as the backend 'reference' does it"},
    {"products", "text", "", "\"library\"",
     "\"library\": products of matrices by cuBLASLt, where it is found; \"kernels\": by this backend's own kernel"},
};

// Where most is held, and the largest of what a rank may hold then.
std::string what_is_large(const Program& program, const std::vector<Occurrence>& steps, const RankStep& step) {
  std::string said;
  const auto at = std::ranges::find(steps, static_cast<std::size_t>(step.peak_instruction), &Occurrence::instruction);
  if (at != steps.end()) said = "most is held at " + describe(program, *at) + "; ";
  ProgramValueId largest = 0;
  for (ProgramValueId id = 1; id < program.values.size(); ++id) {
    if (program.local_bytes(id) > program.local_bytes(largest)) largest = id;
  }
  return program.values.empty() ? said
                                : said + "the largest tensor is '" + program.values[largest].name + "', " +
                                      std::to_string(program.local_bytes(largest)) + " bytes";
}

// All that ranks share, for as long as there are any.
struct Session {
  explicit Session(std::unique_ptr<Driver> of) : driver(std::move(of)), devices(*driver) {}

  const std::unique_ptr<Driver> driver;
  Devices devices;
  std::vector<RankStep> steps;  // by rank
};

class Cuda final : public Backend {
 public:
  Cuda(bool records, bool loops_back, bool uses_library, bool computes_half, RecordingOptions options)
      : records_(records),
        loops_back_(loops_back),
        uses_library_(uses_library),
        computes_half_(computes_half),
        options_(std::move(options)) {}

 private:
  Result<std::unique_ptr<Executable>> do_compile(const BackendInput& input) const override {
    Result<std::unique_ptr<Driver>> driver = make_driver(input.program.mesh.devices(), input.program.training.tf32);
    if (!driver) return driver.error();
    const auto session = std::make_shared<Session>(std::move(*driver));
    if (Status status = prepare(*session, input, uses_library_); !status) return status.error();
    RunOptions options;
    options.make_rank = [session](const RankInput& rank) {
      return std::make_unique<DeviceRank>(rank, session->devices,
                                          std::move(session->steps[static_cast<std::size_t>(rank.rank)]));
    };
    return compile_ranks(input, options);
  }

  [[nodiscard]] bool do_computes_in(DType dtype) const override {
    return dtype == DType::float32 || dtype == DType::float64 || (computes_half_ && dtype == DType::bfloat16);
  }

  Result<std::unique_ptr<StagesExecutable>> do_compile_stages(const std::vector<BackendInput>&,
                                                              const GroupOrders&) const override {
    return bad_input("the backend 'cuda' runs no stages of a pipeline yet; plan with --set search.stages=1");
  }

  Result<std::unique_ptr<Driver>> make_driver(std::int64_t ranks, bool tf32) const {
    Result<std::unique_ptr<Driver>> driver = records_ ? record(loops_back_ ? 1 : ranks) : load_driver(tf32);
    return driver && loops_back_ ? make_loopback_driver(std::move(*driver), ranks) : std::move(driver);
  }

  [[nodiscard]] std::unique_ptr<Driver> record(std::int64_t devices) const {
    RecordingOptions options = options_;
    options.devices = static_cast<int>(devices);
    return make_recording_driver(options);
  }

  // All that can be found out before anything runs: devices, an op without a kernel, memory.
  static Status prepare(Session& session, const BackendInput& input, bool uses_library) {
    const std::int64_t ranks = input.program.mesh.devices();
    if (Status status = session.devices.open(ranks); !status) return status;
    const std::vector<Occurrence> steps = occurrences(input.program);
    const Arena arena = make_arena(input.program);
    ViewFinder views(input.ops);
    PlanProduct plan;
    if (uses_library) plan = [&session](const ProductShape& shape) { return plan_workspace(*session.driver, shape); };
    std::set<GroupKey> groups;
    std::vector<Block> blocks;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      if (Status status = session.devices.set(rank); !status) return status;
      // Sizes alone are wanted: an address that nothing is read from.
      Result<RankStep> step =
          StepBuilder(input, steps, arena, rank, {reinterpret_cast<std::byte*>(std::uintptr_t{1} << 32U)}, views, plan)
              .build();
      if (!step) return step.error();
      collect_groups(*step, groups);
      if (Status status = session.devices.make_memory(rank, *step, what_is_large(input.program, steps, *step)); !status)
        return status;
      blocks.push_back(step->block);
      blocks.back().base = session.devices.of(rank).memory;
    }
    if (Status status = session.devices.make_communicators(groups); !status) return status;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      if (Status status = session.devices.set(rank); !status) return status;
      Result<RankStep> step =
          StepBuilder(input, steps, arena, rank, blocks[static_cast<std::size_t>(rank)], views, plan).build();
      if (!step) return step.error();
      session.steps.push_back(std::move(*step));
    }
    return Done{};
  }

  const bool records_, loops_back_, uses_library_, computes_half_;
  const RecordingOptions options_;
};

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// "cudaMemcpyAsync:3:2"; nothing if it is none.
std::optional<RecordingOptions::Failure> failure_of(std::string_view text) {
  const std::size_t first = text.find(':'), second = text.rfind(':');
  if (first == std::string_view::npos || first == second) return std::nullopt;
  const std::optional<EntryPoint> entry = entry_point(text.substr(0, first));
  const std::optional<std::int64_t> call = number_of(text.substr(first + 1, second - first - 1)),
                                    code = number_of(text.substr(second + 1));
  if (!entry || !call || !code) return std::nullopt;
  return RecordingOptions::Failure{*entry, *call, static_cast<Code>(*code)};
}

void* create(const Config& config, Error& error) {
  const std::string& driver = config.text("driver");
  RecordingOptions options;
  options.seed = static_cast<std::uint64_t>(config.integer("seed"));
  options.omitted_wait = config.integer("omitted_wait");
  if (driver != "nvidia" && driver != "recording") {
    error = bad_input("emit.cuda.driver is \"" + driver + "\"; it is \"nvidia\" or \"recording\"");
    return nullptr;
  }
  const std::string& products = config.text("products");
  if (products != "library" && products != "kernels") {
    error = bad_input("emit.cuda.products is \"" + products + "\"; it is \"library\" or \"kernels\"");
    return nullptr;
  }
  const std::string& precision = config.text("precision");
  if (precision != "plan" && precision != "float32") {
    error = bad_input("emit.cuda.precision is \"" + precision + "\"; it is \"plan\" or \"float32\"");
    return nullptr;
  }
  for (const std::string& text : config.texts("failures")) {
    const std::optional<RecordingOptions::Failure> failure = failure_of(text);
    if (!failure) {
      error = bad_input("emit.cuda.failures has \"" + text +
                        "\"; each is ENTRY:CALL:CODE, as \"cudaMemcpyAsync:3:2\", with a name from docs/gpu.md");
      return nullptr;
    }
    options.failures.push_back(*failure);
  }
  return static_cast<Backend*>(
      new Cuda(driver == "recording", config.boolean("loopback"), products == "library", precision == "plan", options));
}

}  // namespace

MESHWRIGHT_PLUGIN("backend", "cuda", "0.1.0", "Apache-2.0", "Runs the ranks on the GPUs of this machine", nullptr,
                  kSchema, std::size(kSchema), create, destroy_plugin<Backend>)

}  // namespace meshwright::cuda
