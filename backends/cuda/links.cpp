#include "links.h"

#include <algorithm>
#include <numeric>

#include "box_runs.h"
#include "rank.h"

namespace meshwright::cuda {

namespace {

// By sender, as `handed_to` has it, but that `first` is asked first. Boxes of one layout are equal or disjoint: an
// equal one has nothing to give any more.
std::vector<Delivery> deliveries(const StageEnd& sender, const StageEnd& receiver, std::int64_t rank,
                                 std::int64_t first) {
  std::vector<Delivery> made(static_cast<std::size_t>(sender.mesh.devices()));
  if (sender.type.atoms.sizes != receiver.type.atoms.sizes) {
    std::vector<std::vector<HandedRun>> runs = handed_to(sender, receiver, rank);
    for (std::size_t from = 0; from < made.size(); ++from) {
      for (const HandedRun& run : runs[from]) made[from].elements += static_cast<std::int64_t>(run.count);
      made[from].runs = std::move(runs[from]);
    }
    return made;
  }
  const Box wanted =
      box_of(receiver.type.layout, receiver.type.atoms, receiver.mesh, coordinates_of(receiver.mesh, rank));
  std::vector<std::int64_t> order(made.size());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + first, order.begin() + first + 1);
  std::vector<Box> seen;
  for (const std::int64_t from : order) {
    const Box held = box_of(sender.type.layout, sender.type.atoms, sender.mesh, coordinates_of(sender.mesh, from));
    if (std::ranges::find(seen, held) != seen.end()) continue;
    seen.push_back(held);
    const Box shared = intersect(intersect(held, wanted), whole_box(receiver.type.atoms.sizes));
    made[static_cast<std::size_t>(from)] = {held, wanted, shared, {}, shared.elements()};
  }
  return made;
}

std::string described(const Message& message) {
  return "'" + message.value + "'" + (message.gradient ? " (its gradient)" : "") + ", which stage " +
         std::to_string(message.from) + " hands to stage " + std::to_string(message.to);
}

}  // namespace

Result<Links> Links::make(std::vector<const Program*> programs, std::vector<std::uint32_t> group_of,
                          const JointOrder& order) {
  Links links;
  links.programs_ = std::move(programs);
  links.group_of_ = std::move(group_of);
  std::int64_t seats = 0;
  for (const Program* program : links.programs_) {
    links.first_.push_back(seats);
    seats += program->mesh.devices();
  }
  links.find_ends(order);
  if (Status status = links.give_slots(); !status) return status.error();
  return links;
}

void Links::find_ends(const JointOrder& order) {
  for (std::size_t stage = 0; stage < programs_.size(); ++stage) {
    const Program& program = *programs_[stage];
    const std::vector<Occurrence> steps = occurrences(program);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Instruction& instruction = program.instructions[steps[i].instruction];
      if (instruction.message() == nullptr) continue;
      Link& link = links_[*instruction.message()];
      const bool sends = instruction.kind() == InstructionKind::send;
      (sends ? link.sent : link.received) = sends ? instruction.operands[0].value : instruction.results[0];
      (sends ? link.sends : link.receives).emplace_back(steps[i].microbatch, order[stage][i]);
    }
  }
}

Status Links::give_slots() {
  std::vector<std::size_t> used(programs_.size(), 0);  // by stage
  for (auto& [message, link] : links_) {
    std::vector<std::pair<std::size_t, std::size_t>> slots;  // its own: each one's number, and where it is free again
    for (std::size_t i = 0; i < link.sends.size(); ++i) {
      if (i >= link.receives.size() || link.sends[i].first != link.receives[i].first)
        return bad_input(described(message) +
                         ", arrives in another order of microbatches than it is sent in, which the backend 'cuda' does "
                         "not do; plan with another schedule");
      const auto free =
          std::ranges::find_if(slots, [place = link.sends[i].second](const auto& slot) { return slot.second < place; });
      const bool is_free = free != slots.end();
      if (!is_free) slots.emplace_back(used[message.from]++, 0);
      auto& slot = is_free ? *free : slots.back();
      slot.second = link.receives[i].second;
      link.slots.emplace(link.sends[i].first, slot.first);
    }
  }
  return Done{};
}

std::string Links::name(std::size_t stage, std::int64_t rank) const {
  return (programs_.size() > 1 ? "stage " + std::to_string(stage) + ", " : "") + "rank " + std::to_string(rank);
}

GroupKey Links::group(const Message& message) const {
  GroupKey group{kFirstLink + static_cast<std::size_t>(std::distance(links_.begin(), links_.find(message))), {}};
  for (const std::uint32_t stage : {std::min(message.from, message.to), std::max(message.from, message.to)}) {
    if (stays(message) && stage != message.to) continue;
    for (std::int64_t rank = 0; rank < programs_[stage]->mesh.devices(); ++rank)
      group.seats.push_back(seat(stage, rank));
  }
  return group;
}

std::size_t Links::slot(const Message& message, std::int64_t microbatch) const {
  return link(message).slots.at(microbatch);
}

std::vector<Delivery> Links::given(const Message& message, std::int64_t rank) const {
  std::vector<Delivery> all;
  for (std::int64_t to = 0; to < programs_[message.to]->mesh.devices(); ++to)
    all.push_back(std::move(gotten(message, to)[static_cast<std::size_t>(rank)]));
  return all;
}

std::vector<Delivery> Links::gotten(const Message& message, std::int64_t rank) const {
  const Program &sender = *programs_[message.from], &receiver = *programs_[message.to];
  return deliveries({sender.type(link(message).sent), sender.mesh},
                    {receiver.type(link(message).received), receiver.mesh}, rank, stays(message) ? rank : 0);
}

}  // namespace meshwright::cuda
