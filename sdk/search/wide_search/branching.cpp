#include "branching.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "search_state.h"

namespace meshwright {

namespace {

constexpr int kLeafSteps = 100;           // of a leaf's ascent
constexpr std::size_t kSplitAtOnce = 4;   // leaves, so that two threads seldom wait for each other
constexpr std::size_t kMostHeld = std::size_t{1} << 28;  // numbers in all open leaves: 2 GiB
constexpr std::size_t kLeastLeaves = 16;

// Numbers in a leaf: messages, and what each strategy costs and holds.
std::size_t held_by_leaf(const CompactSpace& space) {
  std::size_t held = 3 * space.strategies();
  for (const CompactSpace::Edge& edge : space.edges()) held += space.domain(edge.first) + space.domain(edge.second) + 10;
  return held;
}

}  // namespace

Branching::Branching(const CompactSpace& space, const PriceAscent& root, double goal)
    : space_(space), goal_(goal), most_leaves_(std::max(kLeastLeaves, kMostHeld / held_by_leaf(space))) {
  root_ = std::make_shared<Leaf>(Leaf{root, ByteSwings(space), root.bound()});
}

double Branching::bound() const {
  if (root_) return std::min(root_->bound, goal_ + 1);
  const double open = open_.empty() ? kNever : open_.front()->bound;
  return std::min({open, ended_cost_, goal_ + 1});
}

bool Branching::is_done() const { return !root_ && (open_.empty() || open_.front()->bound >= ended_cost_); }

void Branching::push(std::shared_ptr<const Leaf> leaf) {
  open_.push_back(std::move(leaf));
  std::push_heap(open_.begin(), open_.end(), [](const auto& a, const auto& b) { return a->bound > b->bound; });
}

// The halves of the lowest leaves. A leaf that cannot be split is one choice.
std::vector<Branching::Task> Branching::next_tasks() {
  if (root_) return {{std::move(root_), {}}};
  std::vector<Task> tasks;
  while (!is_full() && !is_done() && tasks.size() < 2 * kSplitAtOnce) {
    std::pop_heap(open_.begin(), open_.end(), [](const auto& a, const auto& b) { return a->bound > b->bound; });
    const std::shared_ptr<const Leaf> leaf = std::move(open_.back());
    open_.pop_back();
    const std::optional<ByteSwings::Split> split = leaf->swings.split(leaf->ascent);
    work_ += static_cast<std::int64_t>(space_.strategies());
    if (!split) {
      end(*leaf);
      continue;
    }
    tasks.push_back({leaf, split->heavy});
    tasks.push_back({leaf, split->light});
  }
  return tasks;
}

void Branching::end(const Leaf& leaf) {
  std::vector<std::uint32_t> choice;
  for (std::uint32_t node = 0; node < space_.size(); ++node) {
    std::uint32_t s = 0;
    while (leaf.ascent.messages().is_excluded(space_.offset(node) + s)) ++s;
    choice.push_back(s);
  }
  const SearchState state(space_, choice);
  work_ += space_.entries();
  if (!state.fits() || !state.is_allowed() || state.cost() >= std::min(ended_cost_, goal_ + 1)) return;
  ended_cost_ = state.cost();
  choice_ = std::move(choice);
}

std::unique_ptr<Branching::Leaf> Branching::make(const Task& task, const std::function<bool()>& is_late) const {
  auto leaf = std::make_unique<Leaf>(Leaf{task.parent->ascent.without(task.dropped), task.parent->swings, 0});
  leaf->ascent.set_most_cost(goal_);
  for (int step = 0; step < kLeafSteps && leaf->ascent.bound() <= goal_ && !is_late(); ++step) {
    leaf->ascent.step(goal_ + 1);
    leaf->swings.note(leaf->ascent);
  }
  leaf->bound = std::max(task.parent->bound, leaf->ascent.bound());
  return leaf;
}

void Branching::grow(bool two_threads, const std::function<bool()>& is_late) {
  const std::vector<Task> tasks = next_tasks();
  std::vector<std::unique_ptr<Leaf>> made(tasks.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < tasks.size(); i = next++) made[i] = make(tasks[i], is_late);
  };
  if (two_threads && tasks.size() > 1) {
    std::thread thread(work);
    work();
    thread.join();
  } else {
    work();
  }
  for (std::unique_ptr<Leaf>& leaf : made) {
    work_ += leaf->ascent.work();
    if (leaf->bound <= goal_) push(std::move(leaf));
  }
}

}  // namespace meshwright
