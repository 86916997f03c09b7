// Values without a gradient: masks, positions, token numbers. Each use has its own copy, made in the layout that it
// wants (DESIGN §2); this prices the making. Sources (what the user feeds, buffers, constants) are at hand in any
// layout. Private to the kernel.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "meshwright/strategy.h"
#include "strategy/alike.h"

namespace meshwright {

// The number of each way to make a constant, by what it depends on.
using ConstantKinds = std::map<std::string, std::uint32_t>;

class ConstantPricer {
 public:
  // Of the training graph; both outlive it.
  ConstantPricer(const ProblemInput& input, ConstantKinds& kinds);

  // Seconds to make `value`, which has no gradient, in `layout` on every device; the least over the strategies of the
  // nodes that it depends on. A value with several uses counts for each with its part: what is used twice at each of forty
  // steps would else cost 2^40 times.
  double seconds(ValueId value, const Layout& layout) { return made(value, layout).seconds; }

  // What one of its uses pays of that.
  double share(ValueId value, const Layout& layout) { return seconds(value, layout) / uses_[value]; }
  [[nodiscard]] std::uint32_t uses(ValueId value) const { return uses_[value]; }

  // The same number for values that cost the same in each layout, because they are made alike, in all problems that number by the same kinds.
  std::uint32_t kind(ValueId value);

  // How its producer makes it then, whose result may have to be sliced; null for what is at hand.
  const CallLayouts* call(ValueId value, const Layout& layout) { return made(value, layout).call; }

 private:
  struct Way {
    CallLayouts call;
    double seconds = 0;  // without its operands
  };
  struct Made {
    double seconds = 0;
    const CallLayouts* call = nullptr;  // none for a source
  };

  // Whether it is at hand in any layout: a source, or made by a variable of the problem.
  [[nodiscard]] bool is_at_hand(ValueId value) const;
  Made made(ValueId value, const Layout& layout);
  Made make(ValueId value, const Layout& layout);
  // The ways to make what a node yields.
  const std::vector<Way>& ways(NodeId id);

  [[nodiscard]] std::string shape_key(ValueId value) const {
    return meshwright::shape_key(graph_.type(value).dtype, atoms_.values[value]);
  }

  const ProblemInput& input_;
  const Graph& graph_;
  const AtomizedGraph& atoms_;
  const Mesh& mesh_;
  const CostProfile& profile_;
  std::vector<std::uint32_t> uses_;  // by value
  std::map<std::pair<ValueId, Layout>, Made> known_;
  std::map<NodeId, std::vector<Way>> ways_;
  std::map<ValueId, std::uint32_t> kinds_;
  ConstantKinds& kind_of_key_;
};

}  // namespace meshwright
