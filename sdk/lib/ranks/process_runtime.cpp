#include "process_runtime.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "execution.h"

namespace meshwright {

namespace {

constexpr std::string_view kStep = "step";

// What each process says of a step.
struct Step {
  std::int64_t arena_bytes = 0, bytes_sent = 0, rank_peak = 0, peak_instruction = 0, device_peak = 0, has_loss = 0;
  double loss = 0;
};

std::string header_of(const Tensor& tensor) {
  std::ostringstream text;
  text << static_cast<int>(tensor.type().dtype) << ' ' << tensor.shape().size();
  for (const std::int64_t size : tensor.shape()) text << ' ' << size;
  text << ' ' << tensor.bytes().size();
  return text.str();
}

// Not the tensor's elements.
Tensor tensor_of(const std::string& header) {
  std::istringstream text(header);
  int dtype = 0;
  std::size_t rank = 0, bytes = 0;
  text >> dtype >> rank;
  std::vector<std::int64_t> shape(rank);
  for (std::int64_t& size : shape) text >> size;
  text >> bytes;
  if (bytes == 0 && rank == 0) return {};
  return Tensor::uncleared({static_cast<DType>(dtype), std::move(shape)});
}

Rank& rank_here(Stages& stages, std::size_t stage) {
  return stages.ranks[stage].rank(stages.groups[stages.group_of[stage]].first_here);
}

Error in_place(const Stages& stages, const Turn& at, const Error& error) {
  const StageRanks& stage = stages.ranks[at.stage];
  std::string where = rank_name(stages, at.stage, stages.groups[stages.group_of[at.stage]].first_here);
  if (at.index < stage.steps().size()) where += ", " + describe(stage.program(), stage.steps()[at.index]);
  return add_context(where, error);
}

}  // namespace

void ProcessRuntime::place(DeviceGroup& group) {
  const std::int64_t rank = world_.rank() - group.first;
  if (rank < 0 || rank >= group.devices) return;
  group.first_here = rank;
  group.here.resize(1);
}

PartsOfAll ProcessRuntime::parts_of_all(const DeviceGroup& group) {
  if (group.here.empty()) return {};
  return [this, first = static_cast<int>(group.first), self = group.first_here,
          devices = group.devices](const Tensor& own) -> Result<std::vector<Tensor>> {
    std::vector<Tensor> parts;
    for (std::int64_t rank = 0; rank < devices; ++rank)
      parts.push_back(rank == self ? own : Tensor::uncleared(own.type()));
    std::vector<std::span<std::byte>> bytes;
    for (Tensor& part : parts) bytes.push_back(part.bytes());
    if (devices > 1) world_.share(bytes, first);
    return parts;
  };
}

Result<Report> ProcessRuntime::run(Stages& stages, const std::vector<std::vector<const Tensor*>>& inputs,
                                   const std::vector<RunObserver*>& observers) {
  if (!is_planned_) {
    if (Status status = world_.agree(plan(stages)); !status) return status.error();
    is_planned_ = true;
  }
  std::vector<std::size_t> here;
  for (std::size_t s = 0; s < stages.ranks.size(); ++s) {
    if (stages.ranks[s].has_ranks()) here.push_back(s);
  }
  world_.announce(kStep);
  const std::unique_ptr<ProcessCarriers> carriers = make_carriers();
  Turn at{0, here.front(), 0};
  try {
    const Status done = execute_all(stages, inputs, observers, *carriers, here, at);
    if (!done) world_.end_all(in_place(stages, at, done.error()));
  } catch (const std::exception& problem) {
    world_.end_all(in_place(stages, at, internal_error(problem.what())));
  }
  return report(stages, *carriers, here);
}

// The others are at the next step already, and wait for this process there.
Status ProcessRuntime::ended(const Status& status) {
  if (!status) world_.end_all(status.error());
  return Done{};
}

Result<Tensor> ProcessRuntime::told(const DeviceGroup& group, Result<Tensor> found) {
  // Errors are those of the question, and so alike on all processes that have the ranks.
  if (Status status = world_.agree(found ? Status(Done{}) : Status(found.error())); !status) return status.error();
  if (group.devices == world_.size()) return found;  // all have it
  const int root = static_cast<int>(group.first);
  const bool tells = world_.rank() == root;
  const std::vector<std::string> headers = world_.exchange("tensor", tells ? header_of(*found) : std::string());
  const std::string& header = headers[static_cast<std::size_t>(root)];
  Tensor tensor = tells ? std::move(*found) : tensor_of(header);
  world_.broadcast(tensor.bytes(), root);
  return tensor;
}

Status ProcessRuntime::execute_all(Stages& stages, const std::vector<std::vector<const Tensor*>>& inputs,
                                   const std::vector<RunObserver*>& observers, ProcessCarriers& carriers,
                                   const std::vector<std::size_t>& here, Turn& at) {
  for (const std::size_t stage : here) {
    if (Status status = rank_here(stages, stage).begin(inputs[stage], carriers.of(stage), observers[stage]); !status)
      return status;
  }
  const auto ran = [](const Result<bool>& done) -> Status {
    if (!done) return done.error();
    return *done ? Status(Done{}) : Status(internal_error("the run has stopped"));
  };
  for (const Turn& turn : turns_of(stages, stages.group_of[at.stage])) {
    at = turn;
    if (Status status = ran(rank_here(stages, turn.stage).execute(turn.index)); !status) return status;
  }
  if (Status status = carriers.finish(); !status) return status;
  for (const std::size_t stage : here) {
    at = {0, stage, stages.ranks[stage].steps().size()};
    if (Status status = ran(rank_here(stages, stage).finish()); !status) return status;
    if (Status status = rank_here(stages, stage).give_outputs(); !status) return status;
  }
  return Done{};
}

Result<Report> ProcessRuntime::report(const Stages& stages, const ProcessCarriers& carriers,
                                      const std::vector<std::size_t>& here) {
  Step own;
  Status status = Done{};
  for (const std::size_t s : here) {
    const StageRanks& stage = stages.ranks[s];
    const DeviceGroup& group = stages.groups[stages.group_of[s]];
    const Rank& rank = stage.rank(group.first_here);
    own.arena_bytes += stage.arena_bytes();
    own.bytes_sent += carriers.fetched_bytes(s) + rank.received_bytes();
    if (rank.peak_bytes() > own.rank_peak) {
      own.rank_peak = rank.peak_bytes();
      own.peak_instruction = rank.peak_instruction();
    }
    own.device_peak = std::max({own.device_peak, rank.peak_bytes(), group.here.front().most});
    const Result<std::optional<double>> loss = stage.loss();
    if (!loss) {
      status = loss.error();
    } else if (*loss) {
      own.has_loss = 1;
      own.loss += **loss;
    }
  }
  // Others may be here without an error.
  if (!status) world_.end_all(status.error());
  Report report;
  report.ranks = stages.devices();
  std::int64_t most = 0;
  for (const std::string& text : world_.exchange(kStep, {reinterpret_cast<const char*>(&own), sizeof own})) {
    Step step;
    if (text.size() != sizeof step) world_.end_all(internal_error("a process gave something else than its step"));
    std::memcpy(&step, text.data(), sizeof step);
    report.arena_bytes = std::max(report.arena_bytes, step.arena_bytes);
    report.bytes_sent += step.bytes_sent;
    report.peak_bytes = std::max(report.peak_bytes, step.device_peak);
    if (step.rank_peak > most) {  // the first process with the largest one
      most = step.rank_peak;
      report.peak_instruction = step.peak_instruction;
    }
    if (step.has_loss != 0) report.loss = report.loss.value_or(0) + step.loss;
  }
  return report;
}

}  // namespace meshwright
