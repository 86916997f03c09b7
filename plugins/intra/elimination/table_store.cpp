#include "table_store.h"

namespace meshwright::elimination {

namespace {

std::uint64_t hash_of(const std::vector<Ticks>& values) {
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL ^ values.size();
  for (const Ticks value : values) {
    hash ^= static_cast<std::uint64_t>(value);
    hash *= 0xff51afd7ed558ccdULL;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

TableId TableStore::intern(std::vector<Ticks> values) {
  const std::uint64_t hash = hash_of(values);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto candidate = begin; candidate != end; ++candidate) {
    if (tables_[candidate->second] == values) return candidate->second;
  }
  const auto id = static_cast<TableId>(tables_.size());
  tables_.push_back(std::move(values));
  hashes_.push_back(hash);
  by_hash_.emplace(hash, id);
  return id;
}

TableId TableStore::transpose(TableId id, std::size_t rows, std::size_t columns) {
  const std::uint64_t key = (std::uint64_t{id} << 32) | rows;
  if (const auto known = transposes_.find(key); known != transposes_.end()) return known->second;
  const std::vector<Ticks>& values = tables_[id];
  std::vector<Ticks> turned(values.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column)
      turned[column * rows + row] = values[row * columns + column];
  }
  const TableId result = intern(std::move(turned));
  transposes_.emplace(key, result);
  return result;
}

void TableStore::truncate(std::size_t size) {
  while (tables_.size() > size) {
    const auto [begin, end] = by_hash_.equal_range(hashes_.back());
    for (auto candidate = begin; candidate != end; ++candidate) {
      if (candidate->second == tables_.size() - 1) {
        by_hash_.erase(candidate);
        break;
      }
    }
    tables_.pop_back();
    hashes_.pop_back();
  }
  std::erase_if(transposes_, [size](const auto& entry) { return entry.second >= size || (entry.first >> 32) >= size; });
}

}  // namespace meshwright::elimination
