// Tables of ticks, each distinct content stored once: equal ids mean equal tables, which is what lets a join whose
// inputs were seen before be looked up. Entries are row-major; kForbidden stands for whatever is not allowed, and
// every other entry is less.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "meshwright/strategy_space.h"

namespace meshwright::elimination {

using TableId = std::uint32_t;

class TableStore {
 public:
  TableId intern(std::vector<Ticks> values);
  [[nodiscard]] const std::vector<Ticks>& operator[](TableId id) const { return tables_[id]; }
  // The same table of `rows` x `columns` with its two dimensions exchanged.
  TableId transpose(TableId id, std::size_t rows, std::size_t columns);

  [[nodiscard]] std::size_t size() const { return tables_.size(); }
  // Forgets the tables from `size` on. What refers to them must be forgotten too.
  void truncate(std::size_t size);

 private:
  std::deque<std::vector<Ticks>> tables_;  // a deque, so that references stay valid
  std::vector<std::uint64_t> hashes_;
  std::unordered_multimap<std::uint64_t, TableId> by_hash_;
  std::unordered_map<std::uint64_t, TableId> transposes_;  // by id and rows
};

}  // namespace meshwright::elimination
