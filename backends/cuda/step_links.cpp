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

// Whoever gets the same gets it from one place. What was in the slot before has arrived, or does so without this.
Status StepBuilder::send(const Instruction& instruction) {
  const Message& message = *instruction.message();
  const Result<Seen> source = read_in_rows(instruction.operands[0].value, microbatch_);
  if (!source) return source.error();
  const auto size = static_cast<std::size_t>(size_bytes(source->type.dtype));
  const std::vector<Delivery> given = stage_.links.given(message, rank_);
  std::vector<std::pair<const Delivery*, std::size_t>> packed;  // with its place in the slot
  std::vector<std::size_t> places;                              // by who receives
  std::size_t used = 0;
  for (const Delivery& delivery : given) {
    const auto same = std::ranges::find_if(packed, [&](const auto& other) { return is_same(*other.first, delivery); });
    places.push_back(same != packed.end() ? same->second : used);
    if (same != packed.end() || delivery.elements == 0) continue;
    packed.emplace_back(&delivery, used);
    used += aligned(static_cast<std::size_t>(delivery.elements) * size);
  }
  if (used == 0) return Done{};
  const std::size_t number = stage_.links.slot(message, microbatch_);
  std::byte* memory = slot(number, used);
  if (const auto before = sent_.find(number); before != sent_.end()) add(Await{before->second});
  for (const auto& [delivery, place] : packed) {
    if (Status status = pack(*delivery, *source, memory + place); !status) return status;
  }
  Exchange made{stage_.links.group(message), {}, {}};
  for (std::size_t to = 0; to < given.size(); ++to) {
    if (given[to].elements == 0) continue;
    const std::int64_t seat = stage_.links.seat(message.to, static_cast<std::int64_t>(to));
    made.sends.push_back(
        {peer_in(made.group, seat), memory + places[to], static_cast<std::size_t>(given[to].elements) * size});
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
  const auto size = static_cast<std::size_t>(size_bytes(result.type.dtype));
  const std::vector<Delivery> gotten = stage_.links.gotten(message, rank_);
  std::int64_t elements = 0;
  for (const Delivery& delivery : gotten) elements += delivery.elements;
  made_.received_bytes += elements * static_cast<std::int64_t>(size);
  if (elements < result.type.elements())
    add(Fill{result.data, static_cast<std::size_t>(result.type.bytes())});  // padding
  if (elements == 0) return Done{};
  Exchange made{stage_.links.group(message), {}, {}};
  std::vector<std::pair<const Delivery*, std::byte*>> arrived;
  for (std::size_t from = 0; from < gotten.size(); ++from) {
    const Delivery& delivery = gotten[from];
    if (delivery.elements == 0) continue;
    const std::size_t bytes = static_cast<std::size_t>(delivery.elements) * size;
    const bool is_all = delivery.runs.empty() && delivery.shared == delivery.wanted;
    std::byte* memory = is_all ? result.data : scratch(bytes);
    if (!is_all) arrived.emplace_back(&delivery, memory);
    const std::int64_t seat = stage_.links.seat(message.from, static_cast<std::int64_t>(from));
    made.receives.push_back({peer_in(made.group, seat), memory, bytes});
  }
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
