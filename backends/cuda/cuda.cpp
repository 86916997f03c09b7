// Runs a training step on GPUs, one for each rank: all of one machine by one process, or each by a process of its own,
// on one machine or several, which a launcher started (docs/gpu.md).
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiled_chains.h"
#include "device_rank.h"
#include "execution.h"
#include "launched.h"
#include "listing.h"
#include "loaded_driver.h"
#include "loopback_driver.h"
#include "meshwright/backend.h"
#include "meshwright/log.h"
#include "meshwright/plugin.h"
#include "process_ranks.h"
#include "recording_driver.h"
#include "run_ranks.h"
#include "session.h"
#include "step_builder.h"
#include "tcp_world.h"

namespace meshwright::cuda {
namespace {

constexpr std::int64_t kMostArrival = 24 * 3600, kMostHang = 7 * 24 * 3600;

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
     "point fails, and with which code, or \"hang\" for one that never returns"},
    {"omitted_wait", "integer", "", "0",
     "of the recording driver: the wait for an event that each device leaves out, counted from 1, so that the proof "
     "finds it; 0: none"},
    {"called", "text", "", "\"\"",
     "a file that gets the names of the entry points that were called without an error, when the run has ended "
     "(docs/gpu.md has a table of them); \"\": none"},
    {"listing", "text", "", "\"\"",
     "a file that gets what the first rank of this process asks of its device in a step, a line for each launch, "
     "product or collective, with the bytes that it reads and writes; \"\": none"},
    {"launcher", "text", "", "\"environment\"",
     "\"environment\": where torchrun, mpirun or srun started this process, it runs one rank, as the environment says; "
     "\"none\": this process runs all ranks"},
    {"arrival_seconds", "integer", "", "120", "in which all processes of a run have to come to rank 0's"},
    {"hang_seconds", "integer", "", "600",
     "a step, the making of a communicator, or a copy from a GPU that takes longer ends the run with an error that "
     "says where each rank is; 0: none does"},
    {"precision", "text", "", "\"plan\"",
     "\"plan\": numbers are of the types that the plan says, bfloat16 too; \"float32\": what is less than float32 is "
     "computed, kept and reduced in float32, as the backend 'reference' does it"},
    {"products", "text", "", "\"library\"",
     "\"library\": products of matrices by cuBLASLt, convolutions and attention by cuDNN, where they are found; "
     "\"kernels\": by this backend's own kernels"},
    {"chains", "text", "", "\"compiled\"",
     "\"compiled\": functions of elements that follow each other are compiled as one before the first step, by NVRTC "
     "where it is found; \"general\": by one kernel for all of them"},
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

struct Options {
  bool records = false, loops_back = false, uses_library = true, computes_half = true, compiles_chains = true;
  std::string called, listing;  // files
  RecordingOptions recording;
  std::optional<Launched> launched;  // where a launcher started this process
  std::chrono::seconds arrival{120}, hang{600};
};

// That a launcher lets this process see: then it is the first one, whatever the local rank.
bool sees_one_device() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && *visible != '\0' && std::strchr(visible, ',') == nullptr;
}

[[noreturn]] void end_process(const Error& error) {
  log(LogLevel::error, "cuda", error.message);
  std::fflush(stderr);
  std::_Exit(static_cast<int>(error.code));
}

class Cuda final : public Backend {
 public:
  explicit Cuda(Options options) : options_(std::move(options)) {}

