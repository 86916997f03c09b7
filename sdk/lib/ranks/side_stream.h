// The communication stream of one rank, where it runs beside the computing (Stream::communication). What is on it is done in order. It has no thread of
// its own: it goes on whenever it is asked to, between instructions and while the rank waits.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "meshwright/result.h"

namespace meshwright {

class Tensor;

class SideStream {
 public:
  // Called again and again until it gives true, which means that it is done; without waiting for anything.
  using Task = std::function<Result<bool>()>;
  // Makes a task when its turn comes: what it reads may have been made by those before it.
  using Begin = std::function<Result<Task>()>;

  // `reads` and `writes`: storages. `what`: names it, in errors. `for_others`: ranks wait for it that this one does not hear of.
  void add(std::string what, std::vector<const Tensor*> reads, std::vector<const Tensor*> writes, Begin begin, bool for_others = false);
  // As far as it goes without waiting. Errors: a task's own, with its name.
  Status advance();
  // Whether anything that is left reads or writes this storage.
  [[nodiscard]] bool uses(const Tensor* storage) const;
  // Whether anything that is left writes it.
  [[nodiscard]] bool writes(const Tensor* storage) const;
  // Whether others wait for anything that is left.
  [[nodiscard]] bool has_for_others() const;
  [[nodiscard]] bool is_empty() const { return queue_.empty(); }

 private:
  struct Item {
    std::string what;
    std::vector<const Tensor*> reads, writes;
    Begin begin;
    Task task;  // from its turn on
    bool for_others = false;
  };
  std::deque<Item> queue_;
};

}  // namespace meshwright
