// Commands that become one: products take over what stands behind them (fused_product.h), and what is made early waits
// for the function that reads it.
#include <algorithm>
#include <iterator>
#include <utility>

#include "chains.h"
#include "execution.h"
#include "fused_product.h"
#include "host_product.h"
#include "step_builder.h"

namespace meshwright::cuda {

namespace {

// What an instruction has in scratch is its own while it runs.
void add_all_but_scratch(const Launch& launch, const Range& scratch, Touched& touched) {
  const auto add = [&](const std::vector<Range>& ranges, std::vector<Range>& to) {
    std::ranges::copy_if(ranges, std::back_inserter(to), [&](const Range& range) {
      return range.begin < scratch.begin || range.begin >= scratch.begin + scratch.bytes;
    });
  };
  add(launch.reads, touched.reads);
  add(launch.writes, touched.writes);
}

// By commands of an instruction that are launches and products of the compute stream alone. Nothing: they are not.
std::optional<Touched> touched_by(const std::vector<Command>& commands, const Range& scratch) {
  Touched touched;
  for (const Command& command : commands) {
    const auto* launch = std::get_if<Launch>(&command.what);
    const auto* product = std::get_if<Product>(&command.what);
    if (command.stream != kCompute || (launch == nullptr && product == nullptr)) return std::nullopt;
    add_all_but_scratch(launch != nullptr ? *launch : launch_of(*product), scratch, touched);
  }
  return touched;
}

// What it makes last.
const std::byte* result_of(const Command& command) {
  if (const auto* product = std::get_if<Product>(&command.what)) return product->result;
  const auto* launch = std::get_if<Launch>(&command.what);
  if (launch == nullptr || launch->kernel != KernelId::chain) return nullptr;
  const ChainArguments chain = arguments_of(*launch);
  return static_cast<const std::byte*>(chain.link[chain.links - 1].result);
}

}  // namespace

// The step whose commands make what stands at `made`, by a product or a chain at last, if they may as well run just
// before those of `step`: between both are launches and products of the compute stream, no event and no wait, and none
// of these touches what it writes or writes what it reads.
std::optional<std::size_t> StepBuilder::maker_before(std::size_t step, const std::byte* made) const {
  constexpr int kFarthest = 8;  // steps that do something
  const Range scratch{block_.scratch(kCompute), block_.scratch_bytes[kCompute]};
  Touched between;
  for (int passed = 0; passed < kFarthest && step-- > 0;) {
    const std::vector<Command>& commands = made_.commands[step];
    if (commands.empty()) continue;
    const std::optional<Touched> touched = touched_by(commands, scratch);
    if (!touched) return std::nullopt;
    if (result_of(commands.back()) == made) return conflict(*touched, between) ? std::nullopt : std::optional(step);
    between.reads.insert(between.reads.end(), touched->reads.begin(), touched->reads.end());
    between.writes.insert(between.writes.end(), touched->writes.begin(), touched->writes.end());
    ++passed;
  }
  return std::nullopt;
}

// With a chain that makes one of its operands: both run here.
void StepBuilder::join_with_earlier(Launch& chain) {
  const ChainArguments arguments = arguments_of(chain);
  const ChainLink& link = arguments.link[0];
  for (int o = 0; o < link.operands; ++o) {
    const std::optional<std::size_t> earlier = maker_before(step_, static_cast<const std::byte*>(link.operand[o]));
    if (!earlier || made_.commands[*earlier].size() != 1) continue;
    const auto* made = std::get_if<Launch>(&made_.commands[*earlier].back().what);
    std::optional<Launch> both = made != nullptr ? joined(*made, chain) : std::nullopt;
    if (!both) continue;
    made_.commands[*earlier].clear();
    chain = std::move(*both);
    return;
  }
}

// A step's only command, and the product that makes what it reads. What is made of them runs where the chain did, as a
// chain runs where it ends, and behind what the product's instruction does first. `unread`: the product's result, which
// nobody else reads; null: it is kept, and the product stands directly before.
Status StepBuilder::fuse_into_product(std::size_t step, const std::byte* unread) {
  if (!plans_.product || stream_ != kCompute || made_.commands[step].size() != 1) return Done{};
  Command& chain = made_.commands[step].back();
  const auto* launch = std::get_if<Launch>(&chain.what);
  if (launch == nullptr || launch->kernel != KernelId::chain || chain.stream != kCompute) return Done{};
  std::optional<std::size_t> before;
  if (unread != nullptr) {
    before = maker_before(step, unread);
  } else {
    for (std::size_t each = step; each > 0 && !before;) {
      if (!made_.commands[--each].empty()) before = each;
    }
  }
  if (!before) return Done{};
  std::vector<Command>& makes = made_.commands[*before];
  const auto* product = std::get_if<Product>(&makes.back().what);
  if (product == nullptr || makes.back().stream != kCompute) return Done{};
  std::optional<Product> fused = with_activation(*product, *launch, unread == nullptr);
  if (!fused && unread != nullptr) fused = with_addend(*product, *launch);
  if (!fused || overwrites_itself(*fused)) return Done{};
  const Result<std::optional<std::size_t>> workspace = plans_.product(fused->shape);
  if (!workspace) return workspace.error();
  if (!*workspace) return Done{};
  fused->workspace_bytes = **workspace;
  scratch_used_ = std::max(scratch_behind_[*before], scratch_behind_[step]);
  if (fused->workspace_bytes > product->workspace_bytes)
    fused->workspace = workspace_in([this](std::size_t bytes) { return scratch(bytes); }, fused->workspace_bytes);
  scratch_behind_[step] = scratch_used_;
  makes.back().what = *fused;
  if (chain_ == &made_.commands[step]) chain_ = nullptr;
  made_.commands[step] = std::exchange(makes, {});
  return Done{};
}

// What `drop` has left, with operands that are kept. (Where the operand is dropped, both become one even if the chain
// would have gone on: its rest reads the first link's result from memory where that read the operand, and no more bytes
// move than before. An operand that is kept is written in any case; so this pays only where the activation
// ends its chain, since what one makes in the middle may never be written.)
Status StepBuilder::fuse_kept_activations() {
  for (std::size_t step = 0; step < made_.commands.size(); ++step) {
    if (Status status = fuse_into_product(step, nullptr); !status)
      return add_context(describe(program_, steps_[step]), status.error());
  }
  return Done{};
}

}  // namespace meshwright::cuda