 private:
  Result<std::unique_ptr<Executable>> do_compile(const BackendInput& input) const override {
    std::vector<std::size_t> places(occurrences(input.program).size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    const Result<MakeRank> make_rank = prepare({{&input}, {0}, {std::move(places)}});
    if (!make_rank) return make_rank.error();
    if (TcpWorld* world = find_world()) return compile_on(make_gpu_runtime(*world, *make_rank), input);
    RunOptions options;
    options.make_rank = *make_rank;
    return compile_ranks(input, options);
  }

  Result<std::unique_ptr<StagesExecutable>> do_compile_stages(const std::vector<BackendInput>& stages,
                                                              const GroupOrders& orders) const override {
    JointPrograms all;
    std::vector<Program> programs;
    for (const BackendInput& stage : stages) {
      all.inputs.push_back(&stage);
      programs.push_back(stage.program);
    }
    Result<JointOrder> order = joint_order(programs, orders);
    if (!order) return order.error();
    all.order = std::move(*order);
    all.group_of = groups_of_stages(orders, stages.size()).value();
    all.peaks = peaks_of_groups(programs, all.order, all.group_of);
    const Result<MakeRank> make_rank = prepare(all);
    if (!make_rank) return make_rank.error();
    if (TcpWorld* world = find_world()) return compile_on(make_gpu_runtime(*world, *make_rank), stages, orders);
    RunOptions options;
    options.make_rank = *make_rank;
    return compile_stage_ranks(stages, orders, options);
  }

  [[nodiscard]] bool do_computes_in(DType dtype) const override {
    return dtype == DType::float32 || dtype == DType::float64 || (options_.computes_half && dtype == DType::bfloat16);
  }

  [[nodiscard]] Processes do_processes() const override {
    const TcpWorld* world = find_world();
    return world != nullptr ? Processes{world->rank(), world->size()} : Processes{};
  }

  // The first process says what all were given alike. What fails is said by each, since nobody may read the first
  // one's.
  Status do_agree(const Status& mine) const override {
    TcpWorld* world = find_world();
    if (world == nullptr) return mine;
    const Status all = world->agree(mine);
    if (!all && world->rank() != 0 && all.error().code != ErrorCode::bad_input)
      log(LogLevel::error, "cuda", all.error().message);
    return all;
  }

  // Null: this process is alone. The first call waits for all others; where that fails it ends this process.
  TcpWorld* find_world() const {
    std::call_once(joined_, [this] {
      if (!options_.launched) return;
      Result<std::unique_ptr<TcpWorld>> world = TcpWorld::join(*options_.launched, {options_.arrival, "cuda"});
      if (world) {
        world_ = std::move(*world);
        return;
      }
      end_process(world.error());
    });
    return world_.get();
  }

  Result<std::unique_ptr<Driver>> make_driver(std::int64_t ranks, bool tf32) const {
    Result<std::unique_ptr<Driver>> driver =
        options_.records ? record(options_.loops_back ? 1 : ranks) : load_driver(tf32);
    return driver && options_.loops_back ? make_loopback_driver(std::move(*driver), ranks) : std::move(driver);
  }

  [[nodiscard]] std::unique_ptr<Driver> record(std::int64_t devices) const {
    RecordingOptions options = options_.recording;
    options.devices = static_cast<int>(devices);
    options.mail = world_.get();
    return make_recording_driver(options);
  }

  // All that can be found out before anything runs: devices, an op without a kernel, memory. What this gives makes the
  // ranks that are here.
  Result<MakeRank> prepare(const JointPrograms& stages) const {
    TcpWorld* world = find_world();
    Result<std::shared_ptr<Session>> session = world != nullptr ? prepare_one(*world, stages) : prepare_all(stages);
    if (!session) return session.error();
    return MakeRank([session = *session, programs = stages.programs()](const RankInput& rank) {
      const auto stage = static_cast<std::size_t>(std::ranges::find(programs, &rank.input.program) - programs.begin());
      const std::size_t here = session->place_of(session->links.seat(stage, rank.rank));
      return std::make_unique<DeviceRank>(rank, session->devices, session->here[here].seat.number,
                                          std::move(session->steps[here]));
    });
  }

  Result<std::shared_ptr<Session>> prepare_all(const JointPrograms& stages) const {
    Result<std::shared_ptr<Session>> session = open(stages, stages.devices(), {});
    if (!session) return session;
    if (Status status = measure(**session, stages); !status) return status.error();
    if (Status status = (*session)->devices.make_communicators((*session)->groups); !status) return status.error();
    if (Status status = build(**session, stages); !status) return status.error();
    return session;
  }

  // The same of the ranks of this process. The others know of its errors where they agree, and else end with it: in
  // NCCL they would wait for it.
  Result<std::shared_ptr<Session>> prepare_one(TcpWorld& world, const JointPrograms& stages) const {
    if (Status status = check_processes(world, stages); !status) return status.error();
    Result<std::shared_ptr<Session>> session = measure_one(world, stages);
    if (Status status = world.agree(session ? Status(Done{}) : Status(session.error())); !status) return status.error();
    const GiveAll give_all = [&](const std::string& name, const std::string& own) { return world.exchange(name, own); };
    const Status made = (*session)->devices.make_communicators((*session)->groups, stages.devices_by_seat(), give_all);
    if (!made) world.end_all(add_context("rank " + std::to_string(world.rank()), made.error()));
    if (Status status = build(**session, stages); !status) return status.error();
    return session;
  }

  Status check_processes(TcpWorld& world, const JointPrograms& stages) const {
    const std::int64_t ranks = stages.devices();
    const std::string launcher = options_.launched->launcher;
    if (ranks != world.size())
      return bad_input("the plan has " + std::to_string(ranks) + " ranks, a process each, and " + launcher +
                       " started " + std::to_string(world.size()) +
                       "; start as many, or run all ranks in one process with --set emit.cuda.launcher=\"none\"");
    const std::vector<std::string> digests = world.exchange("program", std::to_string(digest_of(stages)));
    const auto other = std::ranges::find_if(digests, [&](const std::string& one) { return one != digests.front(); });
    if (other == digests.end()) return Done{};
    return bad_input("rank " + std::to_string(other - digests.begin()) +
                     " has another program than rank 0; give all ranks the same plan, model and options");
  }

  Result<std::shared_ptr<Session>> measure_one(const TcpWorld& world, const JointPrograms& stages) const {
    const int device = sees_one_device() ? 0 : options_.launched->local_rank;
    Result<std::shared_ptr<Session>> session = open(stages, device + 1, {{world.rank(), device}});
    if (!session) return session;
    if (Status status = measure(**session, stages); !status) return status.error();
    return session;
  }

  // One of all devices of a run, and its number on this machine.
  struct OwnDevice {
    std::int64_t number = 0;
    int here = 0;
  };

  // With the ranks that are here: those of the process' own device, or all.
  Result<std::shared_ptr<Session>> open(const JointPrograms& stages, std::int64_t devices,
                                        const std::optional<OwnDevice>& own) const {
    Result<Links> links = Links::make(stages.programs(), stages.group_of, stages.order);
    if (!links) return links.error();
    Result<std::unique_ptr<Driver>> driver = make_driver(devices, stages.inputs.front()->program.training.tf32);
    if (!driver) return driver.error();
    auto session = std::make_shared<Session>(
        std::move(*driver), std::move(*links), CalledFile(options_.called, options_.records), options_.hang,
        [world = find_world()](const Error& error) { world != nullptr ? world->end_all(error) : end_process(error); });
    const std::vector<std::int64_t> device_of = stages.devices_by_seat();
    std::vector<Seat> seats;
    for (std::size_t s = 0; s < stages.inputs.size(); ++s) {
      for (std::int64_t rank = 0; rank < stages.inputs[s]->program.mesh.devices(); ++rank) {
        const Links& all = session->links;
        const std::int64_t seat = all.seat(s, rank), device = device_of[static_cast<std::size_t>(seat)];
        if (own && own->number != device) continue;
        seats.push_back({seat, own ? own->here : static_cast<int>(device), all.name(s, rank)});
        session->here.push_back({s, rank, seats.back()});
      }
    }
    if (Status status = session->devices.open(std::move(seats)); !status) return status.error();
    return session;
  }

  [[nodiscard]] LibraryPlans library_plans(const Session& session) const {
    if (!options_.uses_library) return {};
    Driver* const driver = session.driver.get();
    return {[driver](const ProductShape& shape) { return plan_workspace(*driver, shape); },
            [driver](const DnnGraph& graph) { return plan_workspace(*driver, graph); }};
  }

  // What the ranks of a stage are built from.
  struct StageSteps {
    explicit StageSteps(const BackendInput& input)
        : steps(occurrences(input.program)), arena(make_arena(input.program)), views(input.ops) {}

    std::vector<Occurrence> steps;
    Arena arena;
    ViewFinder views;
  };
  static std::deque<StageSteps> steps_of(const JointPrograms& stages) {
    std::deque<StageSteps> all;
    for (const BackendInput* input : stages.inputs) all.emplace_back(*input);
    return all;
  }
  Result<RankStep> built(const Session& session, const JointPrograms& stages, std::deque<StageSteps>& steps,
                         const RankHere& here, const Block& block) const {
    StageSteps& of = steps[here.stage];
    StageLinks stage{session.links, here.stage, {}};
    if (session.blocks.size() == session.here.size()) {
      stage.block_of = [&](std::int64_t seat) { return &session.blocks[session.place_of(seat)]; };
    }
    return StepBuilder(*stages.inputs[here.stage], stage, of.steps, of.arena, here.rank, block, of.views,
                       library_plans(session))
        .build();
  }

  // How much the ranks here need, which is allocated, and whom they communicate with.
  Status measure(Session& session, const JointPrograms& stages) const {
    std::deque<StageSteps> steps = steps_of(stages);
    for (const RankHere& here : session.here) {
      const std::int64_t seat = here.seat.number;
      if (Status status = session.devices.set(seat); !status) return status;
      Result<RankStep> step = built(session, stages, steps, here, Block::nowhere());
      if (!step) return in_stage(stages, here, step.error());
      collect_groups(*step, session.groups);
      const Program& program = stages.inputs[here.stage]->program;
      if (&here == &session.here.front()) {
        if (Status status = list(program, steps[here.stage].steps, *step); !status) return status;
      }
      const std::string large = what_is_large(program, steps[here.stage].steps, *step);
      if (Status status = session.devices.make_memory(seat, *step, large); !status) return status;
      session.blocks.push_back(step->block);
      session.blocks.back().base = session.devices.of(seat).memory;
    }
    return Done{};
  }

  // Before there is memory, so that what does not fit is listed, too.
  [[nodiscard]] Status list(const Program& program, const std::vector<Occurrence>& steps, const RankStep& step) const {
    if (options_.listing.empty()) return Done{};
    std::ofstream file(options_.listing);
    file << listing_of(program, steps, step);
    file.close();
    return file ? Status(Done{})
                : bad_input("emit.cuda.listing is \"" + options_.listing + "\", which can't be written");
  }

  // Their steps, at the addresses that they have now.
  Status build(Session& session, const JointPrograms& stages) const {
    std::deque<StageSteps> steps = steps_of(stages);
    for (std::size_t i = 0; i < session.here.size(); ++i) {
      const RankHere& here = session.here[i];
      if (Status status = session.devices.set(here.seat.number); !status) return status;
      Result<RankStep> step = built(session, stages, steps, here, session.blocks[i]);
      if (!step) return in_stage(stages, here, step.error());
      step->shares_device = std::ranges::count(stages.group_of, stages.group_of[here.stage]) > 1;
      if (!stages.peaks.empty()) step->device_peak_bytes = stages.peaks[stages.group_of[here.stage]];
      session.steps.push_back(std::move(*step));
    }
    const bool are_captured = std::ranges::all_of(
        session.steps, [&](const RankStep& step) { return can_be_captured(step, *session.driver); });
    if (stages.inputs.front()->program.training.cuda_graphs && !are_captured)
      log(LogLevel::warning, "cuda", "steps are no CUDA graphs here: ranks, or stages, share a device");
    return options_.compiles_chains ? compile_chains(session.steps, session.devices) : Done{};
  }

  static Error in_stage(const JointPrograms& stages, const RankHere& here, const Error& error) {
    return stages.inputs.size() > 1 ? add_context("stage " + std::to_string(here.stage), error) : error;
  }

  const Options options_;
  mutable std::once_flag joined_;
  mutable std::unique_ptr<TcpWorld> world_;
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
  const std::string_view last = text.substr(second + 1);
  const std::optional<std::int64_t> call = number_of(text.substr(first + 1, second - first - 1)),
                                    code = last == "hang" ? RecordingOptions::kHangs : number_of(last);
  if (!entry || !call || !code) return std::nullopt;
  return RecordingOptions::Failure{*entry, *call, static_cast<Code>(*code)};
}

Result<Options> read_options(const Config& config) {
  Options options;
  const std::string &driver = config.text("driver"), &products = config.text("products"),
                    &launcher = config.text("launcher"), &precision = config.text("precision"),
                    &chains = config.text("chains");
  if (driver != "nvidia" && driver != "recording")
    return bad_input("emit.cuda.driver is \"" + driver + "\"; it is \"nvidia\" or \"recording\"");
  if (products != "library" && products != "kernels")
    return bad_input("emit.cuda.products is \"" + products + "\"; it is \"library\" or \"kernels\"");
  if (launcher != "environment" && launcher != "none")
    return bad_input("emit.cuda.launcher is \"" + launcher + "\"; it is \"environment\" or \"none\"");
  if (precision != "plan" && precision != "float32")
    return bad_input("emit.cuda.precision is \"" + precision + "\"; it is \"plan\" or \"float32\"");
  if (chains != "compiled" && chains != "general")
    return bad_input("emit.cuda.chains is \"" + chains + "\"; it is \"compiled\" or \"general\"");
  options.records = driver == "recording";
  options.loops_back = config.boolean("loopback");
  options.uses_library = products == "library";
  options.computes_half = precision == "plan";
  options.compiles_chains = chains == "compiled";
  options.called = config.text("called");
  options.listing = config.text("listing");
  options.recording.seed = static_cast<std::uint64_t>(config.integer("seed"));
  options.recording.omitted_wait = config.integer("omitted_wait");
  for (const std::string& text : config.texts("failures")) {
    const std::optional<RecordingOptions::Failure> failure = failure_of(text);
    if (!failure)
      return bad_input(
          "emit.cuda.failures has \"" + text +
          "\"; each is ENTRY:CALL:CODE, as \"cudaMemcpyAsync:3:2\", with a name from docs/gpu.md, or ENTRY:CALL:hang");
    options.recording.failures.push_back(*failure);
  }
  const std::int64_t seconds = config.integer("arrival_seconds");
  if (seconds < 1 || seconds > kMostArrival)
    return bad_input("emit.cuda.arrival_seconds is " + std::to_string(seconds) + "; it is from 1 to " +
                     std::to_string(kMostArrival));
  options.arrival = std::chrono::seconds(seconds);
  const std::int64_t hang = config.integer("hang_seconds");
  if (hang < 0 || hang > kMostHang)
    return bad_input("emit.cuda.hang_seconds is " + std::to_string(hang) + "; it is from 1 to " +
                     std::to_string(kMostHang) + ", or 0 for no limit");
  options.hang = std::chrono::seconds(hang);
  if (launcher == "none") return options;
  Result<std::optional<Launched>> launched = find_launched([](const char* name) { return std::getenv(name); });
  if (!launched) return launched.error();
  if (*launched && options.loops_back)
    return bad_input("emit.cuda.loopback lets the ranks of one process share a GPU, and " + (*launched)->launcher +
                     " started this one for one rank; leave it out, or --set emit.cuda.launcher=\"none\"");
  options.launched = std::move(*launched);
  return options;
}

void* create(const Config& config, Error& error) {
  Result<Options> options = read_options(config);
  if (options) return static_cast<Backend*>(new Cuda(std::move(*options)));
  error = options.error();
  return nullptr;
}

}  // namespace

MESHWRIGHT_PLUGIN("backend", "cuda", "0.1.0", "Apache-2.0", "Runs the ranks on GPUs, in one process or one each",
                  nullptr, kSchema, std::size(kSchema), create, destroy_plugin<Backend>)

}  // namespace meshwright::cuda
