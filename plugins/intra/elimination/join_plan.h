// What is joined with what when the variables are eliminated in an order: bucket elimination (Dechter, "Bucket
// elimination: a unifying framework for reasoning", 1999). It depends on the graph alone, not on costs, so every pass
// over the same problem shares one plan.
//
// Where a bucket's joint table would exceed the limit, the bucket is split into mini-buckets (Dechter and Rish, 2003):
// each minimizes the variable for itself, so the sum is a lower bound and no longer exact.
#pragma once

#include <cstdint>
#include <vector>

#include "order.h"
#include "problem.h"

namespace meshwright::elimination {

struct Component {
  bool is_message = false;               // else a pair
  std::uint32_t index = 0;               // of the bucket that sends the message, or of the pair
  bool transposed = false;               // a pair's table is read with its second variable as rows
  std::vector<std::uint32_t> positions;  // for each dimension of the table, where its variable stands in the scope
};

struct Bucket {
  std::uint32_t variable = 0;
  bool has_unary = false;            // the first bucket of a variable holds its own costs
  std::vector<std::uint32_t> scope;  // the variable, then the separator; of that, the largest domain last
  std::vector<Component> components;
  std::vector<std::uint32_t> children;  // the buckets whose messages are among the components
};

struct JoinPlan {
  std::vector<Bucket> buckets;                          // children before parents
  std::vector<std::vector<std::uint32_t>> of_variable;  // its buckets
  std::vector<std::uint32_t> order;
  bool exact = true;
  std::size_t width = 0;
};

// Fails never: a single table with its variable always has a bucket, whatever its size.
JoinPlan make_join_plan(const Problem& problem, const Order& order, double max_table_entries);

}  // namespace meshwright::elimination
