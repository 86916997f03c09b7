// What is put into a table, or added to it, at rows that positions name: positions are sorted by their row, and those
// of one row follow each other then, as a run. A frequent row's run is long, so that runs are summed in pieces. Threads
// that follow each other have neighbouring columns. Sums are made in one order, whoever makes them. Products, maxima
// and minima are made as sums are.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

// What becomes of the numbers that are put at one place.
enum class Put : int32_t { overwrite, sum, mean, product, maximum, minimum };

template <class Real>
MESHWRIGHT_DEVICE Real put_together(Put put, Real held, Real added) {
  switch (put) {
    case Put::overwrite:
      return added;
    case Put::product:
      return held * added;
    case Put::maximum:
      return held < added ? added : held;
    case Put::minimum:
      return added < held ? added : held;
    default:
      return held + added;
  }
}

struct RunArguments {
  static constexpr int64_t kPiece = 64;  // positions that a thread sums
  int64_t positions = 0;
  int64_t* starts = nullptr;  // sorted: where the row stands in the table; -1: the position names none
  int64_t* order = nullptr;   // which position has this place of the sorted ones
  int64_t columns = 1;
  Sizes position_sizes, column_sizes;
  int64_t value_strides[kMaxRank] = {}, table_strides[kMaxRank] = {};  // of the columns
  Put put = Put::sum;
  bool includes_self = true;       // what the table holds takes part, but in what is overwritten
  double alpha = 1;                // of what a sum adds
  View values;                     // strides of the positions
  int64_t* rows = nullptr;         // by position the row of the values that it has; null: its own
  const double* shares = nullptr;  // by position what its values are multiplied with; null: 1
  View table;
  View parts;  // pieces × 2 × columns: of a run that began in an earlier piece; of one that begins here and goes on
};

MESHWRIGHT_DEVICE int64_t pieces_of(const RunArguments& a) {
  return (a.positions + RunArguments::kPiece - 1) / RunArguments::kPiece;
}

// The first sorted place whose row does not begin before `start`.
MESHWRIGHT_DEVICE int64_t first_place(const RunArguments& a, int64_t start) {
  int64_t first = 0, behind = a.positions;
  while (first < behind) {
    const int64_t middle = (first + behind) / 2;
    if (a.starts[middle] < start)
      first = middle + 1;
    else
      behind = middle;
  }
  return first;
}

// `made`: of all positions of the row that begins there.
template <class Type>
MESHWRIGHT_DEVICE void finish_run(Type, const RunArguments& a, int64_t start, int64_t column,
                                  typename Type::Real made) {
  using Real = typename Type::Real;
  const int64_t at = start + offset_of(a.column_sizes, a.table_strides, column);
  const bool includes_self = a.includes_self && a.put != Put::overwrite;
  if (a.put == Put::sum) made *= static_cast<Real>(a.alpha);
  if (includes_self) made = put_together(a.put, Type::load(a.table, at), made);
  if (a.put == Put::mean)
    made /= static_cast<Real>(first_place(a, start + 1) - first_place(a, start) + (includes_self ? 1 : 0));
  Type::store(a.table, at, made);
}

template <class Type>
MESHWRIGHT_DEVICE typename Type::Real value_of(Type, const RunArguments& a, int64_t first, int64_t position) {
  using Real = typename Type::Real;
  const int64_t row = a.rows != nullptr ? a.rows[position] * a.values.strides[0]
                                        : offset_of(a.position_sizes, a.values.strides, position);
  const Real value = Type::load(a.values, first + row);
  return a.shares != nullptr ? value * static_cast<Real>(a.shares[position]) : value;
}

template <class Type>
MESHWRIGHT_DEVICE void sum_piece(Type, const RunArguments& a, int64_t index) {
  using Real = typename Type::Real;
  constexpr int kSome = 8;  // that are read together
  const int64_t piece = quotient(index, a.columns), column = index - piece * a.columns,
                begin = piece * RunArguments::kPiece, next = begin + RunArguments::kPiece,
                end = next < a.positions ? next : a.positions,
                first = offset_of(a.column_sizes, a.value_strides, column);
  Real made = 0;
  bool begins = true;  // the next number is the first of `made`
  for (int64_t some = begin; some < end; some += kSome) {
    Real numbers[kSome];
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kSome; ++i) {
      const int64_t at = some + i;
      numbers[i] = 0;
      if (at < end && a.starts[at] >= 0) numbers[i] = value_of(Type(), a, first, a.order[at]);
    }
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kSome; ++i) {
      const int64_t at = some + i;
      if (at >= end || a.starts[at] < 0) continue;
      made = begins ? numbers[i] : put_together(a.put, made, numbers[i]);
      begins = false;
      const bool goes_on = at + 1 < a.positions && a.starts[at + 1] == a.starts[at];
      if (goes_on && at + 1 < end) continue;
      const bool is_later = begin > 0 && a.starts[begin - 1] == a.starts[at];
      if (is_later || goes_on)
        store(a.parts, (2 * piece + (is_later ? 0 : 1)) * a.columns + column, made);
      else
        finish_run(Type(), a, a.starts[at], column, made);
      begins = true;
    }
  }
}

// One index a piece and a column.
MESHWRIGHT_KERNEL(sum_runs, RunArguments) {
  by_type([&](auto type) { sum_piece(type, arguments, index); }, arguments.values, arguments.table);
}

template <class Type>
MESHWRIGHT_DEVICE void join_pieces(Type, const RunArguments& a, int64_t index) {
  using Real = typename Type::Real;
  const int64_t piece = quotient(index, a.columns), column = index - piece * a.columns,
                begin = piece * RunArguments::kPiece, end = begin + RunArguments::kPiece, start = a.starts[end - 1];
  if (start < 0 || a.starts[end] != start || (begin > 0 && a.starts[begin - 1] == start)) return;
  int64_t last = piece + 1, behind = pieces_of(a);  // the last piece that begins with this row
  while (behind - last > 1) {
    const int64_t middle = (last + behind) / 2;
    (a.starts[middle * RunArguments::kPiece] == start ? last : behind) = middle;
  }
  Real made = load<Real>(a.parts, (2 * piece + 1) * a.columns + column);
  MESHWRIGHT_UNROLL_SOME
  for (int64_t part = a.put == Put::overwrite ? last : piece + 1; part <= last; ++part)
    made = put_together(a.put, made, load<Real>(a.parts, 2 * part * a.columns + column));
  finish_run(Type(), a, start, column, made);
}

// One index a piece, but for the last one, and a column: of the run that begins there and goes on behind it.
MESHWRIGHT_KERNEL(join_runs, RunArguments) {
  by_type([&](auto type) { join_pieces(type, arguments, index); }, arguments.values, arguments.table);
}

}  // namespace meshwright::cuda
