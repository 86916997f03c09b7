#include "post.h"

#include <cstring>
#include <ranges>

#include "box_runs.h"

namespace meshwright {

namespace {

// What both hold, from the one's part to the other's. The two stages may see the dimensions of one tensor as products of other atoms.
void copy_common(const Tensor& from, const ShardedType& source, const Mesh& source_mesh, std::int64_t source_rank, Tensor& to, const ShardedType& target, const Mesh& target_mesh,
                 std::int64_t target_rank) {
  const auto size = static_cast<std::size_t>(size_bytes(source.type.dtype));
  const auto copy = [&](std::size_t a, std::size_t b, std::size_t count) { std::memcpy(to.bytes().data() + b * size, from.bytes().data() + a * size, count * size); };
  const std::vector<std::int64_t> there = coordinates_of(source_mesh, source_rank), here = coordinates_of(target_mesh, target_rank);
  if (source.atoms.sizes == target.atoms.sizes) {
    const Box lies_in = box_of(source.layout, source.atoms, source_mesh, there), goes_to = box_of(target.layout, target.atoms, target_mesh, here);
    const Box all = whole_box(source.atoms.sizes);
    for_each_run(lies_in, goes_to, intersect(intersect(lies_in, goes_to), all), copy);
    return;
  }
  const ShardIndex held(source, source_mesh, there), wanted(target, target_mesh, here);
  for (std::int64_t i = 0; i < to.elements(); ++i) {
    const std::int64_t global = wanted.global(i);
    const std::optional<std::int64_t> local = global >= 0 ? held.local(global) : std::nullopt;
    if (local) copy(static_cast<std::size_t>(*local), static_cast<std::size_t>(i), 1);
  }
}

}  // namespace

void Post::send(const Message& message, std::int64_t microbatch, std::int64_t rank, const ShardedType& type, const Tensor& part) {
  Tensor copy = part;
  meeting_.change([&] { parcels_[{message, microbatch}].parts.insert_or_assign(rank, std::pair(type, std::move(copy))); });
}

bool Post::receive(const Message& message, std::int64_t microbatch, std::int64_t rank, const ShardedType& type, std::int64_t meeting_rank, const Meeting::Place& place, Tensor& result) {
  const Key key{message, microbatch};
  const std::int64_t senders = devices(message.from);
  const Parcel* parcel = nullptr;
  const auto is_there = [&] {
    const auto found = parcels_.find(key);
    parcel = found != parcels_.end() && std::ssize(found->second.parts) == senders ? &found->second : nullptr;
    return parcel != nullptr;
  };
  if (!meeting_.wait_until(meeting_rank, place, is_there)) return false;
  // The parcel stays until all have taken from it. Of several who have an element, the first one gives it.
  for (const auto& [sender, part] : parcel->parts | std::views::reverse) {
    copy_common(part.second, part.first, programs_[message.from]->mesh, sender, result, type, programs_[message.to]->mesh, rank);
  }
  meeting_.change([&] {
    if (++parcels_.at(key).taken == devices(message.to)) parcels_.erase(key);
  });
  return true;
}

}  // namespace meshwright
