#include "step_keeper.h"

#include <algorithm>
#include <utility>

#include "state_places.h"

namespace meshwright::cuda {

namespace {

bool is_same_view(const Seen& a, const Seen& b) {
  return a.data == b.data && a.type == b.type && a.strides == b.strides;
}

}  // namespace

// Sizes are few, so that what is given back is taken again by size.
std::byte* StepBuilder::take_beside(std::size_t bytes) {
  if (std::vector<std::byte*>& free = free_beside_[bytes]; !free.empty()) {
    std::byte* const taken = free.back();
    free.pop_back();
    return taken;
  }
  std::byte* const memory = block_.beside() + made_.block.beside_bytes;
  made_.block.beside_bytes += bytes;
  return memory;
}

StepBuilder::Storage* StepBuilder::CallKeeper::storage_of(std::size_t operand) const {
  Storage* const storage = builder_.value(instruction_.operands[operand].value).storage.get();
  const Range whole{storage->seen.data, static_cast<std::size_t>(storage->seen.type.bytes())};
  return overlap({operands_[operand].range()}, {whole}) ? storage : nullptr;
}

std::byte* StepBuilder::CallKeeper::keep(std::optional<std::size_t> operand, std::string what, std::size_t bytes) {
  Storage* const storage = operand ? storage_of(*operand) : nullptr;
  if (bytes == 0 || (operand && storage == nullptr)) return nullptr;
  bytes = aligned(bytes);
  std::byte* const memory = builder_.take_beside(bytes);
  Beside beside{operand ? operands_[*operand] : Seen(), std::move(what), memory, bytes};
  (operand ? storage->beside : of_result_).push_back(std::move(beside));
  return memory;
}

std::byte* StepBuilder::CallKeeper::kept(std::size_t operand, std::string_view what) const {
  const Storage* const storage = storage_of(operand);
  if (storage == nullptr) return nullptr;
  const auto is_it = [&](const Beside& beside) {
    return beside.what == what && is_same_view(beside.seen, operands_[operand]);
  };
  const auto found = std::find_if(storage->beside.rbegin(), storage->beside.rend(), is_it);  // the last one
  return found != storage->beside.rend() ? found->memory : nullptr;
}

std::string StepBuilder::CallKeeper::identity(std::size_t operand) const {
  const Storage* const storage = storage_of(operand);
  if (storage == nullptr) return {};
  const Seen& seen = operands_[operand];
  std::string made = "storage " + std::to_string(storage->number) + " from byte " +
                     std::to_string(seen.data - storage->seen.data) + ", " + to_string(seen.type) + " at";
  for (const std::int64_t stride : seen.strides) made += ' ' + std::to_string(stride);
  return made;
}

void StepBuilder::CallKeeper::close() {
  if (of_result_.empty()) return;
  Storage& storage = *builder_.value(instruction_.results[0]).storage;
  for (Beside& beside : of_result_) {
    beside.seen = storage.seen;
    storage.beside.push_back(std::move(beside));
  }
}

}  // namespace meshwright::cuda
