#include "join.h"

#include <algorithm>

#include "meshwright/wide_vectors.h"

namespace meshwright::elimination {

namespace {

// A table read along the scope: stride 0 where it does not depend on a variable. Along the last variable of the scope
// the stride is 1 or 0, so that inner loops run over contiguous memory.
struct Strided {
  const Ticks* data = nullptr;
  std::vector<std::size_t> strides;
  std::vector<Ticks> copy;  // owns the data where it had to be rearranged
};

std::vector<std::size_t> strides_of(const JoinTable& table, const std::vector<std::size_t>& domains) {
  std::vector<std::size_t> strides(domains.size(), 0);
  std::size_t stride = 1;
  for (std::size_t i = table.positions->size(); i-- > 0;) {
    strides[(*table.positions)[i]] = stride;
    stride *= domains[(*table.positions)[i]];
  }
  return strides;
}

// Counts through all variables of a scope but the last, and keeps an offset into each table.
class Odometer {
 public:
  Odometer(const std::vector<std::size_t>& domains, std::vector<const std::vector<std::size_t>*> strides)
      : domains_(domains), strides_(std::move(strides)), digits_(domains.size(), 0), offsets_(strides_.size(), 0) {}

  [[nodiscard]] std::size_t offset(std::size_t table) const { return offsets_[table]; }

  bool next() {
    for (std::size_t d = domains_.size() - 1; d-- > 0;) {
      ++digits_[d];
      for (std::size_t t = 0; t < strides_.size(); ++t) offsets_[t] += (*strides_[t])[d];
      if (digits_[d] < domains_[d]) return true;
      digits_[d] = 0;
      for (std::size_t t = 0; t < strides_.size(); ++t) offsets_[t] -= (*strides_[t])[d] * domains_[d];
    }
    return false;
  }

