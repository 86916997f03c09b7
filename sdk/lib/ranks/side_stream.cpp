#include "side_stream.h"

#include <algorithm>

namespace meshwright {

namespace {

bool has(const std::vector<const Tensor*>& storages, const Tensor* storage) { return std::ranges::find(storages, storage) != storages.end(); }

}  // namespace

void SideStream::add(std::string what, std::vector<const Tensor*> reads, std::vector<const Tensor*> writes, Begin begin, bool for_others) {
  queue_.push_back({std::move(what), std::move(reads), std::move(writes), std::move(begin), {}, for_others});
}

Status SideStream::advance() {
  while (!queue_.empty()) {
    Item& first = queue_.front();
    if (!first.task) {
      Result<Task> task = first.begin();
      if (!task) return add_context(first.what, task.error());
      first.task = std::move(*task);
    }
    const Result<bool> done = first.task();
    if (!done) return add_context(first.what, done.error());
    if (!*done) break;
    queue_.pop_front();
  }
  return Done{};
}

bool SideStream::uses(const Tensor* storage) const {
  return std::ranges::any_of(queue_, [&](const Item& item) { return has(item.reads, storage) || has(item.writes, storage); });
}

bool SideStream::has_for_others() const { return std::ranges::any_of(queue_, &Item::for_others); }

bool SideStream::writes(const Tensor* storage) const {
  return std::ranges::any_of(queue_, [&](const Item& item) { return has(item.writes, storage); });
}

}  // namespace meshwright
