#include "post.h"

#include <cstring>

#include "handover.h"

namespace meshwright {

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
  // The parcel stays until all have taken from it.
  const StageEnd sender{parcel->parts.begin()->second.first, programs_[message.from]->mesh}, receiver{type, programs_[message.to]->mesh};
  const std::vector<std::vector<HandedRun>> runs = handed_to(sender, receiver, rank);
  const auto size = static_cast<std::size_t>(size_bytes(type.type.dtype));
  for (const auto& [from, part] : parcel->parts) {
    for (const HandedRun& run : runs[static_cast<std::size_t>(from)]) {
      std::memcpy(result.bytes().data() + run.to * size, part.second.bytes().data() + run.from * size, run.count * size);
    }
  }
  meeting_.change([&] {
    if (++parcels_.at(key).taken == devices(message.to)) parcels_.erase(key);
  });
  return true;
}

}  // namespace meshwright
