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
  Odometer(const std::vector<std::size_t>& domains, const std::vector<const std::vector<std::size_t>*>& strides)
      : domains_(domains), digits_(domains.size(), 0), offsets_(strides.size(), 0) {
    for (std::size_t d = 0; d < domains.size(); ++d) {
      for (const std::vector<std::size_t>* of_table : strides) strides_.push_back((*of_table)[d]);
    }
  }

  [[nodiscard]] std::size_t offset(std::size_t table) const { return offsets_[table]; }

  bool next() {
    for (std::size_t d = domains_.size() - 1; d-- > 0;) {
      const std::size_t* stride = strides_.data() + d * offsets_.size();
      ++digits_[d];
      for (std::size_t t = 0; t < offsets_.size(); ++t) offsets_[t] += stride[t];
      if (digits_[d] < domains_[d]) return true;
      digits_[d] = 0;
      for (std::size_t t = 0; t < offsets_.size(); ++t) offsets_[t] -= stride[t] * domains_[d];
    }
    return false;
  }

 private:
  const std::vector<std::size_t>& domains_;
  std::vector<std::size_t> strides_;  // by variable, then table
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

// target[i] = min(target[i], base + a[i] + b[i] + c[i])
MESHWRIGHT_WIDE_VECTORS void minimize_three(Ticks* __restrict target, std::size_t count, Ticks base, const Ticks* __restrict a,
                               const Ticks* __restrict b, const Ticks* __restrict c) {
  for (std::size_t i = 0; i < count; ++i) {
    const Ticks cost = base + a[i] + b[i] + c[i];
    target[i] = cost < target[i] ? cost : target[i];
  }
}

// sum[i] = min(kForbidden, sum[i] + a[i])
MESHWRIGHT_WIDE_VECTORS void add_row(Ticks* __restrict sum, std::size_t count, const Ticks* __restrict a) {
  for (std::size_t i = 0; i < count; ++i) {
    const Ticks cost = sum[i] + a[i];
    sum[i] = cost < kForbidden ? cost : kForbidden;
  }
}

// target[i] = min(target[i], base + Σ rows[i]). Three rows at most: more are added up first, with saturation.
void minimize_row(Ticks* target, std::size_t count, Ticks base, const std::vector<const Ticks*>& rows,
                  std::vector<Ticks>& sum) {
  if (rows.size() > 3) {
    std::copy_n(rows[2], count, sum.data());
    for (std::size_t r = 3; r < rows.size(); ++r) add_row(sum.data(), count, rows[r]);
    minimize_three(target, count, base, rows[0], rows[1], sum.data());
  } else if (rows.size() == 3) {
    minimize_three(target, count, base, rows[0], rows[1], rows[2]);
  } else if (rows.size() == 2) {
    minimize_two(target, count, base, rows[0], rows[1]);
  } else if (rows.size() == 1) {
    minimize_one(target, count, base, rows[0]);
  } else {
    for (std::size_t i = 0; i < count; ++i) target[i] = std::min(target[i], base);
  }
}

// The variables of a scope from `first` on as loops: neighbours that every table steps along as if they were one are one.
struct Loops {
  std::vector<std::size_t> domains;
  std::vector<std::vector<std::size_t>> strides;  // by table, the last is the target's
};

Loops make_loops(const std::vector<std::size_t>& domains, const std::vector<Strided>& tables, std::size_t first) {
  Loops loops;
  loops.strides.resize(tables.size() + 1);
  std::size_t target_stride = 1;
  for (std::size_t d = domains.size(); d-- > first;) {
    std::vector<std::size_t> here;
    for (const Strided& table : tables) here.push_back(table.strides[d]);
    here.push_back(target_stride);
    target_stride *= domains[d];
    const auto steps_on = [&](std::size_t table) { return here[table] == loops.strides[table].back() * loops.domains.back(); };
    bool is_one = !loops.domains.empty();
    for (std::size_t t = 0; t < here.size() && is_one; ++t) is_one = steps_on(t);
    if (is_one) {
      loops.domains.back() *= domains[d];
      continue;
    }
    loops.domains.push_back(domains[d]);
    for (std::size_t t = 0; t < here.size(); ++t) loops.strides[t].push_back(here[t]);
  }
  std::ranges::reverse(loops.domains);
  for (std::vector<std::size_t>& of_table : loops.strides) std::ranges::reverse(of_table);
  return loops;
}

// Adds up all tables over the scope, and minimizes over the variables before `first`: none, or the first one. It is the innermost loop but the rows, so that a row of the result is done before the next.
std::vector<Ticks> join_from(const JoinInput& input, std::size_t first) {
  std::vector<Strided> tables;
  for (const JoinTable& table : input.tables) tables.push_back(make_strided(table, input.domains));
  const Loops loops = make_loops(input.domains, tables, first);
  const std::size_t inner = loops.domains.back(), minimized = first == 0 ? 1 : input.domains.front();
  std::vector<std::size_t> in_rows, in_base;  // tables that depend on the last loop, and others
  std::vector<const std::vector<std::size_t>*> strides;
  for (std::size_t t = 0; t < tables.size(); ++t) (loops.strides[t].back() == 0 ? in_base : in_rows).push_back(t);
  for (const std::vector<std::size_t>& of_table : loops.strides) strides.push_back(&of_table);
  std::vector<Ticks> result(entries(input) / minimized, kForbidden), sum(inner);
  std::vector<const Ticks*> rows(in_rows.size());
  Odometer odometer(loops.domains, strides);
  do {
    const auto at = [&](std::size_t table, std::size_t value) { return tables[table].data + odometer.offset(table) + value * tables[table].strides.front(); };
    Ticks* target = result.data() + odometer.offset(tables.size());
    for (std::size_t value = 0; value < minimized; ++value) {
      Ticks base = 0;
      for (const std::size_t table : in_base) base = std::min(kForbidden, base + *at(table, value));
      if (base >= kForbidden) continue;
      for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = at(in_rows[r], value);
      minimize_row(target, inner, base, rows, sum);
    }
  } while (odometer.next());
  return result;
}

}  // namespace

std::size_t entries(const JoinInput& input) {
  std::size_t count = 1;
  for (const std::size_t domain : input.domains) count *= domain;
  return count;
}

std::vector<Ticks> join_and_minimize(const JoinInput& input) {
  if (input.domains.size() > 1) return join_from(input, 1);
  const std::vector<Ticks> joined = join_from(input, 0);
  return {*std::ranges::min_element(joined)};
}

std::vector<Ticks> join(const JoinInput& input) { return join_from(input, 0); }

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
