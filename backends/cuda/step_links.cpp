// What goes to other stages, and comes from there: packed on the stream of the instruction, sent and received on the
// stream of the message's link.
#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/pointwise.h"
#include "state_places.h"
#include "step_builder.h"

namespace meshwright::cuda {

namespace {

// Among the seats of a link.
int peer_in(const GroupKey& group, std::int64_t seat) {
  return static_cast<int>(std::ranges::find(group.seats, seat) - group.seats.begin());
}

bool is_same(const Delivery& one, const Delivery& other) {
  const auto is_same_run = [](const HandedRun& a, const HandedRun& b) {
    return a.from == b.from && a.count == b.count;
  };
  return one.shared == other.shared && std::ranges::equal(one.runs, other.runs, is_same_run);
}

}  // namespace

std::byte* StepBuilder::slot(std::size_t number, std::size_t bytes) {
  if (number >= slot_bytes_.size()) slot_bytes_.resize(number + 1, 0);
  slot_bytes_[number] = std::max(slot_bytes_[number], aligned(bytes));
  return block_.slot(number);
}

void StepBuilder::add_on_link(StreamNumber link, Command::What what) {
  const std::size_t event = made_.events++;
  add(Record{event});
  add_on(link, Await{event});
  add_on(link, std::move(what));
  made_.links.insert(link);
}

StepBuilder::Packing StepBuilder::packing_of(const std::vector<Delivery>& given, std::size_t element_bytes) {
  Packing packing;
  for (const Delivery& delivery : given) {
    const auto same =
        std::ranges::find_if(packing.packed, [&](const auto& other) { return is_same(*other.first, delivery); });
    packing.places.push_back(same != packing.packed.end() ? same->second : packing.bytes);
    if (same != packing.packed.end() || delivery.elements == 0) continue;
    packing.packed.emplace_back(&delivery, packing.bytes);
    packing.bytes += aligned(static_cast<std::size_t>(delivery.elements) * element_bytes);
  }
  return packing;
}

// What was in the slot before has been received, or is without this one's doing.
Status StepBuilder::send(const Instruction& instruction) {
  const Message& message = *instruction.message();
  const Result<Seen> source = read_in_rows(instruction.operands[0].value, microbatch_);
  if (!source) return source.error();
  const std::vector<Delivery> given = stage_.links.given(message, rank_);
  const Packing packing = packing_of(given, source->element_bytes());
  if (packing.bytes == 0) return Done{};
  const bool stays = stage_.links.stays(message);
  const std::size_t number = stage_.links.slot(message, microbatch_);
  std::byte* memory = slot(number, packing.bytes);
  const auto before = sent_.find(number);
  if (before != sent_.end()) {
    if (stays)
      add(SlotEvent{seat(), number, true, false});
    else
      add(Await{before->second});
  }
  for (const auto& [delivery, place] : packing.packed) {
    if (Status status = pack(*delivery, *source, memory + place); !status) return status;
  }
  if (stays) {
    sent_[number] = 0;
    add(SlotEvent{seat(), number, false, true});
    return Done{};
  }
  Exchange made{stage_.links.group(message), {}, {}};
  for (std::size_t to = 0; to < given.size(); ++to) {
    if (given[to].elements == 0) continue;
    const std::int64_t receiver = stage_.links.seat(message.to, static_cast<std::int64_t>(to));
    made.sends.push_back({peer_in(made.group, receiver), memory + packing.places[to],
                          static_cast<std::size_t>(given[to].elements) * source->element_bytes()});
  }
  const StreamNumber link = made.group.stream;
  add_on_link(link, std::move(made));
  sent_[number] = made_.events++;
  add_on(link, Record{sent_[number]});
  return Done{};
}

Status StepBuilder::receive(const Instruction& instruction) {
  const Message& message = *instruction.message();
  const Seen result = placed(instruction.results[0]);
  keep(instruction.results[0]);
  const std::vector<Delivery> gotten = stage_.links.gotten(message, rank_);
  std::int64_t elements = 0;
  for (const Delivery& delivery : gotten) elements += delivery.elements;
  made_.received_bytes += elements * static_cast<std::int64_t>(result.element_bytes());
  if (elements < result.type.elements())
    add(Fill{result.data, static_cast<std::size_t>(result.type.bytes())});  // padding
  if (stage_.links.stays(message)) return take_from_slot(message, gotten, result);
  return receive_by_link(message, {}, gotten, result);
}

// `sends`: what goes over at the same time.
Status StepBuilder::receive_by_link(const Message& message, std::vector<Exchange::Part> sends,
                                    const std::vector<Delivery>& gotten, const Seen& result) {
  const bool stays = stage_.links.stays(message);
  Exchange made{stage_.links.group(message), std::move(sends), {}};
  std::vector<std::pair<const Delivery*, std::byte*>> arrived;
  for (std::size_t from = 0; from < gotten.size(); ++from) {
    const Delivery& delivery = gotten[from];
    if (delivery.elements == 0 || (stays && static_cast<std::int64_t>(from) == rank_)) continue;
    const std::size_t bytes = static_cast<std::size_t>(delivery.elements) * result.element_bytes();
    const bool is_all = delivery.runs.empty() && delivery.shared == delivery.wanted;
    std::byte* memory = is_all ? result.data : scratch(bytes);
    if (!is_all) arrived.emplace_back(&delivery, memory);
    const std::int64_t sender = stage_.links.seat(stays ? message.to : message.from, static_cast<std::int64_t>(from));
    made.receives.push_back({peer_in(made.group, sender), memory, bytes});
  }
  if (made.sends.empty() && made.receives.empty()) return Done{};
  const StreamNumber link = made.group.stream;
  add_on_link(link, std::move(made));
  const std::size_t there = made_.events++;
  add_on(link, Record{there});
  add(Await{there});
  for (const auto& [delivery, memory] : arrived) {
    if (Status status = unpack(*delivery, memory, result); !status) return status;
  }
  return Done{};
}

// On the same devices: the sender's slot beside it is read where it lies, and handed on to the others from there, since
// here all of them take their parts.
Status StepBuilder::take_from_slot(const Message& message, const std::vector<Delivery>& gotten, const Seen& result) {
  const std::int64_t sender = stage_.links.seat(message.from, rank_);
  const std::size_t number = stage_.links.slot(message, microbatch_);
  const Block* block = stage_.block_of ? stage_.block_of(sender) : &block_;
  const std::vector<Delivery> given = stage_.links.given(message, rank_);
  const Packing packing = packing_of(given, result.element_bytes());
  if (packing.bytes > 0) add(SlotEvent{sender, number, false, false});
  const auto place_of = [&](std::size_t to) { return block->slot(number) + packing.places[to]; };
  const auto own = static_cast<std::size_t>(rank_);
  std::vector<Exchange::Part> sends;
  for (std::size_t to = 0; to < given.size(); ++to) {
    const std::size_t bytes = static_cast<std::size_t>(given[to].elements) * result.element_bytes();
    if (bytes > 0 && to != own) sends.push_back({static_cast<int>(to), place_of(to), bytes});
  }
  if (Status status = receive_by_link(message, std::move(sends), gotten, result); !status) return status;
  if (gotten[own].elements > 0) {
    if (Status status = unpack(gotten[own], place_of(own), result); !status) return status;
  }
  if (packing.bytes > 0) add(SlotEvent{sender, number, true, true});
  return Done{};
}

Status StepBuilder::pack(const Delivery& delivery, const Seen& source, std::byte* to) {
  const DType dtype = source.type.dtype;
  if (delivery.runs.empty()) return copy_box(dtype, delivery.shared, delivery.held, source.data, delivery.shared, to);
  const auto size = static_cast<std::size_t>(size_bytes(dtype));
  for (const HandedRun& run : delivery.runs) {
    const auto count = static_cast<std::int64_t>(run.count);
    if (Status status = copy_elements(dtype, source.data + run.from * size, to, count); !status) return status;
    to += run.count * size;
  }
  return Done{};
}

Status StepBuilder::unpack(const Delivery& delivery, std::byte* from, const Seen& result) {
  const DType dtype = result.type.dtype;
  if (delivery.runs.empty())
    return copy_box(dtype, delivery.shared, delivery.shared, from, delivery.wanted, result.data);
  const auto size = static_cast<std::size_t>(size_bytes(dtype));
  for (const HandedRun& run : delivery.runs) {
    const auto count = static_cast<std::int64_t>(run.count);
    if (Status status = copy_elements(dtype, from, result.data + run.to * size, count); !status) return status;
    from += run.count * size;
  }
  return Done{};
}

Status StepBuilder::copy_elements(DType dtype, std::byte* from, std::byte* to, std::int64_t count) {
  const TensorType type{dtype, {count}};
  const Seen source = seen_at(from, type), place = seen_at(to, type);
  const Node none;
  return with_writer({none, {}, {}}, {source}, {place}, [&](OpWriter& writer) { return writer.copy(source, place); });
}

}  // namespace meshwright::cuda
