#include "letters.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace meshwright {

namespace {

// How the message's value lies at the end that sends it, or that receives it.
const ShardedType* end_of(const Program& program, const Message& message, InstructionKind kind) {
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind() != kind || *instruction.message() != message) continue;
    return &program.type(kind == InstructionKind::send ? instruction.operands[0].value : instruction.results[0]);
  }
  return nullptr;
}

std::size_t elements_of(const std::vector<HandedRun>& runs) {
  std::size_t elements = 0;
  for (const HandedRun& run : runs) elements += run.count;
  return elements;
}

}  // namespace

Status Letters::plan(const Stages& stages) {
  for (const StageRanks& stage : stages.ranks) {
    microbatches_ = static_cast<int>(stage.program().order.microbatches);
    for (const Instruction& instruction : stage.program().instructions) {
      if (instruction.kind() == InstructionKind::send) routes_.try_emplace(*instruction.message());
    }
  }
  if (static_cast<std::int64_t>(routes_.size()) * microbatches_ > world_.largest_tag()) {
    return bad_input("the stages send " + std::to_string(routes_.size()) + " values in each of " + std::to_string(microbatches_) + " microbatches, and MPI has tags for " +
                     std::to_string(world_.largest_tag()) + " messages; plan with fewer microbatches");
  }
  int number = 0;
  for (auto& [message, route] : routes_) {
    route.number = number++;
    const ShardedType* sent = end_of(stages.ranks[message.from].program(), message, InstructionKind::send);
    const ShardedType* received = end_of(stages.ranks[message.to].program(), message, InstructionKind::receive);
    if (sent == nullptr || received == nullptr) return internal_error("'" + message.value + "' is sent and not received");  // validate_stages has seen to it
    if (Status status = plan_route(stages, message, *sent, *received, route); !status) return status;
  }
  return Done{};
}

Status Letters::plan_route(const Stages& stages, const Message& message, const ShardedType& sent, const ShardedType& received, Route& route) {
  route.element_bytes = static_cast<std::size_t>(size_bytes(sent.type.dtype));
  const DeviceGroup &from = stages.groups[stages.group_of[message.from]], &to = stages.groups[stages.group_of[message.to]];
  const StageEnd sender{sent, stages.ranks[message.from].program().mesh}, receiver{received, stages.ranks[message.to].program().mesh};
  const std::int64_t sends_as = world_.rank() - from.first, receives_as = world_.rank() - to.first;
  const bool sends = sends_as >= 0 && sends_as < from.devices, receives = receives_as >= 0 && receives_as < to.devices;
  for (std::int64_t rank = 0; rank < to.devices; ++rank) {
    if (!sends && rank != receives_as) continue;
    std::vector<std::vector<HandedRun>> runs = handed_to(sender, receiver, rank);
    const auto add = [&](std::vector<Leg>& legs, std::int64_t process, const std::vector<HandedRun>& these) {
      if (!these.empty()) legs.push_back({static_cast<int>(process), these, elements_of(these)});
    };
    if (sends) add(route.out, to.first + rank, runs[static_cast<std::size_t>(sends_as)]);
    if (!receives || rank != receives_as) continue;
    for (std::int64_t other = 0; other < from.devices; ++other) add(route.in, from.first + other, runs[static_cast<std::size_t>(other)]);
  }
  for (const std::vector<Leg>* legs : {&route.out, &route.in}) {
    for (const Leg& leg : *legs) {
      if (leg.elements * route.element_bytes <= static_cast<std::size_t>(std::numeric_limits<int>::max())) continue;
      return bad_input("'" + message.value + "' would be a message of " + std::to_string(leg.elements * route.element_bytes) + " bytes, and MPI counts to " + std::to_string(std::numeric_limits<int>::max()) +
                       "; plan with more microbatches or more devices in a stage");
    }
  }
  return Done{};
}

Status Letters::send(const Message& message, std::int64_t microbatch, const Tensor& part) {
  const Route& route = routes_.at(message);
  for (const Leg& leg : route.out) {
    Sent& sent = sent_.emplace_back();
    sent.text.resize(leg.elements * route.element_bytes);
    std::byte* place = sent.text.data();
    for (const HandedRun& run : leg.runs) {
      std::memcpy(place, part.bytes().data() + run.from * route.element_bytes, run.count * route.element_bytes);
      place += run.count * route.element_bytes;
    }
    world_.check(MPI_Isend(sent.text.data(), static_cast<int>(sent.text.size()), MPI_BYTE, leg.process, tag(route, microbatch), world_.letters(), &sent.request), "MPI_Isend");
  }
  return Done{};
}

Letters::Arriving Letters::receive(const Message& message, std::int64_t microbatch, Tensor& result) {
  const Route& route = routes_.at(message);
  Arriving arriving(world_, route.element_bytes, result);
  for (const Leg& leg : route.in) {
    std::vector<std::byte>& text = arriving.texts_.emplace_back(leg.elements * route.element_bytes);
    arriving.runs_.push_back(&leg.runs);
    world_.check(MPI_Irecv(text.data(), static_cast<int>(text.size()), MPI_BYTE, leg.process, tag(route, microbatch), world_.letters(), &arriving.requests_.emplace_back(MPI_REQUEST_NULL)), "MPI_Irecv");
  }
  return arriving;
}

bool Letters::Arriving::advance() {
  int is_done = 0;
  world_.check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &is_done, MPI_STATUSES_IGNORE), "MPI_Testall");
  if (is_done == 0) return false;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const std::byte* place = texts_[i].data();
    for (const HandedRun& run : *runs_[i]) {
      std::memcpy(result_.bytes().data() + run.to * element_bytes_, place, run.count * element_bytes_);
      place += run.count * element_bytes_;
    }
  }
  return true;
}

bool Letters::advance() {
  std::erase_if(sent_, [&](Sent& sent) {
    int is_done = 0;
    world_.check(MPI_Test(&sent.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    return is_done != 0;
  });
  return sent_.empty();
}

}  // namespace meshwright