 private:
  const std::vector<std::size_t>& domains_;
  std::vector<const std::vector<std::size_t>*> strides_;
  std::vector<std::size_t> digits_;
  std::vector<std::size_t> offsets_;
};

Strided make_strided(const JoinTable& table, const std::vector<std::size_t>& domains) {
  Strided result;
  result.strides = strides_of(table, domains);
  const std::size_t inner_stride = result.strides.back();
  if (inner_stride <= 1 || domains.back() == 1) {
    result.data = table.values->data();
    if (domains.back() == 1) result.strides.back() = 0;
    return result;
  }
  // Rearranged in the order of the scope.
  std::vector<std::size_t> arranged(domains.size(), 0);
  std::size_t stride = 1;
  for (std::size_t d = domains.size(); d-- > 0;) {
    if (result.strides[d] == 0) continue;
    arranged[d] = stride;
    stride *= domains[d];
  }
  result.copy.resize(table.values->size());
  std::vector<std::size_t> dense = domains;  // of the variables that the table has
  for (std::size_t d = 0; d < dense.size(); ++d) dense[d] = result.strides[d] == 0 ? 1 : dense[d];
  Odometer odometer(dense, {&result.strides, &arranged});
  do {
    const Ticks* from = table.values->data() + odometer.offset(0);
    Ticks* to = result.copy.data() + odometer.offset(1);
    for (std::size_t i = 0; i < dense.back(); ++i) to[i] = from[i * inner_stride];
  } while (odometer.next());
  result.data = result.copy.data();
  result.strides = arranged;
  return result;
}

// Most of a search is spent in these loops.

// target[i] = min(target[i], base + a[i])
MESHWRIGHT_WIDE_VECTORS void minimize_one(Ticks* __restrict target, std::size_t count, Ticks base, const Ticks* __restrict a) {
  for (std::size_t i = 0; i < count; ++i) {
    const Ticks cost = base + a[i];
    target[i] = cost < target[i] ? cost : target[i];
  }
}

// target[i] = min(target[i], base + a[i] + b[i])
MESHWRIGHT_WIDE_VECTORS void minimize_two(Ticks* __restrict target, std::size_t count, Ticks base, const Ticks* __restrict a,
                               const Ticks* __restrict b) {
  for (std::size_t i = 0; i < count; ++i) {
    const Ticks cost = base + a[i] + b[i];
    target[i] = cost < target[i] ? cost : target[i];
  }
}

// target[i] = min(target[i], base + Σ rows[i]). Two rows at most: more are added up first, with saturation.
void minimize_row(Ticks* target, std::size_t count, Ticks base, std::vector<const Ticks*>& rows,
                  std::vector<Ticks>& sum) {
  if (rows.size() > 2) {
    for (std::size_t i = 0; i < count; ++i) sum[i] = rows[0][i];
    for (std::size_t r = 1; r < rows.size(); ++r) {
      for (std::size_t i = 0; i < count; ++i) sum[i] = std::min(kForbidden, sum[i] + rows[r][i]);
    }
    minimize_one(target, count, base, sum.data());
  } else if (rows.size() == 2) {
    minimize_two(target, count, base, rows[0], rows[1]);
  } else if (rows.size() == 1) {
    minimize_one(target, count, base, rows[0]);
  } else {
    for (std::size_t i = 0; i < count; ++i) target[i] = std::min(target[i], base);
  }
}

// Calls visit(base, rows, first offset) for each setting of all variables but the last; base holds what does not
// depend on the last one.
template <class Visit>
void for_each_row(const std::vector<std::size_t>& domains, const std::vector<Strided>& tables,
                  const std::vector<std::size_t>& target_strides, Visit visit) {
  std::vector<const std::vector<std::size_t>*> strides;
  for (const Strided& table : tables) strides.push_back(&table.strides);
  strides.push_back(&target_strides);
  Odometer odometer(domains, std::move(strides));
  std::vector<const Ticks*> rows;
  do {
    Ticks base = 0;
    rows.clear();
    for (std::size_t t = 0; t < tables.size(); ++t) {
      const Ticks* data = tables[t].data + odometer.offset(t);
      if (tables[t].strides.back() == 0) {
        base = std::min(kForbidden, base + *data);
      } else {
        rows.push_back(data);
      }
    }
    visit(base, rows, odometer.offset(tables.size()));
  } while (odometer.next());
}

std::vector<Strided> stride_all(const JoinInput& input) {
  std::vector<Strided> tables;
  tables.reserve(input.tables.size());
  for (const JoinTable& table : input.tables) tables.push_back(make_strided(table, input.domains));
  return tables;
}

// Row-major strides of the scope from dimension `first` on.
std::vector<std::size_t> target_strides(const std::vector<std::size_t>& domains, std::size_t first) {
  std::vector<std::size_t> strides(domains.size(), 0);
  std::size_t stride = 1;
  for (std::size_t d = domains.size(); d-- > first;) {
    strides[d] = stride;
    stride *= domains[d];
  }
  return strides;
}

}  // namespace

std::size_t entries(const JoinInput& input) {
  std::size_t count = 1;
  for (const std::size_t domain : input.domains) count *= domain;
  return count;
}

std::vector<Ticks> join_and_minimize(const JoinInput& input) {
  const std::vector<Strided> tables = stride_all(input);
  const bool alone = input.domains.size() == 1;  // then the variable itself is the last one
  const std::size_t inner = input.domains.back();
  std::vector<Ticks> result(alone ? inner : entries(input) / input.domains.front(), kForbidden);
  std::vector<Ticks> sum(inner);
  for_each_row(input.domains, tables, target_strides(input.domains, 1),
               [&](Ticks base, std::vector<const Ticks*>& rows, std::size_t offset) {
                 if (base < kForbidden) minimize_row(result.data() + offset, inner, base, rows, sum);
               });
  if (alone) return {*std::min_element(result.begin(), result.end())};
  return result;
}

std::vector<Ticks> join(const JoinInput& input) {
  const std::vector<Strided> tables = stride_all(input);
  const std::size_t inner = input.domains.back();
  std::vector<Ticks> result(entries(input), kForbidden);
  std::vector<Ticks> sum(inner);
  for_each_row(input.domains, tables, target_strides(input.domains, 0),
               [&](Ticks base, std::vector<const Ticks*>& rows, std::size_t offset) {
                 if (base < kForbidden) minimize_row(result.data() + offset, inner, base, rows, sum);
               });
  return result;
}

std::vector<Ticks> project(const std::vector<Ticks>& table, const std::vector<std::size_t>& domains,
                           const std::vector<std::uint32_t>& kept) {
  std::vector<std::size_t> strides(domains.size(), 0);
  std::size_t count = 1;
  for (std::size_t i = kept.size(); i-- > 0;) {
    strides[kept[i]] = count;
    count *= domains[kept[i]];
  }
  std::vector<Ticks> result(count, kForbidden);
  const std::size_t step = strides.back();
  std::size_t from = 0;
  Odometer odometer(domains, {&strides});
  do {
    Ticks* to = result.data() + odometer.offset(0);
    for (std::size_t i = 0; i < domains.back(); ++i, ++from) to[i * step] = std::min(to[i * step], table[from]);
  } while (odometer.next());
  return result;
}

}  // namespace meshwright::elimination
